#!/usr/bin/env python3
"""The recorder against PyTorch's MemTracker on every combination; the last output stands in docs/record.md.

    tools/soak/record_check.py --program build/release/trainwright [--record]

8 models x 4 kinds of checkpointing x 4 optimizers x 1, 2 and 3 steps, on real and on fake tensors:
peak and bytes by category after every step, the program's replay of the written trace, and fake
against real. Some ten minutes; the CI-size form is python/tests/test_record.py.
"""
import argparse
import itertools
import os
import pathlib
import sys
import tempfile
import time
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "python/tests")]

import programs  # noqa: E402
from recorded import Output  # noqa: E402

from trainwright.engine.causal_lm import CHECKPOINTING, OPTIMIZERS  # noqa: E402

STEPS = 3


def check(kind: str, how: str, optimizer: str, fake: bool, path: str) -> dict:
    """One model, three steps."""
    spec = programs.small(kind, how)
    recording = programs.recorded(spec, optimizer, STEPS, fake, path)
    ours = programs.counted(recording)
    theirs = programs.memtracker(spec, optimizer, STEPS, fake)
    faults = programs.memtracker_faults(theirs, ours, how == "reentrant")
    row = {"memtracker": sum({**their, "live": 0} == {**our, "live": 0} for their, our in zip(theirs, ours)), "replay": 0,
           "held": theirs[-1]["live"] - ours[-1]["live"], "as_real": 0}
    if programs.program():
        wrong = programs.replay_faults(recording, programs.replayed(path))
        row["replay"] = not wrong
        faults += wrong
    if fake:
        real = programs.counted(programs.recorded(spec, optimizer, STEPS, fake=False))
        row["as_real"] = sum(one == other for one, other in zip(ours, real))
        faults += ["differs from real"] if ours != real else []
    row["faults"] = [f"{kind} {how} {optimizer} {'fake' if fake else 'real'}: {fault}" for fault in faults]
    return row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", help="the built trainwright; default: TRAINWRIGHT_BINARY")
    parser.add_argument("--models", default=",".join(programs.SIZES), help="separated by commas")
    parser.add_argument("--modes", default="real,fake", help="kinds of tensors")
    parser.add_argument("--in-turn", action="store_true", help="one optimizer per row, in turn, instead of all")
    parser.add_argument("--record", action="store_true", help="write the output into docs/record.md")
    options = parser.parse_args()
    if options.program:
        os.environ["TRAINWRIGHT_BINARY"] = os.path.abspath(options.program)
    warnings.filterwarnings("ignore")
    start, say, faults, total = time.process_time(), Output(), [], 0
    say(f"{'tensors':7} {'model':11} {'checkpointing':13} programs  = MemTracker  MemTracker holds  = replay  = real")
    optimizers = [name for name in OPTIMIZERS if name != "none"]
    with tempfile.TemporaryDirectory() as folder:
        for mode, kind, how in itertools.product(options.modes.split(","), options.models.split(","), CHECKPOINTING):
            turn = (list(programs.SIZES).index(kind) + CHECKPOINTING.index(how)) % len(optimizers)
            chosen = [optimizers[turn]] if options.in_turn else optimizers
            rows = [check(kind, how, optimizer, mode == "fake", f"{folder}/trace.jsonl") for optimizer in chosen]
            sums = {name: sum(row[name] for row in rows) for name in ("memtracker", "replay", "as_real")}
            count = STEPS * len(rows)
            total += count
            say(f"{mode:7} {kind:11} {how:13} {count:8}  {sums['memtracker']:12}  {max(row['held'] for row in rows):10} bytes"
                f"  {sums['replay']:3} of {len(rows)}  {str(sums['as_real']) + f' of {count}' if mode == 'fake' else ''}".rstrip())
            faults += [fault for row in rows for fault in row["faults"]]
    say(f"{total} programs, {len(faults)} faults, {time.process_time() - start:.0f} s of processor time")
    for fault in faults:
        say(fault)
    if options.record:
        say.record("record.md", "matrix")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
