"""Stages recorded alone, a schedule under a cap made from them, run: the peaks are the predicted ones."""
import loop
import making
import noise
import pytest

pytestmark = pytest.mark.skipif(not making.program(), reason="no built program in TRAINWRIGHT_BINARY")

LOSS = 4  # one float32 per micro-batch, which the engine keeps until the next step
SECONDS = 0.012  # that a layer sleeps, much more than it computes
LONG = 0.03  # the same where steps are compared
# Auto is 8 % shorter than 1f1b, 0.25 s, and has 16 actions more on each rank.
QUIET = 0.008


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """(folder, costs by number of stages); a layer sleeps 12 ms in F, I and W each."""
    folder = tmp_path_factory.mktemp("costs")
    return folder, {stages: loop.record(folder, stages, SECONDS) for stages in loop.LAYERS}


def test_every_rank_peaks_as_predicted_and_under_the_cap(engine, recorded):
    folder, costs = recorded
    candidates = loop.fixed(costs, (("1f1b", 4), ("zb-h1", 4), ("zb-v", 8)))
    peaks = [max(one.predicted_peaks) for one in candidates]
    for cap in (int(0.9 * min(peaks)), min(peaks), max(peaks)):
        candidates.append(loop.automatic(folder, costs, cap))
        assert candidates[-1] is not None, f"nothing fits {cap} bytes"
    for one in candidates:
        loop.measure_peaks(engine, one)
        for measured, predicted in zip(one.peaks, one.predicted_peaks):
            assert 0 <= measured - predicted <= LOSS * loop.MICROBATCHES, one.title
        assert one.cap is None or loop.fits(one, one.cap)


def test_recording_sees_every_sleep(recorded):
    for stages, costs in recorded[1].items():
        for kind, asked in loop.sleeps(stages, SECONDS).items():
            assert all(seen >= least for seen, least in zip(costs[kind], asked)), (stages, kind)


def test_under_1f1bs_cap_auto_is_shorter_also_when_measured(engine, recorded, tmp_path):
    # Bytes as recorded, times as asked for: what the host did during the recording is no matter here.
    costs = {4: recorded[1][4] | loop.sleeps(4, LONG)}
    loop.write_costs(tmp_path, costs)
    (plain,) = loop.fixed(costs, (("1f1b", 4),))
    auto = loop.automatic(tmp_path, costs, max(plain.predicted_peaks), (4,))
    assert auto.predicted_step < 0.92 * plain.predicted_step

    def compare() -> list[str]:
        loop.measure_steps(engine, [plain, auto], LONG, 3)
        return [] if auto.step < plain.step else [f"auto {auto.step:.3f} s, 1f1b {plain.step:.3f} s"]

    noise.decide(compare, lambda: noise.added(engine, loop.RANKS, loop.model(4, LONG)), QUIET)
