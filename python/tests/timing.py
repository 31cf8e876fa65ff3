"""Step times of sleeping stages on the engine against simulated ones.

The engine adds a cost of its own to every action (Python, autograd, posting transfers: about a
millisecond here). It is measured in a run of its own (`own_cost`) on schedules that are not among
those compared, and then given to the clock.
"""
import dataclasses
import statistics

import making
import replay

from trainwright.engine import EngineGroup, Job
from trainwright.engine.schedule_csv import schedule_text

Seconds3 = tuple[float, float, float]  # F, I, W


@dataclasses.dataclass(frozen=True)
class OwnCost:
    """Seconds that the engine adds to every action; a transfer of a few kilobytes between processes
    of one host is part of that."""
    action: float = 0.0


def measured(engine: EngineGroup, text: str, microbatches: int, seconds: list[Seconds3], steps: int = 2) -> float:
    """The shorter of a few steps: whatever else runs on the host only ever adds."""
    answer = engine.run(Job(csv=text, microbatches=microbatches, warmup=1, steps=steps, model={"kind": "sleep", "seconds": seconds}))
    assert answer["status"] == "ran" and answer["gradient_difference"] <= 1e-12, answer.get("error")
    return min(answer["step_seconds"])


def own_cost(engine: EngineGroup, ranks: int, seconds: Seconds3, microbatches: int = 6) -> OwnCost:
    """What the clock must add to every action to give the measured step, averaged over calibration
    schedules with one and with two stages per rank, with whole and with split backward."""
    costs = []
    for text in calibration_schedules(ranks, microbatches):
        bare = simulated(text, [seconds])
        per_second = (simulated(text, [seconds], OwnCost(action=1e-3)) - bare) / 1e-3
        costs.append((measured(engine, text, microbatches, [seconds]) - bare) / per_second)
    return OwnCost(action=statistics.mean(costs))


def calibration_schedules(ranks: int, microbatches: int) -> list[str]:
    """Eager forwards, then backwards stage by stage: none of the kinds that are compared."""
    texts = []
    for chunks, backward in ((1, "IW"), (2, "B"), (2, "IW")):
        rows = []
        for rank in range(ranks):
            mine = [rank + chunk * ranks for chunk in range(chunks)]
            row = [f"{s}F{m}" for s in mine for m in range(microbatches)]
            row += [f"{s}{kind}{m}" for s in reversed(mine) for m in range(microbatches) for kind in backward]
            rows.append(row)
        texts.append(schedule_text(rows))
    return texts


def simulated(text: str, seconds: list[Seconds3], own: OwnCost = OwnCost()) -> float:
    """By the program's clock with PyTorch's rules; without a program by the replay, which must
    agree with it."""
    rows = replay.grouped_rows(text)
    stages = 1 + max(action.stage for row in rows for cell in row for action in cell)
    expected = replay.step_time(text, replay.engine_times(stages, seconds, dict.fromkeys("FIWB", own.action)))
    if not making.program():
        return expected
    full = [seconds[stage % len(seconds)] for stage in range(stages)]
    by_clock = making.simulated_step(text, full, own.action)
    # The program prints nine digits.
    assert abs(by_clock - expected) <= 5e-9 * expected, f"clock {by_clock}, replay {expected}\n{text}"
    return by_clock


# One model for all kinds: ranks x PARTS parts of equal time, so that a kind with one chunk per rank
# has stages of six parts, one with two chunks of three, one with three chunks of two.
PARTS = 6


def stage_seconds(weights: list[float], stages: int, part: float) -> list[Seconds3]:
    """F, I, W of every stage when the parts, of given relative weights, are cut evenly."""
    size = len(weights) // stages
    return [(part * sum(weights[s * size : (s + 1) * size]),) * 3 for s in range(stages)]


def stages_of(text: str) -> int:
    return 1 + max(action.stage for row in replay.grouped_rows(text) for cell in row for action in cell)


@dataclasses.dataclass(frozen=True)
class Compared:
    title: str
    measured: float
    bare: float       # simulated without the engine's own cost
    with_cost: float  # simulated with it

    def line(self) -> str:
        return (f"{self.title:39} {self.measured:8.3f} s  {self.bare:8.3f} s {100 * (self.bare / self.measured - 1):+6.1f} %"
                f"  {self.with_cost:8.3f} s {100 * (self.with_cost / self.measured - 1):+6.1f} %")


HEADER = f"{'schedule':39} {'measured':>10}  {'simulated':>10} {'':8}  {'with own cost':>10}"


def compared(engine: EngineGroup, title: str, text: str, microbatches: int, seconds: list[Seconds3], own: OwnCost) -> Compared:
    return Compared(title, measured(engine, text, microbatches, seconds), simulated(text, seconds), simulated(text, seconds, own))


def compare_kinds(engine: EngineGroup, ranks: int, microbatches: int, part: float, own: OwnCost, say=print) -> list[Compared]:
    """Every kind on the same model; a line for each as it comes."""
    weights = [1.0] * (ranks * PARTS)
    say(HEADER)
    rows = []
    for title, text in making.timed_schedules(ranks, microbatches):
        rows.append(compared(engine, title, text, microbatches, stage_seconds(weights, stages_of(text), part), own))
        say(rows[-1].line())
    wrong = inversions(rows)
    say(f"largest error {100 * max(abs(row.with_cost / row.measured - 1) for row in rows):.1f} % "
        f"({100 * max(abs(row.bare / row.measured - 1) for row in rows):.1f} % without own cost); "
        f"{len(wrong)} pairs of kinds in another order" + "".join(f"; {a}, {b}" for a, b in wrong))
    return rows


def inversions(rows: list[Compared], tie: float = 0.01) -> list[tuple[str, str]]:
    """Pairs that the simulation puts in another order than the engine; those that are simulated
    within `tie` of each other have no order."""
    wrong = []
    for i, one in enumerate(rows):
        for two in rows[i + 1 :]:
            if abs(one.with_cost / two.with_cost - 1) > tie and (one.with_cost < two.with_cost) != (one.measured < two.measured):
                wrong.append((one.title, two.title))
    return wrong


def uneven_models(ranks: int) -> list[tuple[str, list[float]]]:
    """A third of a rank's work in the middle twice as slow; a last rank with a heavy head."""
    slow, heavy = [1.0] * (ranks * PARTS), [1.0] * (ranks * PARTS)
    middle = (ranks // 2) * PARTS
    slow[middle : middle + PARTS] = [2.0] * PARTS
    heavy[-PARTS // 2 :] = [2.0] * (PARTS // 2)
    return [("one stage of a rank twice as slow", slow), ("a heavy last stage", heavy)]


# Much more than the simulation is ever off: what is simulated that much longer cannot be the best.
FAR = 0.10


def compare_uneven(engine: EngineGroup, ranks: int, microbatches: int, part: float, title: str, weights: list[float],
                   own: OwnCost, say=print) -> tuple[Compared, Compared]:
    """PyTorch's own schedules and `auto`, one after the other in the same group of processes. As
    PyTorch's have one to three chunks per rank, `auto` may choose among these, by simulated time."""
    say(f"\n{title}")
    say(HEADER)
    expected = {}
    for name, text in making.torch_schedules(ranks, microbatches):
        seconds = stage_seconds(weights, stages_of(text), part)
        expected[name] = simulated(text, seconds, own), text, seconds
    shortest = min(time for time, _, _ in expected.values())
    theirs = []
    for name, (time, text, seconds) in expected.items():
        if time > (1 + FAR) * shortest:
            say(f"{name:39} not run: {100 * (time / shortest - 1):.0f} % longer than the shortest of these by simulation")
            continue
        theirs.append(compared(engine, name, text, microbatches, seconds, own))
        say(theirs[-1].line())
    best = min(theirs, key=lambda row: row.measured)
    made = [(chunks, making.auto_schedule(ranks, microbatches, chunks, stage_seconds(weights, chunks * ranks, part), own.action))
            for chunks in (1, 2, 3)]
    chunks, text = min(made, key=lambda one: simulated(one[1], stage_seconds(weights, one[0] * ranks, part), own))
    auto = compared(engine, f"auto, {chunks} chunks", text, microbatches, stage_seconds(weights, chunks * ranks, part), own)
    say(auto.line())
    say(f"auto against {best.title}: {100 * (1 - auto.measured / best.measured):.1f} % shorter measured, "
        f"{100 * (1 - auto.with_cost / best.with_cost):.1f} % simulated")
    return best, auto
