#!/usr/bin/env python3
"""`trainwright tune` on the real DeepSpeed 0.19.8 on CPU processes: ZeRO 1, 2 and 3 on two ranks.

    tools/tune_deepspeed.py [--program build/release/trainwright] [--record]

Every layout is exported and run once for the truth (median step by the trainer's own log, as `reconcile` reads it), then
`tune run` starts from an empty history with the same layouts. Every trial's losses must equal those of one process as
tools/deepspeed_runs.py compares them. Ranks share the cores of this host, so a step here says
nothing of accelerators, for which the predictions are: tune has to learn from its trials. --record writes docs/tune.md.
"""
import argparse
import json
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tools/trainers")]

import deepspeed_runs  # noqa: E402
from compared import run, verdict  # noqa: E402
from recorded import Output  # noqa: E402
from tiny_llama import CONFIG  # noqa: E402

BATCH, SEQUENCE, STEPS = 8, 64, 12


class DeepSpeed:
    name, ranks = "deepspeed@0.19", 2
    one = "zero=1,sharding=zero,mbs=8"
    layouts = [f"zero={stage},sharding=zero,mbs=4" for stage in (1, 2, 3)]

    def __init__(self, folder: pathlib.Path):
        folder.mkdir()
        self.model = folder / "tiny.json"
        self.model.write_text(json.dumps(CONFIG))
        self.environment = deepspeed_runs.environment((ROOT / "build/deepspeed/bin/python").absolute(), folder, 29750)
        self.words = ["--steps", "{steps}"]

    steps_of = staticmethod(deepspeed_runs.steps_of)


def trained(trainer, program: str, layout: str, ranks: int, folder: pathlib.Path):
    """What the steps print, and the seconds of one."""
    question = ["--model", trainer.model, "--on", f"{ranks}xH100", "--trainer", trainer.name]
    run([program, "export", f"{layout},precision=fp32", *question, "--batch", BATCH, "--seq", SEQUENCE, "--out", folder],
        trainer.environment)
    words = [word.format(steps=STEPS, folder=folder) for word in trainer.words]
    (folder / "log").write_text(run(["bash", folder / "launch.sh", *words], trainer.environment))
    text = f"{layout},precision=fp32,gbs={BATCH},seq={SEQUENCE}"
    beside = json.loads(run([program, "reconcile", folder / "log", *question, "--layout", text, "--json"], trainer.environment,
                            errors=None))
    return trainer.steps_of((folder / "log").read_text()), beside["step"]["measured"]


def tuned(trainer, program: str, history: pathlib.Path) -> dict:
    among = [word for layout in trainer.layouts for word in ("--among", f"{layout},precision=fp32")]
    words = [program, "tune", "run", trainer.model, "--on", f"{trainer.ranks}xH100", "--batch", BATCH, "--seq", SEQUENCE,
             "--precision", "fp32", "--trainer", trainer.name, "--history", history, "--trials", 6, "--steps", STEPS, "--tokens",
             "1e9", "--start-up", 20, *among, "--json", "--", "bash", "{folder}/launch.sh", *trainer.words]
    return json.loads(run(words, trainer.environment, errors=None))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/release/trainwright")
    parser.add_argument("--keep", type=pathlib.Path, help="a new folder for plans, logs and the history")
    parser.add_argument("--record", action="store_true")
    arguments = parser.parse_args()
    program, say, truth, wrong = str(arguments.program.absolute()), Output(), {}, 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = (arguments.keep or pathlib.Path(temporary) / "runs").absolute()
        trainer = DeepSpeed(folder)
        expected, _ = trained(trainer, program, trainer.one, 1, folder / "one")
        say("all of them once, for the truth:")
        for number, layout in enumerate(trainer.layouts):
            found, truth[layout] = trained(trainer, program, layout, trainer.ranks, folder / f"plan{number}")
            equal = verdict(found, expected, layout) == "equal"
            wrong += not equal
            say(f"  {truth[layout]:6.3f} s  {'losses equal' if equal else 'LOSSES DIFFER'}  {layout}")
        answer = tuned(trainer, program, folder / "history")
        say("tune from an empty history:")
        for number, one in enumerate(answer["trials"], 1):
            log = next((folder / "history").glob(f"trial-{number}/log")).read_text()
            equal = verdict(trainer.steps_of(log), expected, one["layout"]) == "equal"
            wrong += not equal
            say(f"  {one['end']:>4}  {'losses equal' if equal else 'LOSSES DIFFER'}  {one['layout']}")
        say(f"stopped: {answer['stopped']}")
        say(f"best by tune: {answer['best']['layout']}")
        say(f"best by the truth: {min(truth, key=truth.get)}")
    if arguments.record:
        say.record("tune.md", "deepspeed tuned")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
