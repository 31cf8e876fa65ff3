"""`trainwright tune` on a real trainer on CPU processes: all layouts once for the truth, then tune from an empty history."""
import argparse
import dataclasses
import json
import pathlib
import sys
import tempfile
from collections.abc import Callable

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools/soak")]

from compared import Steps, run, verdict  # noqa: E402
from recorded import Output  # noqa: E402

BATCH, SEQUENCE, STEPS = 8, 64, 12


@dataclasses.dataclass
class Tuned:
    """What is tuned: layouts as --among reads them, and `one`, of a single process, whose losses all others must have."""
    trainer: str
    ranks: int
    one: str
    layouts: list[str]
    model: pathlib.Path
    words: list[str]  # for launch.sh
    environment: dict[str, str]
    steps_of: Callable[[str], Steps]


def tune(of: Tuned, program: pathlib.Path, layouts: list[str], ranks: int, history: pathlib.Path, trials: int) -> dict:
    among = [word for layout in layouts for word in ("--among", f"{layout},precision=fp32")]
    words = [program, "tune", "run", of.model, "--on", f"{ranks}xH100", "--batch", BATCH, "--seq", SEQUENCE, "--precision", "fp32",
             "--trainer", of.trainer, "--history", history, "--trials", trials, "--steps", STEPS, "--tokens", "1e9", "--start-up", 20,
             *among, "--json", "--", "bash", "{folder}/launch.sh", *of.words]
    return json.loads(run(words, of.environment, errors=None))


class Losses:
    """Whether trials print what one process does."""

    def __init__(self, of: Tuned, program: pathlib.Path, folder: pathlib.Path):
        self.of, self.wrong = of, 0
        tune(of, program, [of.one], 1, folder, 1)
        self.expected = self.of_trial(folder, 1)

    def of_trial(self, history: pathlib.Path, number: int) -> Steps:
        return self.of.steps_of((history / f"trial-{number}/log").read_text())

    def beside(self, history: pathlib.Path, number: int, layout: str) -> str:
        said = verdict(self.of_trial(history, number), self.expected, layout) if self.expected else "differs"
        self.wrong += said == "differs"
        return {"equal": "losses equal", "close": "within 1e-4"}.get(said, "LOSSES DIFFER")


def row(trial: dict, losses: str, layout: str) -> str:
    step = f"{trial['step_seconds']:6.3f} s" if trial["end"] == "ok" else f"{trial['end']:>8}"
    return f"  {step}  {losses:<13}  {layout}"


def compare(of: Tuned, program: pathlib.Path, folder: pathlib.Path, most: int, say: Output) -> int:
    losses, truth = Losses(of, program, folder / "one"), {}

    def told(layout: str) -> str:
        return layout.replace(f"{folder}/", "")  # paths of files
    say("all of them once, for the truth:")
    for number, layout in enumerate(of.layouts):
        history = folder / f"truth-{number}"
        trial = tune(of, program, [layout], of.ranks, history, 1)["trials"][0]
        truth[layout] = trial.get("step_seconds", float("inf"))
        say(row(trial, losses.beside(history, 1, layout), told(layout)))
    answer = tune(of, program, of.layouts, of.ranks, folder / "history", most)
    asked = dict(zip([one["layout"] for one in answer["candidates"]], of.layouts, strict=True))
    say("tune from an empty history:")
    for number, trial in enumerate(answer["trials"], 1):
        layout = asked[trial["layout"]]
        say(row(trial, losses.beside(folder / "history", number, layout), told(layout)))
    best, fastest = asked[answer["best"]["layout"]], min(truth, key=truth.get)
    say(f"stopped after {len(answer['trials'])} of {len(of.layouts)}: {answer['stopped']}")
    say(f"best by tune:      {told(best)}, {truth[best]:.3f} s when all were tried")
    say(f"best by the truth: {told(fastest)}, {truth[fastest]:.3f} s")
    return losses.wrong


def check(name: str, description: str, most: int, begin: Callable[[pathlib.Path, pathlib.Path], Tuned]) -> int:
    """A tool that tunes; `begin` is given the program and an empty folder. Its last output stands in docs/dev/tune.md under that name."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/release/trainwright")
    parser.add_argument("--keep", type=pathlib.Path, help="a new folder for plans, logs and histories")
    parser.add_argument("--record", action="store_true", help="write the output into docs/dev/tune.md")
    arguments = parser.parse_args()
    say = Output()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (arguments.keep or pathlib.Path(temporary) / "runs").absolute()
        folder.mkdir(parents=True)
        wrong = compare(begin(arguments.program.absolute(), folder), arguments.program.absolute(), folder, most, say)
    if arguments.record:
        say.record("dev/tune.md", name)
    return int(wrong > 0)
