"""A schedule run on the engine gives the loss and the gradients of the model without a pipeline.

Largest difference per tensor at most 1e-12 of the tensor's largest entry, in float64. This is the
size for CI; tools/soak/engine_check.py runs eight ranks and 1,000 random schedules.
"""
import itertools
import time

import making
import pytest

from trainwright.engine import EngineGroup, Job, worker

TOLERANCE = 1e-12
EVEN, UNEVEN = (1,), (1, 2, 1, 3)


def assert_right(engine, csv: str, microbatches: int, layers=EVEN):
    answer = engine.run(Job(csv=csv, microbatches=microbatches, limit=20, model={"width": 8, "layers": layers}))
    assert answer["status"] == "ran", f"{answer['error']}\n{csv}"
    assert answer["gradient_difference"] <= TOLERANCE, csv
    assert abs(answer["loss"] - answer["reference_loss"]) <= TOLERANCE * abs(answer["reference_loss"])
    return answer


@pytest.mark.parametrize("name,chunks,placement", making.TORCH_KINDS)
@pytest.mark.parametrize("ranks", [2, 4])
def test_pytorchs_own_schedules(engine, name, chunks, placement, ranks):
    ran = 0
    for microbatches, layers in itertools.product((ranks - 1, ranks, 2 * ranks, 2 * ranks + 1), (EVEN, UNEVEN)):
        csv = making.torch_schedule(name, ranks, microbatches, chunks)
        if csv is not None:
            answer = assert_right(engine, csv, microbatches, layers)
            expected = making.wave_placement if placement == "v" else making.loop_placement
            assert tuple(answer["rank_of_stage"]) == expected(ranks, chunks)
            ran += 1
    assert ran >= 2


@pytest.mark.parametrize("backward", ["B", "IW"])
@pytest.mark.parametrize("ranks,microbatches", [(2, 1), (2, 5), (4, 3), (4, 4), (4, 9)])
def test_one_stage_per_rank_with_whole_and_split_backward(engine, ranks, microbatches, backward):
    assert_right(engine, making.one_forward_one_backward(ranks, microbatches, backward), microbatches, UNEVEN)


@pytest.mark.skipif(not making.program(), reason="no built program in TRAINWRIGHT_BINARY")
@pytest.mark.parametrize("ranks,microbatches", [(2, 1), (2, 2), (2, 5), (4, 3), (4, 4), (4, 9)])
def test_every_kind_of_the_program(engine, ranks, microbatches):
    ran = 0
    for ran, (_, text) in enumerate(making.program_schedules(ranks, microbatches), start=1):
        assert_right(engine, text, microbatches, UNEVEN if ran % 2 else EVEN)
    assert ran >= len(making.program_kinds())


@pytest.mark.skipif(not making.program(), reason="no built program in TRAINWRIGHT_BINARY")
def test_the_programs_own_transfers(engine):
    for kind in making.program_kinds():
        for chunks in ("1", "2"):
            text = making.make(kind, 4, 6, "--chunks", chunks, "--comms")
            if text is not None:
                assert_right(engine, text, 6, UNEVEN)


def test_random_valid_schedules_of_any_placement(engine):
    for seed in range(60):
        csv, microbatches = making.random_schedule(seed, 4 if seed % 3 else 2)
        assert_right(engine, csv, microbatches, UNEVEN if seed % 2 else EVEN)


def test_the_comparison_sees_a_wrong_gradient(engine):
    """Losses are paired by position: F of the last stage out of order takes the wrong one."""
    csv = "0F0,0F1,0B0,0B1\n1F1,1F0,1B0,1B1\n"
    answer = engine.run(Job(csv=csv, limit=10))
    assert answer["status"] == "ran" and answer["gradient_difference"] > 1e-3


def test_the_group_survives_a_hang_and_a_refusal(engine):
    no_gradient_sent = "0F0,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD\n1RECV_F0,1F0,1B0,1REDUCE_GRAD\n"
    assert engine.run(Job(csv=no_gradient_sent, limit=2))["status"] == "hung"
    assert engine.run(Job(csv="0F0,0B0\n1B0,1F0\n", limit=2))["status"] == "refused"
    assert_right(engine, "0F0,0B0\n1F0,1B0\n", 1)


def test_processes_that_do_not_answer_are_replaced():
    """A stage that sleeps for a minute is no wait for a peer, so no time limit of the engine ends it."""
    with EngineGroup(2, grace=3) as engine:
        stuck = Job(csv="0F0,0B0\n1F0,1B0\n", limit=1, model={"kind": "sleep", "seconds": [(60.0, 0.0, 0.0)]})
        assert engine.run(stuck)["status"] == "dead"
        assert_right(engine, "0F0,0B0\n1F0,1B0\n", 1)


@pytest.mark.parametrize("seconds", [0, 1])
def test_the_first_process_that_fails_ends_all(seconds, tmp_path, monkeypatch):
    """Before the others were started, or while they wait."""
    def serve(folder, rank, world):
        time.sleep(seconds if rank == 0 else 300)
        raise RuntimeError("it cannot start")

    monkeypatch.setattr(worker, "serve", serve)
    started = time.monotonic()
    assert worker.serve_all(tmp_path, 3) == 1
    assert time.monotonic() - started < 60
