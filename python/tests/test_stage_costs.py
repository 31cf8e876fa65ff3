"""Bytes of a stage measured alone are those that it has on the running engine, to the byte."""
import json
import subprocess

import making
import pytest
import test_engine_memory

from trainwright.engine.__main__ import main
from trainwright.engine.stage_costs import costs_json, measure_stages
from trainwright.engine.stages import ModelSpec, batch, build_stage, mean_squared_loss

SPEC = ModelSpec(**test_engine_memory.MODEL)


def alone(stages: int = 4):
    modules = [build_stage(SPEC, stage) for stage in range(stages)]
    inputs, targets = batch(SPEC, 1)
    return measure_stages(modules, inputs, lambda output: mean_squared_loss(output, targets))


def test_stages_alone_keep_and_release_what_they_do_on_the_engine(engine):
    found = test_engine_memory.stage_bytes(engine, (0, 1, 2, 3))
    measured = alone()
    assert [(one.kept, one.by_input) for one in measured] == [(one.kept, one.by_input) for one in found]
    assert {one.output for one in measured} == {test_engine_memory.BOUNDARY}


def test_what_f_keeps_is_released_by_i_and_w_but_for_what_is_sent_or_stays():
    stages = alone()
    for one in stages[:-1]:
        assert one.kept == one.by_input + one.by_weight + one.output  # The output waits for its send.
    assert stages[-1].kept == stages[-1].by_input + stages[-1].by_weight + test_engine_memory.LOSS
    assert stages[0].by_input == 0 and all(one.peaks[0] >= one.kept for one in stages[:-1])


@pytest.mark.skipif(not making.program(), reason="no built program in TRAINWRIGHT_BINARY")
def test_the_program_reads_the_costs(tmp_path):
    path = tmp_path / "costs.json"
    assert main(["record-stage", "--stages", "4", "--layers", "1,2,1,3", "--sequence", "8", "--output", str(path)]) == 0
    costs = json.loads(path.read_text())
    assert costs["kept"] == costs_json(alone(), times=True)["kept"] and len(costs["size"]) == 3
    schedule = tmp_path / "schedule.csv"
    for command in (["schedule", "make", "zb-h1", "--ranks", "4", "--microbatches", "8", "--csv", str(schedule)],
                    ["schedule", "simulate", str(schedule), "--costs", str(path), "--engine", "pytorch", "--json"]):
        run = subprocess.run([making.program(), *command], capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
