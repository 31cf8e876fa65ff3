#!/usr/bin/env python3
"""The loop of memory at full size; its last output stands in docs/engine.md.

    tools/soak/loop_check.py --program build/release/trainwright [--record]

Records the stages of a small Llama one by one, makes schedules for four ranks (known kinds, and auto
under three caps), predicts each rank's peak and the step, runs everything on PyTorch's runtime and
compares. Fails unless every rank's measured peak is within 1 % of the predicted one and under its cap,
and unless auto is measured at most 1 % longer than the shortest known kind that fits its cap. About five
minutes; python/tests/test_loop.py is the CI-size form.
"""
import argparse
import os
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "python/tests"), str(ROOT / "tools/soak")]

import loop  # noqa: E402
from recorded import Output  # noqa: E402

from trainwright.engine import EngineGroup  # noqa: E402

MEBIBYTE = 1 << 20


def row(one: loop.Candidate) -> str:
    peaks = " ".join(f"{peak / MEBIBYTE:6.2f}" for peak in one.peaks)
    off = max((b - a for a, b in zip(one.predicted_peaks, one.peaks)), key=abs)
    cap = f"{one.cap / MEBIBYTE:6.2f}" if one.cap else ""
    return (f"{one.title:17} {cap:>6}  {peaks}  {off:+6} bytes  {one.step:6.3f} s  {one.predicted_step:6.3f} s "
            f"{100 * (one.predicted_step / one.step - 1):+5.1f} %")


def caps_of(kinds: list[loop.Candidate]) -> list[int]:
    """Three caps: less than 1F1B needs, what 1F1B needs, and halfway to what ZB-V needs."""
    peak = {one.title: max(one.predicted_peaks) for one in kinds}
    least = min(peak.values())
    return [(least + peak["1f1b"]) // 2 if least < peak["1f1b"] else int(0.9 * peak["1f1b"]), peak["1f1b"],
            (peak["1f1b"] + peak["zb-v"]) // 2]


def judge(kinds: list[loop.Candidate], made: list[loop.Candidate], say: Output) -> bool:
    good = True
    for one in kinds + made:
        good &= one.difference() <= 0.01
    say(f"largest difference of a peak {100 * max(one.difference() for one in kinds + made):.4f} %")
    for auto in made:
        others = [one for one in kinds if loop.fits(one, auto.cap)]
        nearest = min(others, key=lambda one: one.step, default=None)
        under = loop.fits(auto, auto.cap)
        shortest = nearest is None or auto.step <= 1.01 * nearest.step
        good &= under and shortest
        against = "nothing else fits" if nearest is None else (
            f"next is {nearest.title}, {100 * (nearest.step / auto.step - 1):+.1f} % measured, "
            f"{100 * (nearest.predicted_step / auto.predicted_step - 1):+.1f} % predicted; {len(others)} of {len(kinds)} kinds fit")
        say(f"cap {auto.cap / MEBIBYTE:.2f} MiB: auto {'fits' if under else 'DOES NOT FIT'}, {'shortest' if shortest else 'NOT SHORTEST'}; {against}")
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", help="the built trainwright; default: TRAINWRIGHT_BINARY")
    parser.add_argument("--seconds", type=float, default=0.03, help="sleep of F, I and W of a layer")
    parser.add_argument("--rounds", type=int, default=3, help="timed steps of every schedule; the shortest counts")
    parser.add_argument("--record", action="store_true", help="write the output into docs/engine.md")
    options = parser.parse_args()
    if options.program:
        os.environ["TRAINWRIGHT_BINARY"] = os.path.abspath(options.program)
    say = Output()
    with tempfile.TemporaryDirectory() as folder, EngineGroup(loop.RANKS) as engine:
        folder = pathlib.Path(folder)
        costs = {stages: loop.record(folder, stages, options.seconds) for stages in loop.LAYERS}
        own = loop.add_own_cost(folder, costs, engine, options.seconds)
        say(f"the engine's own cost: {1e3 * own:.2f} ms per action")
        kinds = loop.fixed(costs)
        made = [one for cap in caps_of(kinds) if (one := loop.automatic(folder, costs, cap))]
        for one in kinds + made:
            loop.measure_peaks(engine, one)
        loop.measure_steps(engine, kinds + made, options.seconds, options.rounds)
    say(f"{'schedule':17} {'cap':>6}  {'measured peak of rank 0..3, MiB':27}  {'- predicted':>12}  {'step':>8}  {'predicted':>8}")
    for one in kinds + made:
        say(row(one))
    good = judge(kinds, made, say)
    if options.record:
        say.record("engine.md", "loop")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
