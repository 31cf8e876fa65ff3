#!/usr/bin/env python3
"""`trainwright tune` on the real torchtitan 0.3.0 on CPU processes: twelve layouts and schedules on two ranks.

    tools/trainers/tune_torchtitan.py [--program build/release/trainwright] [--record]

Every layout is tried once for the truth (median step by the trainer's own log), then `tune run` starts from an empty history
with the same layouts, at most six trials. Three pipelines run the order of a file: ZB-H1 and V-Half, which torchtitan has no
name for and tune writes as CSV, and one that `schedule make auto` found. Every trial's losses and gradient norms must be those
of one process in all printed decimals, within 1e-4 where weights are split (TP, FSDP). Ranks share the cores of this host, so
a step here says nothing of accelerators, for which the predictions are: tune has to learn from its trials. Ten minutes on two
cores. --record writes docs/dev/tune.md.
"""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

from compared import run
from torchtitan_place import TorchtitanPlace, steps_of
from tuned import Tuned, check

PLAIN = "loss=loss-parallel"  # its name for plain cross-entropy, which split backwards need (docs/trainers.md)
LAYOUTS = [
    "pp=2,mbs=1", "pp=2,mbs=2", "pp=2,mbs=1,schedule=gpipe", "pp=2,vpp=2,mbs=1,schedule=interleaved-1f1b",
    f"pp=2,mbs=1,schedule=zb-h1,{PLAIN}", f"pp=2,vpp=2,mbs=1,schedule=zb-v,{PLAIN}",
    f"pp=2,vpp=2,mbs=1,schedule=v-half,{PLAIN}", f"pp=2,vpp=2,placement=v,mbs=1,schedule=auto.csv,{PLAIN}",
    "tp=2,mbs=8", "tp=2,sp,mbs=8", "sharding=fsdp,zero=3,mbs=4", "sharding=fsdp,zero=2,mbs=4",
]


def begin(program: pathlib.Path, folder: pathlib.Path) -> Tuned:
    place = TorchtitanPlace(folder, (ROOT / "build/torchtitan/bin/python").absolute())
    # The least time it finds if forward, gradients of inputs and gradients of weights take the same: two stages a rank, in a V.
    run([program, "schedule", "make", "auto", "--ranks", 2, "--microbatches", 8, "--csv", folder / "auto.csv"])
    return Tuned(trainer="torchtitan@0.3", ranks=2, one="mbs=8",
                 layouts=[layout.replace("auto.csv", f"{folder}/auto.csv") for layout in LAYOUTS], model=folder / "tiny.json",
                 words=[*place.words("{steps}"), "--dump_folder", "{folder}/out"], environment=place.environment(29760),
                 steps_of=steps_of)


if __name__ == "__main__":
    sys.exit(check("torchtitan tuned", __doc__, 6, begin))
