"""A schedule made under a cap from recorded stages takes less time than the one that set the cap, also when measured."""
import loop
import making
import noise
import pytest

SECONDS = 0.03  # that a layer sleeps in F, I and W each
# Auto is 8 % shorter than 1f1b, 0.25 s, and has 16 actions more on each rank.
QUIET = 0.008


@pytest.mark.skipif(not making.program(), reason="no built program in TRAINWRIGHT_BINARY")
def test_under_1f1bs_cap_auto_is_shorter_also_when_measured(engine, tmp_path):
    # Bytes as recorded, times as asked for: what the host did during the recording is no matter here.
    costs = {4: loop.record(tmp_path, 4, 0.0) | loop.sleeps(4, SECONDS)}
    loop.write_costs(tmp_path, costs)
    (plain,) = loop.fixed(costs, (("1f1b", 4),))
    auto = loop.automatic(tmp_path, costs, max(plain.predicted_peaks), (4,))
    assert auto.predicted_step < 0.92 * plain.predicted_step

    def compare() -> list[str]:
        loop.measure_steps(engine, [plain, auto], SECONDS, 3)
        return [] if auto.step < plain.step else [f"auto {auto.step:.3f} s, 1f1b {plain.step:.3f} s"]

    noise.decide(compare, lambda: noise.added(engine, loop.RANKS, loop.model(4, SECONDS)), QUIET)
