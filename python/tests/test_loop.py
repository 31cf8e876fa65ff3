"""Stages recorded alone, a schedule under a cap made from them, run: the peaks are the predicted ones."""
import loop
import making
import pytest

pytestmark = pytest.mark.skipif(not making.program(), reason="no built program in TRAINWRIGHT_BINARY")

LOSS = 4  # one float32 per micro-batch, which the engine keeps until the next step
SECONDS = 0.012  # that a layer sleeps, much more than it computes


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
