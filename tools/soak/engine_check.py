#!/usr/bin/env python3
"""The engine checks at full size; their last output stands in docs/engine.md.

    tools/soak/engine_check.py gradients   every kind, 2, 4 and 8 ranks, and 1,000 random schedules
    tools/soak/engine_check.py broken      220 broken schedules and what the engine does with them
    tools/soak/engine_check.py time        8 ranks of sleeping stages: measured against simulated

Needs Python with PyTorch, and the program: --program build/release/trainwright. Minutes each; the
CI-size forms are python/tests/test_engine_*.py. --record writes the output into docs/engine.md.
"""
import argparse
import collections
import itertools
import os
import pathlib
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "python/tests")]

import breaking  # noqa: E402
import making  # noqa: E402
import timing  # noqa: E402
from recorded import Output  # noqa: E402

from trainwright.engine import EngineGroup, Job  # noqa: E402


class Gradients:
    """Runs schedules and keeps the worst difference per title."""

    def __init__(self, engine: EngineGroup):
        self.engine = engine
        self.runs: dict[str, int] = collections.Counter()
        self.worst: dict[str, float] = collections.defaultdict(float)

    def run(self, title: str, text: str, microbatches: int, layers: tuple[int, ...]) -> None:
        answer = self.engine.run(Job(csv=text, microbatches=microbatches, limit=60, model={"width": 8, "layers": layers}))
        if breaking.outcome(answer) != "right":
            raise SystemExit(f"{title}, {microbatches} micro-batches: {breaking.outcome(answer)}, {answer.get('error')}\n{text}")
        self.runs[title] += 1
        self.worst[title] = max(self.worst[title], answer["gradient_difference"])


def check_gradients(options, say: Output) -> None:
    with EngineGroup(8) as engine:
        gradients = Gradients(engine)
        for ranks, layers in itertools.product((2, 4, 8), ((1,), (1, 2, 1, 3))):
            for microbatches in (max(1, ranks - 1), ranks, 2 * ranks + 1):
                for title, text in making.all_schedules(ranks, microbatches):
                    gradients.run(title, text, microbatches, layers)
    start = time.monotonic()
    with EngineGroup(4) as engine:
        random = Gradients(engine)
        for seed in range(options.random):
            text, microbatches = making.random_schedule(seed, 4)
            random.run("random", text, microbatches, (1, 2) if seed % 2 else (1,))
    seconds = time.monotonic() - start
    say(f"{'schedule':40} {'runs':>5}  largest difference (of the tensor's largest entry)")
    for title in gradients.runs:
        say(f"{title:40} {gradients.runs[title]:5}  {gradients.worst[title]:.1e}")
    say(f"{'random, 4 ranks, any placement':40} {random.runs['random']:5}  {random.worst['random']:.1e}   "
        f"({seconds:.0f} s, one process group)")


def check_broken(options, say: Output) -> None:
    happened = collections.defaultdict(collections.Counter)
    refused = collections.Counter()
    with EngineGroup(4) as engine:
        for broken in breaking.broken_schedules(options.broken):
            answer = engine.run(Job(csv=broken.text, microbatches=broken.microbatches, limit=1.5, model={"width": 8}))
            key = broken.fault, broken.way
            happened[key][breaking.outcome(answer)] += 1
            refused[key] += making.checker_refuses(broken.text) if making.program() else 0
    say(f"{'fault':21} {'what was done':42} {'refused by check':>16}  on the engine")
    for (fault, way), outcomes in happened.items():
        total = sum(outcomes.values())
        what = ", ".join(f"{name} {count}" for name, count in outcomes.most_common())
        say(f"{fault:21} {way:42} {refused[fault, way]:>9} of {total:3}  {what}")


def check_time(options, say: Output) -> None:
    with EngineGroup(options.ranks) as engine:
        microbatches = 2 * options.ranks
        own = timing.own_cost(engine, options.ranks, (options.seconds * timing.PARTS / 2,) * 3)
        say(f"the engine's own cost: {1e3 * own.action:.2f} ms per action")
        timing.compare_kinds(engine, options.ranks, microbatches, options.seconds, own, say)
        if making.program():
            for title, weights in timing.uneven_models(options.ranks):
                timing.compare_uneven(engine, options.ranks, microbatches, options.seconds, title, weights, own, say)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("gradients", "broken", "time"))
    parser.add_argument("--program", help="the built trainwright; default: TRAINWRIGHT_BINARY")
    parser.add_argument("--random", type=int, default=1000, help="random schedules")
    parser.add_argument("--broken", type=int, default=220, help="broken schedules")
    parser.add_argument("--ranks", type=int, default=8, help="ranks of the timed runs")
    parser.add_argument("--seconds", type=float, default=0.02, help="sleep of F, I and W of a sixth of a rank's work")
    parser.add_argument("--record", action="store_true", help="write the output into docs/engine.md")
    options = parser.parse_args()
    if options.program:
        os.environ["TRAINWRIGHT_BINARY"] = os.path.abspath(options.program)
    say = Output()
    {"gradients": check_gradients, "broken": check_broken, "time": check_time}[options.what](options, say)
    if options.record:
        say.record("engine.md", options.what)


if __name__ == "__main__":
    main()
