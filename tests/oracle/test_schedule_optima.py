"""CP-SAT still proves the stored optima of small pipelines."""
import json
import pathlib
import sys

import pytest

pytest.importorskip("ortools")

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools/make"))

from make_schedule_oracle import solve

INSTANCES = json.loads((ROOT / "tests/oracle/schedule_optima.json").read_text())["instances"]


def test_there_are_two_hundred_and_they_differ():
    assert len(INSTANCES) >= 200
    assert len({json.dumps(x) for x in INSTANCES}) == len(INSTANCES)
    for chunks, most in ((1, 6), (2, 4)):
        group = [x for x in INSTANCES if x["chunks"] == chunks]
        assert len(group) >= 50
        assert all(x["ranks"] <= 4 and x["microbatches"] <= most for x in group)
        assert {x["cap"] is None for x in group} == {True, False}
        assert {x["transfer"] > 0 for x in group} == {True, False}


@pytest.mark.parametrize("instance", INSTANCES[:: len(INSTANCES) // 20][:20])
def test_stored_makespan_is_proven_again(instance):
    assert solve(instance, effort=10) == (instance["makespan"], instance["makespan"])
