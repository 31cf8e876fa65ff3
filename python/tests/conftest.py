"""One group of engine processes per pytest run: starting it costs more than most tests."""
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from trainwright.engine import EngineGroup  # noqa: E402


@pytest.fixture(scope="session")
def engine():
    with EngineGroup(4) as group:
        yield group
