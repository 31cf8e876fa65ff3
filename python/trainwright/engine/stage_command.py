"""`python -m trainwright.engine record-stage --stages 4 --layers 1,2,1,3 --output costs.json`."""
import argparse
import dataclasses
import importlib.util
import json
import sys

EXAMPLE = """\
examples:
  python -m trainwright.engine record-stage --stages 4 --layers 1,2,1,3 --output costs.json
  python -m trainwright.engine record-stage mine.py:stages --output costs.json
  trainwright schedule make auto --ranks 4 --microbatches 8 --costs costs.json

Without PROGRAM the stages are those of the command run (--model block). FILE.py:FUNCTION is a function
without arguments that returns (list of modules, input of the first, function of the last output that
gives the loss). Seconds are those of this machine.

exit status: 0 measured, 2 bad input
"""


def add_record_stage(commands) -> None:
    parser = commands.add_parser("record-stage", help="bytes and seconds of pipeline stages, as costs for trainwright schedule",
                                 formatter_class=argparse.RawDescriptionHelpFormatter, epilog=EXAMPLE)
    parser.add_argument("program", metavar="PROGRAM", nargs="?", help="FILE.py:FUNCTION; default: blocks as in run")
    parser.add_argument("--output", "-o", required=True, metavar="FILE", help="the costs, JSON")
    parser.add_argument("--stages", type=int, default=4, help="stages of the block model")
    parser.add_argument("--layers", default="1", metavar="N,N,...", help="blocks of stage 0, 1, ...")
    parser.add_argument("--width", type=int, default=16, help="features of a token")
    parser.add_argument("--sequence", type=int, default=4, help="tokens of a sample")
    parser.add_argument("--microbatch-size", type=int, default=2, help="samples of a micro-batch")
    parser.add_argument("--repeats", type=int, default=5, help="runs; the fastest of each action counts")
    parser.add_argument("--json", action="store_true", help="everything measured, as JSON")
    parser.set_defaults(run=run_record_stage)


def run_record_stage(options: argparse.Namespace) -> int:
    from .stage_costs import costs_json, fastest, measure_stages

    try:
        modules, inputs, loss = _of_file(options.program) if options.program else _blocks(options)
    except (OSError, ValueError, TypeError, AttributeError) as error:
        print(f"{options.program or 'record-stage'}: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    stages = fastest([measure_stages(modules, inputs, loss) for _ in range(options.repeats)])
    with open(options.output, "w") as file:
        json.dump(costs_json(stages, times=True), file)
        file.write("\n")
    if options.json:
        print(json.dumps([dataclasses.asdict(stage) for stage in stages]))
        return 0
    for number, one in enumerate(stages):
        times = ", ".join(f"{kind} {1e3 * seconds:.2f} ms (+{peak:,} bytes)" for kind, seconds, peak in zip("FIW", one.seconds, one.peaks))
        print(f"stage {number}: keeps {one.kept:,} bytes, I releases {one.by_input:,}, W {one.by_weight:,}; {times}")
    return 0


def _blocks(options: argparse.Namespace):
    from .stages import batch, build_stage, mean_squared_loss, model_spec

    layers = [int(part) for part in options.layers.split(",")]
    if min(options.stages, options.repeats, *layers) < 1:
        raise ValueError("--stages, --layers and --repeats are positive")
    spec = model_spec({"layers": layers, "width": options.width, "sequence": options.sequence,
                       "microbatch_size": options.microbatch_size})
    inputs, targets = batch(spec, 1)
    return [build_stage(spec, stage) for stage in range(options.stages)], inputs, lambda output: mean_squared_loss(output, targets)


def _of_file(program: str):
    path, _, function = program.rpartition(":")
    found = importlib.util.spec_from_file_location("staged_program", path)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return getattr(module, function)()
