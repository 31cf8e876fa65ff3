"""When a comparison of times passes, fails and is skipped; looks and comparisons are scripted."""
import noise
import pytest

QUIET, BUSY = 0.001, 0.1


def outcome(looks: list[float], comparisons: list[list[str]]) -> str:
    looks, comparisons = iter(looks), iter(comparisons)
    try:
        noise.decide(lambda: next(comparisons), lambda: next(looks), limit=0.01)
    except AssertionError:
        return "failed"
    except pytest.skip.Exception as skip:
        assert "100.0 ms" in str(skip) and "10.0 ms" in str(skip)
        return "skipped"
    return "passed"


def test_what_is_right_passes_without_a_second_look():
    assert outcome([QUIET], [[]]) == "passed"


def test_what_is_wrong_twice_on_a_quiet_host_fails():
    assert outcome([QUIET] * 4, [["a"], ["b"]]) == "failed"


def test_what_is_wrong_once_and_then_right_passes():
    assert outcome([QUIET] * 3, [["a"], []]) == "passed"


def test_a_busy_host_is_not_asked():
    assert outcome([BUSY] * 4, []) == "skipped"


def test_what_is_wrong_while_the_host_gets_busy_does_not_count():
    assert outcome([QUIET, BUSY] * 4, [["a"]] * 4) == "skipped"
    assert outcome([QUIET, BUSY, QUIET, QUIET, BUSY, QUIET, BUSY], [["a"]] * 3) == "skipped"
