"""Runs of several layouts against one process: what every step printed, as a table."""
import argparse
import dataclasses
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Callable

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools/soak")]

from recorded import Output  # noqa: E402

MOST_OFF = 1e-4  # where weights are split over ranks, whose norms are summed in another order
Steps = list[tuple[str, str]]  # loss and norm of gradients as printed; "-" where there is none


@dataclasses.dataclass
class Case:
    name: str
    layout: str
    schedule: list[str] | None = None  # of `schedule make`
    ranks: int = 4
    more: list[str] = dataclasses.field(default_factory=list)  # words for the trainer
    differs: bool = False  # it is wrong, and known to be
    planned: bool = False  # of the layout are only the keys that `plan` is given; it finds the rest, and an order


Train = Callable[[int, Case], str]  # the log of a case, which is the so-manieth


def run(words, environment: dict[str, str] | None = None, errors: int | None = subprocess.STDOUT) -> str:
    """What the command printed, errors in between (None: they go to ours); one that fails ends this one."""
    done = subprocess.run([str(word) for word in words], env=os.environ | (environment or {}), text=True, stdout=subprocess.PIPE,
                          stderr=errors, timeout=3600)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}\n{done.stdout[-4000:]}")
    return done.stdout


def largest_differences(found: Steps, expected: Steps) -> list[float]:
    """Of the losses and of the norms, as decimals; infinite where steps are missing."""
    if len(found) != len(expected):
        return [float("inf")] * 2
    pairs = [[(a, b) for a, b in zip(mine, theirs) if "-" not in (a, b)] for mine, theirs in zip(zip(*found), zip(*expected))]
    return [max((round(abs(float(a) - float(b)), 5) for a, b in column), default=0) for column in pairs]


def verdict(found: Steps, expected: Steps, layout: str) -> str:
    """Equal in all printed decimals; with split weights close within 1e-4, of a norm above 1 relative to it."""
    loss, norm = largest_differences(found, expected)
    if loss == norm == 0:
        return "equal"
    split = "tp=" in layout or "fsdp" in layout
    largest = max(1.0, *(float(b) for _, b in expected if b != "-"))
    return "close" if split and loss <= MOST_OFF and norm <= MOST_OFF * largest else "differs"


def compare(cases: list[Case], steps: Callable[[int, Case], Steps], say: Output) -> int:
    """How many are not as they should be; the first case is what the others are compared with."""
    width, expected, wrong = max(len(case.name) for case in cases), None, 0
    say(f"{'layout':<{width}}  loss: first, last  norm: first, last  largest difference of both")
    for number, case in enumerate(cases):
        found = steps(number, case)
        expected = expected or found
        said = verdict(found, expected, case.layout)
        wrong += (said == "differs") != case.differs
        differences = "  ".join(f"{one:.5f}" for one in largest_differences(found, expected))
        say((f"{case.name:<{width}}  {found[0][0]:>7}   {found[-1][0]:>7}  {found[0][1]:>7}  {found[-1][1]:>8}"
             + (f"  {differences}  {said}" if number else "")).rstrip())
    say(f"{len(cases) - 1 - wrong} of {len(cases) - 1} as they should be, by what all {len(expected)} steps print")
    return wrong


def export(program: pathlib.Path, case: Case, model: pathlib.Path, trainer: str, folder: pathlib.Path) -> None:
    """The plan of a case for 8 sequences of 64 tokens in fp32."""
    job = ["--on", f"{case.ranks}xH100", "--batch", "8", "--seq", "64", "--trainer", trainer]
    if case.planned:
        fixed = [word for key in case.layout.split(",") for word in ("--fix", key)]
        run([program, "plan", model, *job, "--precision", "fp32", *fixed, "--export", folder, "--auto-order"])
        return
    words = [program, "export", f"{case.layout},precision=fp32", "--model", model, *job, "--out", folder]
    if case.schedule:
        order = folder.with_suffix(".csv")
        run([program, "schedule", "make", *case.schedule, "--csv", order])
        words += ["--schedule", order]
    run(words)


def check(name: str, description: str, cases: list[Case], steps_of: Callable[[str], Steps],
          begin: Callable[[argparse.Namespace, pathlib.Path], Train]) -> int:
    """A tool that trains the cases of docs/trainers.md's table `name`. `begin` is given the arguments and an empty folder."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/release/trainwright")
    parser.add_argument("--python", type=pathlib.Path, default=ROOT / f"build/{name}/bin/python")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument("--keep", type=pathlib.Path, help="a new folder for plans and logs")
    parser.add_argument("--read", type=pathlib.Path, help="train nothing: the logs that --keep kept")
    parser.add_argument("--record", action="store_true", help="write the table into docs/trainers.md")
    arguments = parser.parse_args()
    arguments.program, arguments.python = arguments.program.absolute(), arguments.python.absolute()
    if not arguments.python.exists():
        print(f"no {arguments.python}: tools/make/make_venv.sh brings it")
        return 77
    say, cases = Output(), cases[:1] + [case for case in cases[1:] if arguments.only in case.name]
    if arguments.read:
        wrong = compare(cases, lambda number, _: steps_of((arguments.read / f"plan{number}/train.log").read_text()), say)
    else:
        with tempfile.TemporaryDirectory() as temporary:
            folder = (arguments.keep or pathlib.Path(temporary) / "runs").absolute()
            folder.mkdir(parents=True)
            train = begin(arguments, folder)

            def steps(number: int, case: Case) -> Steps:
                log = train(number, case)
                (folder / f"plan{number}/train.log").write_text(log)
                return steps_of(log)

            wrong = compare(cases, steps, say)
    if arguments.record:
        say.record("trainers.md", name)
    return int(wrong > 0)
