"""Broken schedules: the program's checker refuses each, and the engine shows why it must.

The outcomes "hung" and "wrong" are what a checker is for: PyTorch loads such a schedule and then
stands still, or trains on with other gradients and no word. This is the size for CI;
tools/soak/engine_check.py broken runs 220 on the engine.
"""
import collections

import breaking
import making
import pytest

from trainwright.engine import Job

LIMIT = 1.5  # seconds that a rank waits for a peer; a step of these models takes a tenth
# What ends within this was only a long wait, of a busy host.
LONG_LIMIT = 30


def outcome(engine, broken: breaking.Broken) -> str:
    """What the engine did. Where it might as well have gone on, a hang gets more time."""
    happened = ""
    for limit in (LIMIT, LONG_LIMIT):
        answer = engine.run(Job(csv=broken.text, microbatches=broken.microbatches, limit=limit, model={"width": 8}))
        happened = breaking.outcome(answer)
        if happened != "hung" or ("hung" in broken.expected and "wrong" not in broken.expected):
            break
    return happened


def test_the_engine_hangs_or_goes_wrong_where_the_classes_say_so(engine):
    seen = collections.defaultdict(set)
    for broken in breaking.broken_schedules(2 * len(breaking.BREAKERS)):
        happened = outcome(engine, broken)
        assert happened in broken.expected, f"{broken.way}: {happened}\n{broken.text}"
        seen[happened].add(broken.fault)
    assert {"LossOrder", "TransferOrder", "Missing"} <= seen["wrong"]
    assert {"TransferMissing", "TransferUnneeded", "Deadlock"} <= seen["hung"]


@pytest.mark.skipif(not making.program(), reason="no built program in TRAINWRIGHT_BINARY")
def test_the_checker_refuses_220_broken_schedules():
    for broken in breaking.broken_schedules(220):
        assert making.checker_refuses(broken.text), f"{broken.way} was accepted\n{broken.text}"


@pytest.mark.skipif(not making.program(), reason="no built program in TRAINWRIGHT_BINARY")
def test_the_checker_accepts_what_was_broken_before_it_was():
    for seed in range(60):
        text, _ = making.random_schedule(seed, 2 + seed % 3)
        assert not making.checker_refuses(text), text
        assert not making.checker_refuses(making.schedule_text(breaking.lowered(text))), text
