"""Broken schedules: the program's checker refuses each, and the engine shows why it must.

The outcomes "hung" and "wrong" are what a checker is for: PyTorch loads such a schedule and then
stands still, or trains on with other gradients and no word. This is the size for CI;
tools/engine_check.py broken runs 220 on the engine.
"""
import collections
import subprocess

import breaking
import making
import pytest

from trainwright.engine import Job

LIMIT = 1.5  # seconds; a step of these models takes a tenth


def test_the_engine_hangs_or_goes_wrong_where_the_classes_say_so(engine):
    seen = collections.defaultdict(set)
    for broken in breaking.broken_schedules(2 * len(breaking.BREAKERS)):
        answer = engine.run(Job(csv=broken.text, microbatches=broken.microbatches, limit=LIMIT, model={"width": 8}))
        happened = breaking.outcome(answer)
        assert happened in broken.expected, f"{broken.way}: {happened}, {answer.get('error')}\n{broken.text}"
        seen[happened].add(broken.fault)
    assert {"LossOrder", "TransferOrder", "Missing"} <= seen["wrong"]
    assert {"TransferMissing", "TransferUnneeded", "Deadlock"} <= seen["hung"]


@pytest.mark.skipif(not making.program(), reason="no built program in TRAINWRIGHT_BINARY")
def test_the_checker_refuses_220_broken_schedules_and_names_the_class(tmp_path):
    path = tmp_path / "broken.csv"
    for broken in breaking.broken_schedules(220):
        path.write_text(broken.text)
        done = subprocess.run([making.program(), "schedule", "check", str(path), "--microbatches", str(broken.microbatches)],
                              capture_output=True, text=True, timeout=60)
        assert done.returncode in (1, 2), f"{broken.way} was accepted\n{broken.text}\n{done.stdout}{done.stderr}"


@pytest.mark.skipif(not making.program(), reason="no built program in TRAINWRIGHT_BINARY")
def test_the_checker_accepts_what_was_broken_before_it_was(tmp_path):
    path = tmp_path / "valid.csv"
    for seed in range(60):
        text, _ = making.random_schedule(seed, 2 + seed % 3)
        for rows in (text, making.schedule_text(breaking.lowered(text))):
            path.write_text(rows)
            done = subprocess.run([making.program(), "schedule", "check", str(path)], capture_output=True, text=True, timeout=60)
            assert done.returncode == 0, f"{rows}\n{done.stdout}{done.stderr}"
