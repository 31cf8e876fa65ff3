#!/usr/bin/env python3
"""Plans for the real torchtitan 0.3.0 on CPU processes: every step's loss and gradient norm against one process.

    tools/torchtitan_check.py [--program build/release/trainwright] [--python build/torchtitan/bin/python] [--record]

Each case is exported by `trainwright export` and its launch.sh run as it is, ten steps of torchtitan's debug model in
fp32. Losses must equal those of one process in all five printed decimals and gradient norms in all four; where weights are
split over ranks both may be off by 1e-4. The last cases are what export warns of or refuses: they must differ. Eight minutes
on two cores; --only takes the cases whose name holds a word. --record writes the table into docs/trainers.md.
"""
import argparse
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tools/trainers")]

from compared import Case, Output, Steps, compare  # noqa: E402
from torchtitan_place import TorchtitanPlace, steps_of  # noqa: E402

PLAIN = "loss=loss-parallel"  # its name for plain cross-entropy
ZB4 = ["zb-h1", "--ranks", "4", "--microbatches", "8"]
ZB2 = ["zb-h1", "--ranks", "2", "--microbatches", "8"]
CASES = [
    Case("PP4, ZB-H1 as CSV", f"pp=4,mbs=1,schedule=csv,{PLAIN}", ZB4),
    Case("PP2 x TP2, ZB-H1 as CSV", f"pp=2,tp=2,sp,mbs=1,schedule=csv,{PLAIN}", ZB2),
    Case("PP2 x FSDP2 (ZeRO-3), 1F1B", "pp=2,sharding=fsdp,zero=3,mbs=1"),
    Case("PP2 x FSDP2 (ZeRO-2), V-Half as CSV", f"pp=2,vpp=2,placement=v,sharding=fsdp,zero=2,mbs=1,schedule=csv,{PLAIN}",
         ["v-half", "--ranks", "2", "--microbatches", "4"]),
    Case("PP4, uneven stages", "pp=4,mbs=1,layers=1/3/1/1"),
    Case("warned of: PP2, ZB-H1, chunked loss, 2 ranks", "pp=2,mbs=1,schedule=csv", ZB2, ranks=2, differs=True),
    Case("refused: PP4, ZB-H1, resharded weights", f"pp=4,mbs=1,schedule=csv,{PLAIN}", ZB4,
         more=["--parallelism.fsdp_reshard_after_forward", "always"], differs=True),
]


def exported(program: str, place: TorchtitanPlace, case: Case, folder: pathlib.Path) -> None:
    words = [program, "export", f"{case.layout},precision=fp32", "--model", place.folder / "tiny.json", "--on",
             f"{case.ranks}xH100", "--batch", "8", "--seq", "64", "--trainer", "torchtitan@0.3", "--out", folder]
    if case.schedule:
        order = folder.with_suffix(".csv")
        place.run([program, "schedule", "make", *case.schedule, "--csv", order])
        words += ["--schedule", order]
    place.run(words)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/release/trainwright")
    parser.add_argument("--python", type=pathlib.Path, default=ROOT / "build/torchtitan/bin/python")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument("--keep", type=pathlib.Path, help="a new folder for plans and logs")
    parser.add_argument("--read", type=pathlib.Path, help="train nothing: the logs that --keep kept")
    parser.add_argument("--record", action="store_true")
    arguments = parser.parse_args()
    if not arguments.python.exists():
        print(f"no {arguments.python}: tools/make_venv.sh brings it")
        return 77
    say = Output()
    cases = [Case("one process", "mbs=8", ranks=1)] + [case for case in CASES if arguments.only in case.name]
    if arguments.read:
        wrong = compare(cases, lambda number, _: steps_of((arguments.read / f"plan{number}/train.log").read_text()), say)
    else:
        with tempfile.TemporaryDirectory() as temporary:
            place = TorchtitanPlace((arguments.keep or pathlib.Path(temporary) / "runs").absolute(), arguments.python.absolute())

            def train(number: int, case: Case) -> Steps:
                folder = place.folder / f"plan{number}"
                exported(str(arguments.program.absolute()), place, case, folder)
                return steps_of(place.train(folder, 29600 + number, arguments.steps, case.more))

            wrong = compare(cases, train, say)
    if arguments.record:
        say.record("torchtitan")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
