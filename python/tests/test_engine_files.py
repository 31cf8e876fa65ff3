"""Reading schedule files, and the command line, without starting an engine."""
import importlib.util

import pytest

from trainwright.engine.__main__ import main
from trainwright.engine.schedule_csv import Action, ScheduleError, parse_cell, read_schedule


def test_a_cell_is_an_action_a_pair_or_a_bubble():
    assert parse_cell(" 2F0 ") == (Action(2, "F", 0),)
    assert parse_cell("(2F4;5B1)OVERLAP_F_B") == (Action(2, "F", 4), Action(5, "B", 1))
    assert parse_cell("3REDUCE_GRAD") == (Action(3, "REDUCE_GRAD"),)
    assert parse_cell("") == ()


@pytest.mark.parametrize("cell", ["2F0xyz", "F0", "2F", "-1F0", "2BW0", "3REDUCE_GRAD1", "(1F0", "(1F0;)OVERLAP_F_B", "9999999F0"])
def test_rubbish_in_a_cell_is_not_skipped_as_pytorch_does(cell):
    with pytest.raises(ValueError):
        parse_cell(cell)


def test_placement_micro_batches_and_format_follow_from_the_rows():
    schedule = read_schedule("0F0,,3F0,3B0,0B0\n1F0,2F0,2B0,1B0\n")
    assert (schedule.rank_of_stage, schedule.microbatches, schedule.format) == ((0, 1, 1, 0), 1, "compute_only")
    assert schedule.stages_of(0) == [0, 3]
    assert read_schedule("0F0,0B0,0REDUCE_GRAD\n").format == "compute_comms"


def test_uneven_numbers_of_stages_per_rank_are_a_placement_too():
    assert read_schedule("0F0,0B0\n1F0,2F0,2B0,1B0\n").rank_of_stage == (0, 1, 1)


def test_every_fault_of_a_file_is_listed():
    with pytest.raises(ScheduleError) as caught:
        read_schedule("0F0,0X0,0BW0\n\n")
    assert len(caught.value.faults) == 3 and "write B" in caught.value.faults[1]


def test_a_stage_that_no_rank_has_is_named():
    with pytest.raises(ScheduleError, match="stage 1 is on no rank"):
        read_schedule("0F0\n2F0\n")


def test_bad_input_ends_with_status_2_before_any_process_starts(tmp_path, capsys):
    path = tmp_path / "schedule.csv"
    path.write_text("0F0,0B0\n1F0,1B0\n")
    assert main(["run", str(path), "--ranks", "4"]) == 2
    assert "2 rows" in capsys.readouterr().err
    assert main(["run", str(tmp_path / "missing.csv")]) == 2


def test_without_pytorch_the_command_says_what_to_install(tmp_path, capsys, monkeypatch):
    path = tmp_path / "one.csv"
    path.write_text("0F0,0B0\n")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main(["run", str(path)]) == 2
    assert capsys.readouterr().err == "run needs PyTorch 2.13 (pip install torch)\n"
