"""Measured against simulated step time on sleeping stages: four ranks, actions of 40 ms and more.

The full comparison (eight ranks, all kinds, uneven stages) is tools/soak/engine_check.py time. A host that
is too busy for the bars skips (noise.py).
"""
import making
import noise
import timing

SECONDS = 0.06
RANKS, MICROBATCHES = 4, 6
EVEN = [(SECONDS,) * 3]
UNEVEN = [(0.04, 0.05, 0.04), (0.08, 0.07, 0.09), (0.04, 0.04, 0.04), (0.06, 0.1, 0.05)]
# 5 % of the shortest step here, 1.4 s, over the 18 actions of a rank.
QUIET = 0.004


def rows_of(engine) -> list[timing.Compared]:
    own = timing.own_cost(engine, RANKS, (SECONDS,) * 3, microbatches=4)
    texts = dict(making.all_schedules(RANKS, MICROBATCHES))
    titles = ("PyTorch 1F1B", "1F1B with split backward", "PyTorch ZBVZeroBubble, 2 chunks")
    rows = [timing.compared(engine, title, texts[title], MICROBATCHES, EVEN, own) for title in titles]
    split = making.one_forward_one_backward(RANKS, MICROBATCHES, "IW")
    return rows + [timing.compared(engine, "uneven stages", split, MICROBATCHES, UNEVEN, own)]


def is_close(row: timing.Compared) -> bool:
    return abs(row.with_cost / row.measured - 1) <= 0.05 and row.measured <= 1.12 * row.bare


def test_the_clock_predicts_the_engines_step_time_of_even_and_uneven_stages(engine):
    def compare() -> list[str]:
        rows = rows_of(engine)
        # No neighbour makes a step shorter than its sleeps.
        assert all(row.bare <= row.measured * 1.001 for row in rows), [row.line() for row in rows]
        return [row.line() for row in rows if not is_close(row)]

    noise.decide(compare, lambda: noise.added(engine, RANKS, {"kind": "sleep", "seconds": EVEN}), QUIET)
