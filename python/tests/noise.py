"""Whether the host can tell two times apart: a test of time must not fail by its neighbours.

Stages that sleep take a time known by hand, and whatever else runs on the host only adds to it. So
every comparison stands between two looks at a reference, and one that comes out wrong counts only if
the host was quiet before and after it, twice. Where that cannot be had the test is skipped.
"""
from collections.abc import Callable

import pytest

from trainwright.engine import EngineGroup, Job
from trainwright.engine.schedule_csv import Action, schedule_text

STEPS = 4


def added(engine: EngineGroup, ranks: int, model: dict) -> float:
    """Seconds that an action takes beyond its sleep in the worst of a few steps. The reference sends one
    micro-batch down the stages, one per rank, and back: by hand a step is the sum of all sleeps."""
    text = schedule_text([[Action(rank, kind, 0) for kind in "FB"] for rank in range(ranks)])
    answer = engine.run(Job(csv=text, microbatches=1, warmup=1, steps=STEPS, model=model))
    assert answer["status"] == "ran", answer.get("error")
    sleeps = sum(sum(model["seconds"][rank % len(model["seconds"])]) for rank in range(ranks))
    return (max(answer["step_seconds"]) - sleeps) / (2 * ranks)


def decide(compare: Callable[[], list[str]], look: Callable[[], float], limit: float, attempts: int = 4) -> None:
    """`compare` gives what came out wrong; `look` how many seconds the host adds to an action, which is quiet
    up to `limit`. Returns when nothing is wrong, fails when something was wrong twice on a quiet host, skips
    when `attempts` did not decide."""
    wrong, worst = [], 0.0
    for _ in range(attempts):
        if (before := look()) > limit:
            worst = max(worst, before)
            continue
        found = compare()
        if not found:
            return
        after = look()
        worst = max(worst, after)
        if after <= limit:
            wrong.append(found)
        assert len(wrong) < 2, f"wrong twice, and the host adds at most {1e3 * worst:.1f} ms to an action: {wrong}"
    pytest.skip(f"the host cannot decide: it adds {1e3 * worst:.1f} ms to an action, and up to {1e3 * limit:.1f} ms tell these times apart")
