#!/usr/bin/env python3
"""Plans for the real DeepSpeed 0.19.8 on CPU processes: every step's loss and gradient norm against one process.

    tools/trainers/deepspeed_runs.py [--program build/release/trainwright] [--python build/deepspeed/bin/python] [--record]

Each case is exported by `trainwright export` and its launch.sh run as it is, with tools/trainers/deepspeed_script.py for the
user's script: ten steps of a tiny Llama in fp32. Losses must equal those of one process in all five printed decimals;
gradient norms in all four, where the engine tells one (it has none without ZeRO). --record writes the table into
docs/trainers.md. tools/trainers/deepspeed_check.py counts the bytes that DeepSpeed holds.
"""
import argparse
import json
import os
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

from compared import Case, Steps, Train, check, export, run
from tiny_llama import CONFIG

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


def environment(python: pathlib.Path, folder: pathlib.Path, port: int) -> dict[str, str]:
    return {"PATH": f"{python.parent}:{os.environ['PATH']}", "DS_ACCELERATOR": "cpu", "OMP_NUM_THREADS": "1",
            "SCRIPT": str(ROOT / "tools/trainers/deepspeed_script.py"), "MASTER_PORT": str(port),
            "TORCH_EXTENSIONS_DIR": str(folder / "extensions")}


def steps_of(log: str) -> Steps:
    return [(loss, "-" if norm.startswith("-") else norm) for loss, norm in STEP.findall(log)]


def begin(arguments: argparse.Namespace, folder: pathlib.Path) -> Train:
    (folder / "tiny.json").write_text(json.dumps(CONFIG))

    def train(number: int, case: Case) -> str:
        plan = folder / f"plan{number}"
        export(arguments.program, case, folder / "tiny.json", "deepspeed@0.19", plan)
        return run(["bash", plan / "launch.sh", "--steps", arguments.steps], environment(arguments.python, folder, 29700 + number))

    return train


if __name__ == "__main__":
    sys.exit(check("deepspeed", __doc__, CASES, steps_of, begin))
