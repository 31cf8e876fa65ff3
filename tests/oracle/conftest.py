"""One judge at a time: tests that ask the same one run one after another, whatever file they are in."""
import pytest
from trainer_oracles import ORACLES, needed


@pytest.fixture(scope="session")
def oracle(request):
    """The trainer of that name, with its judge until the last test has asked it."""
    found = needed(ORACLES[request.param])
    yield found
    found.dismiss()
