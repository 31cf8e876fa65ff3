#!/usr/bin/env python3
"""Plans for the real DeepSpeed 0.19.8 on CPU processes: every step's loss and gradient norm against one process.

    tools/deepspeed_runs.py [--program build/release/trainwright] [--python build/deepspeed/bin/python] [--record]

Each case is exported by `trainwright export` and its launch.sh run as it is, with tools/trainers/deepspeed_script.py for the
user's script: ten steps of a tiny Llama in fp32. Losses must equal those of one process in all five printed decimals;
gradient norms in all four, where the engine tells one (it has none without ZeRO). --record writes the table into
docs/trainers.md. tools/deepspeed_check.py counts the bytes that DeepSpeed holds.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tools/trainers")]

from compared import Case, Output, Steps, compare  # noqa: E402

SCRIPT = ROOT / "tools/trainers/deepspeed_script.py"
STEP = re.compile(r"trained step: \d+ loss: ([\d.]+) grad_norm: (-?[\d.]+)")
CASES = [
    Case("one process", "zero=1,sharding=zero,mbs=8", ranks=1),
    Case("ZeRO-1, 2 ranks", "zero=1,sharding=zero,mbs=2", ranks=2),
    Case("ZeRO-2, 2 ranks", "zero=2,sharding=zero,mbs=2", ranks=2),
    Case("ZeRO-3, 2 ranks", "zero=3,sharding=zero,mbs=2", ranks=2),
    Case("ZeRO-3, 4 ranks", "zero=3,sharding=zero,mbs=2", ranks=4),
    Case("PP2, 2 ranks", "pp=2,mbs=1", ranks=2),
    Case("PP2 x DP2, ZeRO-1", "pp=2,zero=1,sharding=zero,mbs=1", ranks=4),
]


def config_text() -> str:
    """CONFIG of the script, which itself needs DeepSpeed to be imported."""
    text = SCRIPT.read_text()
    return json.dumps(eval(text[text.index("CONFIG = {") + 9:text.index("SEQUENCE")], {}))


def environment(python: pathlib.Path, folder: pathlib.Path, port: int) -> dict[str, str]:
    return os.environ | {"PATH": f"{python.parent}:{os.environ['PATH']}", "DS_ACCELERATOR": "cpu", "OMP_NUM_THREADS": "1",
                         "SCRIPT": str(SCRIPT), "MASTER_PORT": str(port), "TORCH_EXTENSIONS_DIR": str(folder / "extensions")}


def run(words, **more) -> str:
    done = subprocess.run([str(word) for word in words], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600,
                          **more)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}\n{done.stdout[-4000:]}")
    return done.stdout


def steps_of(log: str) -> Steps:
    return [(loss, "-" if norm.startswith("-") else norm) for loss, norm in STEP.findall(log)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/release/trainwright")
    parser.add_argument("--python", type=pathlib.Path, default=ROOT / "build/deepspeed/bin/python")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--keep", type=pathlib.Path, help="a new folder for plans and logs")
    parser.add_argument("--read", type=pathlib.Path, help="train nothing: the logs that --keep kept")
    parser.add_argument("--record", action="store_true")
    arguments = parser.parse_args()
    if not arguments.python.exists():
        print(f"no {arguments.python}: tools/make_venv.sh brings it")
        return 77
    say = Output()
    if arguments.read:
        wrong = compare(CASES, lambda number, _: steps_of((arguments.read / f"plan{number}/train.log").read_text()), say)
    else:
        with tempfile.TemporaryDirectory() as temporary:
            place = (arguments.keep or pathlib.Path(temporary) / "runs").absolute()
            place.mkdir(parents=True)
            (place / "tiny.json").write_text(config_text())

            def train(number: int, case: Case) -> Steps:
                folder = place / f"plan{number}"
                run([arguments.program, "export", f"{case.layout},precision=fp32", "--model", place / "tiny.json", "--on",
                     f"{case.ranks}xH100", "--batch", "8", "--seq", "64", "--to", "deepspeed", "--out", folder])
                log = run(["bash", folder / "launch.sh", "--steps", arguments.steps],
                          env=environment(arguments.python.absolute(), place, 29700 + number))
                (folder / "train.log").write_text(log)
                return steps_of(log)

            wrong = compare(CASES, train, say)
    if arguments.record:
        say.record("deepspeed")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
