#!/usr/bin/env python3
"""Plans for the real torchtitan 0.3.0 on CPU processes: every step's loss and gradient norm against one process.

    tools/trainers/torchtitan_check.py [--program build/release/trainwright] [--python build/torchtitan/bin/python] [--record]

Each case is exported by `trainwright export` and its launch.sh run as it is, ten steps of torchtitan's debug model in
fp32. Losses must equal those of one process in all five printed decimals and gradient norms in all four; where weights are
split over ranks both may be off by 1e-4. The last cases are what export refuses: they must differ. Nine minutes
on two cores; --only takes the cases whose name holds a word. --record writes the table into docs/trainers.md.
"""
import argparse
import pathlib
import sys

from compared import Case, Train, check, export
from torchtitan_place import TorchtitanPlace, steps_of

PLAIN = "loss=loss-parallel"  # its name for plain cross-entropy
ZB4 = ["zb-h1", "--ranks", "4", "--microbatches", "8"]
ZB2 = ["zb-h1", "--ranks", "2", "--microbatches", "8"]
CASES = [
    Case("one process", "mbs=8", ranks=1),
    Case("PP4, ZB-H1 as CSV", f"pp=4,mbs=1,schedule=csv,{PLAIN}", ZB4),
    Case("PP2 x TP2, ZB-H1 as CSV", f"pp=2,tp=2,sp,mbs=1,schedule=csv,{PLAIN}", ZB2),
    Case("PP2 x FSDP2 (ZeRO-3), 1F1B", "pp=2,sharding=fsdp,zero=3,mbs=1"),
    Case("PP2 x FSDP2 (ZeRO-2), V-Half as CSV", f"pp=2,vpp=2,placement=v,sharding=fsdp,zero=2,mbs=1,schedule=csv,{PLAIN}",
         ["v-half", "--ranks", "2", "--microbatches", "4"]),
    Case("PP4, uneven stages", "pp=4,mbs=1,layers=1/3/1/1"),
    Case("PP4 by plan, an order of its own", "pp=4,mbs=1", planned=True),
    Case("refused: PP2, ZB-H1, chunked loss, 2 ranks", f"pp=2,mbs=1,schedule=csv,{PLAIN}", ZB2, ranks=2,
         more=["--module", "tiny_torchtitan", "--config", "tiny"], differs=True),
    Case("refused: PP4, ZB-H1, resharded weights", f"pp=4,mbs=1,schedule=csv,{PLAIN}", ZB4,
         more=["--parallelism.fsdp_reshard_after_forward", "always"], differs=True),
]


def begin(arguments: argparse.Namespace, folder: pathlib.Path) -> Train:
    place = TorchtitanPlace(folder, arguments.python)

    def train(number: int, case: Case) -> str:
        plan = folder / f"plan{number}"
        export(arguments.program, case, folder / "tiny.json", "torchtitan@0.3", plan)
        return place.train(plan, 29600 + number, arguments.steps, case.more)

    return train


if __name__ == "__main__":
    sys.exit(check("torchtitan", __doc__, CASES, steps_of, begin))
