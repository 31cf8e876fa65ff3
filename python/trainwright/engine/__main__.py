"""`python -m trainwright.engine run schedule.csv --ranks 4`: a schedule on the real engine.
`python -m trainwright.engine record llama --output trace.jsonl`: a program's memory as a trace.
`python -m trainwright.engine bench work.json --accelerator H100-SXM --out mine`: kernel timings of a model's own shapes.
"""
import argparse
import importlib.util
import json
import os
import sys

from .bench_command import add_bench
from .group import EngineFailed, EngineGroup
from .job import Job
from .model_options import add_model_options, model_of
from .record_command import add_record
from .schedule_csv import ScheduleError, read_schedule
from .snapshot_command import add_snapshot
from .stage_command import add_record_stage

INSTALL = {"torch": "PyTorch 2.13 (pip install torch)", "transformers": "transformers (pip install transformers)"}

EXAMPLE = """\
example:
  trainwright schedule make zb-h1 --ranks 4 --microbatches 8 --csv zb.csv
  python -m trainwright.engine run zb.csv --ranks 4
  python -m trainwright.engine run zb.csv --ranks 4 --model sleep --seconds 0.04,0.04,0.04 --steps 3

The stages are built, the file is loaded by PyTorch's pipeline runtime, and one step is run by
--ranks processes (Gloo on CPUs, NCCL on GPUs). Gradients and loss are compared with the same model
without a pipeline. Inside a torchrun of your own (several hosts) the same command runs as one of
its processes.

exit status: 0 ran and gradients are right, 1 hung, failed, refused or gradients differ, 2 bad input
"""


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m trainwright.engine", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run a schedule CSV through PyTorch's pipeline runtime",
                              formatter_class=argparse.RawDescriptionHelpFormatter, epilog=EXAMPLE)
    run.add_argument("schedule", help="CSV file, compute_only or compute_comms (found out by itself)")
    run.add_argument("--ranks", type=int, help="number of processes; default: the file's rows")
    run.add_argument("--microbatches", type=int, help="default: the largest in the file, plus one")
    add_model_options(run)
    run.add_argument("--steps", type=int, default=1, help="timed steps")
    run.add_argument("--warmup", type=int, default=1, help="steps before them")
    run.add_argument("--limit", type=float, default=30.0, metavar="SECONDS",
                     help="a rank that waits longer for a peer is reported as hung")
    run.add_argument("--memory", action="store_true", help="count live bytes per rank (slower)")
    run.add_argument("--json", action="store_true", help="everything, as one JSON object")
    run.set_defaults(run=run_schedule)
    add_record(commands)
    add_record_stage(commands)
    add_snapshot(commands)
    add_bench(commands)
    return parser


def job_of(options: argparse.Namespace, text: str) -> Job:
    return Job(csv=text, model=model_of(options), microbatches=options.microbatches, warmup=options.warmup,
               steps=options.steps, limit=options.limit, memory=options.memory, optimizer=options.optimizer)


def run_job(job: Job, ranks: int) -> dict | None:
    """None on the processes of an outer torchrun that have nothing to print."""
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        from .worker import run_once
        return run_once(job)
    with EngineGroup(ranks) as engine:
        return {**engine.run(job), "torch": engine.torch_version}


def report(answer: dict) -> str:
    """The answer for people; every number with its unit."""
    if answer["status"] != "ran":
        lines = [f"{answer['status']}: {answer['error']}"]
        return "\n".join(lines + [f"  rank {one['rank']}: {one['status']}" for one in answer["ranks"]])
    verdict = "right" if answer["gradient_difference"] <= answer["tolerance"] else "WRONG"
    lines = [
        f"{answer['format']}, {len(answer['ranks'])} ranks, {answer['stages']} stages, {answer['microbatches']} micro-batches",
        f"loss {answer['loss']:.12g} (unpipelined {answer['reference_loss']:.12g})",
        f"gradients {verdict}: largest difference {answer['gradient_difference']:.2e} of the tensor's largest entry",
        "step " + ", ".join(f"{1e3 * seconds:.1f} ms" for seconds in answer["step_seconds"]),
    ]
    for one in answer["ranks"]:
        seconds = ", ".join(f"{1e3 * (end - start):.1f} ms" for start, end in one["steps"])
        live = "" if one["live_peak"] is None else f", peak {one['weights'] + one['live_peak']:,} bytes, {one['weights']:,} of them weights"
        stages = [stage for stage, owner in enumerate(answer["rank_of_stage"]) if owner == one["rank"]]
        lines.append(f"  rank {one['rank']}: stages {stages}, {seconds}{live}")
    return "\n".join(lines)


def is_right(answer: dict) -> bool:
    if answer["status"] != "ran" or answer["gradient_difference"] > answer["tolerance"]:
        return False
    return abs(answer["loss"] - answer["reference_loss"]) <= answer["tolerance"] * abs(answer["reference_loss"])


def main(arguments: list[str] | None = None) -> int:
    options = build_parser().parse_args(arguments)
    try:
        return options.run(options)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in INSTALL:
            raise
        print(f"{options.command} needs {INSTALL[package]}", file=sys.stderr)
        return 2


def require(package: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise ModuleNotFoundError(name=package)


def run_schedule(options: argparse.Namespace) -> int:
    try:
        with open(options.schedule, newline="") as file:
            text = file.read()
        schedule = read_schedule(text, options.microbatches)
        if options.ranks not in (None, schedule.ranks):
            raise ScheduleError([f"--ranks {options.ranks}, but the file has {schedule.ranks} rows"])
    except (OSError, UnicodeDecodeError, ScheduleError) as error:
        for fault in getattr(error, "faults", [str(error)])[:20]:
            print(f"{options.schedule}: {fault}", file=sys.stderr)
        return 2
    require("torch")  # Its processes would each fail for want of it.
    try:
        answer = run_job(job_of(options, text), schedule.ranks)
    except ValueError as error:
        print(f"run: {error}", file=sys.stderr)
        return 2
    except EngineFailed as error:
        print(f"the engine did not start: {error}", file=sys.stderr)
        return 1
    if answer is None:
        return 0
    print(json.dumps(answer) if options.json else report(answer))
    return 0 if is_right(answer) else 1


if __name__ == "__main__":
    sys.exit(main())
