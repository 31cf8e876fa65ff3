"""`python -m trainwright.engine record-stage --stages 4 --layers 1,2,1,3 --output costs.json`."""
import argparse
import dataclasses
import json
import sys

from .model_options import add_model_options, model_of
from .own_program import module_of_file

EXAMPLE = """\
examples:
  python -m trainwright.engine record-stage --stages 4 --layers 1,2,1,3 --output costs.json
  python -m trainwright.engine record-stage mine.py:stages --output costs.json
  trainwright schedule make auto --ranks 4 --microbatches 8 --costs costs.json

Without PROGRAM the stages are those of the command run with the same options. FILE.py:FUNCTION is a function
without arguments that returns (list of modules, input of the first, function of the last output that
gives the loss). Seconds are those of this machine.

exit status: 0 measured, 2 bad input
"""


def add_record_stage(commands) -> None:
    parser = commands.add_parser("record-stage", help="bytes and seconds of pipeline stages, as costs for trainwright schedule",
                                 formatter_class=argparse.RawDescriptionHelpFormatter, epilog=EXAMPLE)
    parser.add_argument("program", metavar="PROGRAM", nargs="?", help="FILE.py:FUNCTION; default: blocks as in run")
    parser.add_argument("--output", "-o", required=True, metavar="FILE", help="the costs, JSON")
    parser.add_argument("--stages", type=int, default=4, help="stages of a built-in model")
    add_model_options(parser)
    parser.add_argument("--repeats", type=int, default=5, help="timed runs; the fastest of each action counts")
    parser.add_argument("--action", type=float, default=0.0, metavar="SECONDS", help="the engine's own cost of an action, written into the costs")
    parser.add_argument("--json", action="store_true", help="everything measured, as JSON")
    parser.set_defaults(run=run_record_stage)


def run_record_stage(options: argparse.Namespace) -> int:
    import torch

    from .runtime import OPTIMIZERS
    from .stage_costs import KINDS, costs_json, measure_stages

    try:
        modules, inputs, loss = _of_file(options.program) if options.program else _stages(options)
    except (OSError, ValueError, TypeError, AttributeError) as error:
        print(f"{options.program or 'record-stage'}: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    torch.set_num_threads(1)  # As the processes of `run`.
    stages = measure_stages(modules, inputs, loss, options.repeats, OPTIMIZERS[options.optimizer])
    with open(options.output, "w") as file:
        json.dump(costs_json(stages, times=True, action=options.action), file)
        file.write("\n")
    if options.json:
        print(json.dumps([dataclasses.asdict(stage) for stage in stages]))
        return 0
    for number, one in enumerate(stages):
        times = ", ".join(f"{kind} {1e3 * seconds:.2f} ms (+{peak:,} bytes)" for kind, seconds, peak in zip(KINDS, one.seconds, one.peaks))
        print(f"stage {number}: {one.resident:,} bytes resident, {one.gradients:,} of gradients, keeps {one.kept:,}, "
              f"I releases {one.by_input:,}, W {one.by_weight:,}; {times}")
    return 0


def _stages(options: argparse.Namespace):
    from .stages import batch, build_stage, loss_of, model_spec

    if min(options.stages, options.repeats) < 1:
        raise ValueError("--stages and --repeats are positive")
    spec = model_spec(model_of(options))
    inputs, targets = batch(spec, 1)
    modules = [build_stage(spec, stage, stages=options.stages) for stage in range(options.stages)]
    return modules, inputs, lambda output: loss_of(spec)(output, targets)


def _of_file(program: str):
    path, _, function = program.rpartition(":")
    module = module_of_file(path)
    return getattr(module, function)()
