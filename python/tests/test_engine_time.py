"""Measured against simulated step time on sleeping stages: four ranks, actions of 40 ms and more.

The full comparison (eight ranks, all kinds, uneven stages) is tools/engine_check.py time. Bars here
leave room for a busy host: whatever else runs only makes the engine slower.
"""
import making
import pytest
import timing

SECONDS = 0.06
RANKS, MICROBATCHES = 4, 6


@pytest.fixture(scope="module")
def own(engine):
    return timing.own_cost(engine, RANKS, (SECONDS,) * 3, microbatches=4)


@pytest.mark.parametrize("title", ["PyTorch 1F1B", "1F1B with split backward", "PyTorch ZBVZeroBubble, 2 chunks"])
def test_the_clock_predicts_the_engines_step_time(engine, own, title):
    text = dict(making.all_schedules(RANKS, MICROBATCHES))[title]
    seconds = [(SECONDS,) * 3]
    row = timing.compared(engine, title, text, MICROBATCHES, seconds, own)
    assert abs(row.with_cost / row.measured - 1) <= 0.05, row.line()
    assert row.bare <= row.measured * 1.001 and row.measured <= 1.12 * row.bare, row.line()


def test_uneven_stages_take_the_simulated_time_too(engine, own):
    text = making.one_forward_one_backward(RANKS, MICROBATCHES, "IW")
    seconds = [(0.04, 0.05, 0.04), (0.08, 0.07, 0.09), (0.04, 0.04, 0.04), (0.06, 0.1, 0.05)]
    row = timing.compared(engine, "uneven", text, MICROBATCHES, seconds, own)
    assert abs(row.with_cost / row.measured - 1) <= 0.05, row.line()
