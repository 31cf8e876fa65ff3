#!/usr/bin/env python3
"""`trainwright tune` on the real DeepSpeed 0.19.8 on CPU processes: ZeRO 1, 2 and 3 on two ranks.

    tools/trainers/tune_deepspeed.py [--program build/release/trainwright] [--record]

Every layout is tried once for the truth (median step by the trainer's own log), then `tune run` starts from an empty history
with the same layouts. Every trial's losses must equal those of one process as tools/trainers/deepspeed_runs.py compares them. Ranks
share the cores of this host, so a step here says nothing of accelerators, for which the predictions are: tune has to learn
from its trials. --record writes docs/dev/tune.md.
"""
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

import deepspeed_runs
from tiny_llama import CONFIG
from tuned import Tuned, check


def begin(program: pathlib.Path, folder: pathlib.Path) -> Tuned:
    del program
    (folder / "tiny.json").write_text(json.dumps(CONFIG))
    return Tuned(trainer="deepspeed@0.19", ranks=2, one="zero=1,sharding=zero,mbs=8",
                 layouts=[f"zero={stage},sharding=zero,mbs=4" for stage in (1, 2, 3)], model=folder / "tiny.json",
                 words=["--steps", "{steps}"],
                 environment=deepspeed_runs.environment((ROOT / "build/deepspeed/bin/python").absolute(), folder, 29750),
                 steps_of=deepspeed_runs.steps_of)


if __name__ == "__main__":
    sys.exit(check("deepspeed tuned", __doc__, 6, begin))
