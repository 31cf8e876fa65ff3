"""Notebooks in examples/ run, and say what they say but for numbers. Runs where a wheel is installed (tools/check/try_wheel.sh)."""
import pathlib
import re

import pytest
from notebook import run, text_of

NOTEBOOKS = sorted((pathlib.Path(__file__).resolve().parents[2] / "examples").glob("*.ipynb"))


def without_numbers(text):
    """Predictions change from version to version; notebooks are made again by tests/wheel/notebook.py."""
    return re.sub(r" *\d[\d.,]*", " #", re.sub(r"\btp=[^\s<\"\\]+", "LAYOUT", text))


def test_there_are_notebooks():
    assert len(NOTEBOOKS) >= 2


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_run_again_shows_what_it_shows(path):
    assert without_numbers(text_of(run(path))) == without_numbers(path.read_text())
