"""`python -m trainwright.engine record llama --set hidden_size=1024 --output trace.jsonl`."""
import argparse
import dataclasses
import json
import sys
import time

EXAMPLE = """\
examples:
  python -m trainwright.engine record llama --set hidden_size=8192 --set intermediate_size=28672 \\
      --set num_attention_heads=64 --set num_key_value_heads=8 --set num_hidden_layers=10 \\
      --dtype bfloat16 --sequence 4096 --checkpointing selective --output stage.jsonl
  python -m trainwright.engine record mine.py:build --optimizer adamw-fused --steps 2 --output mine.jsonl
  trainwright replay stage.jsonl

PROGRAM is a model type of transformers with --set for its configuration (or --config FILE), or
FILE.py:FUNCTION, a function without arguments that returns (module, inputs); it is called with fake
tensors unless --real. Checkpointing and sizes are the function's own then.

exit status: 0 recorded, 1 the program failed, 2 bad input
"""


def add_record(commands) -> None:
    parser = commands.add_parser("record", help="record a program's memory as a trace for trainwright replay",
                                 formatter_class=argparse.RawDescriptionHelpFormatter, epilog=EXAMPLE)
    parser.add_argument("program", metavar="PROGRAM", help="a model type (llama, qwen3, gpt2, ...) or FILE.py:FUNCTION")
    parser.add_argument("--output", "-o", required=True, metavar="FILE", help="the trace, JSON lines (docs/trace.md)")
    parser.add_argument("--config", metavar="FILE", help="a config.json of the model")
    parser.add_argument("--set", action="append", default=[], type=_setting, metavar="NAME=VALUE",
                        help="a field of the configuration; may be repeated")
    parser.add_argument("--batch", type=_positive, default=1, help="samples")
    parser.add_argument("--sequence", type=_positive, default=128, help="tokens of a sample")
    parser.add_argument("--dtype", choices=("float32", "bfloat16", "float16"), default="float32")
    parser.add_argument("--attention", choices=("eager", "sdpa"), default="eager")
    parser.add_argument("--checkpointing", choices=("none", "reentrant", "non-reentrant", "selective"), default="none",
                        help="of every layer; selective keeps the results of matrix products")
    parser.add_argument("--optimizer", choices=("none", "sgd", "adamw", "adamw-foreach", "adamw-fused"), default="adamw")
    parser.add_argument("--steps", type=_positive, default=1)
    parser.add_argument("--rounding", type=_positive, default=1, metavar="BYTES",
                        help="count storages rounded up to this; 512 as on a CUDA device")
    parser.add_argument("--real", action="store_true", help="real CPU tensors instead of fake ones")
    parser.add_argument("--json", action="store_true", help="what was counted, as one JSON object")
    parser.set_defaults(run=run_record)


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("a positive integer")
    return value


def _setting(text: str) -> tuple[str, object]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError("NAME=VALUE")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value


def run_record(options: argparse.Namespace) -> int:
    from .causal_lm import OPTIMIZERS
    from .record import record

    start = time.monotonic()
    try:
        program, inputs = _of_file(options) if ".py:" in options.program else _of_transformers(options)
    except ModuleNotFoundError:
        raise  # The command says what to install.
    except Exception as error:  # A configuration that its own class refuses, in whatever way.
        print(f"{options.program}: {type(error).__name__}: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    try:
        recording = record(program, inputs, OPTIMIZERS[options.optimizer], options.steps, path=options.output,
                           name=options.program, rounding=options.rounding)
    except OSError as error:
        print(f"{options.output}: {error}", file=sys.stderr)
        return 2
    except Exception as error:  # The user's program: whatever it raises is its own answer.
        print(f"{options.program} failed while it was recorded: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    answer = {name: value for name, value in dataclasses.asdict(recording).items() if name != "text"}
    print(json.dumps(answer) if options.json else _report(answer, options.output, time.monotonic() - start))
    return 0


def _of_transformers(options: argparse.Namespace):
    import torch

    from .causal_lm import CausalLm, build

    sizes = dict(options.set)
    if options.config:
        with open(options.config) as file:
            # What the file says of itself, and not of the model's size.
            skipped = {"model_type", "architectures", "dtype", "torch_dtype", "transformers_version"}
            sizes = {name: value for name, value in json.load(file).items() if name not in skipped} | sizes
    spec = CausalLm(options.program, sizes, options.batch, options.sequence, getattr(torch, options.dtype),
                    options.checkpointing, options.attention)
    return build(spec, fake=not options.real)


def _of_file(options: argparse.Namespace):
    import torch

    from .causal_lm import CausalLm, tensors_of
    from .own_program import module_of_file

    path, _, function = options.program.rpartition(":")
    module = module_of_file(path)
    with tensors_of(CausalLm(path, dtype=getattr(torch, options.dtype)), fake=not options.real):
        program, inputs = getattr(module, function)()
    return program, inputs


def _report(answer: dict, output: str, seconds: float) -> str:
    kinds = ", ".join(f"{kind} {size:,}" for kind, size in answer["by_kind"].items() if size)
    lines = [f"{answer['ops']:,} ops, {answer['storages']:,} storages, {'fake' if answer['fake'] else 'real'} tensors, {seconds:.1f} s",
             f"peak {answer['peak']:,} bytes ({answer['peak'] / 2**30:.2f} GiB) at op {answer['peak_op']}: {kinds}"]
    lines += [f"  step {number}: {step['live']:,} bytes live after it" for number, step in enumerate(answer["after_step"], 1)]
    return "\n".join(lines + [f"trainwright replay {output} says more"])
