"""DeepSpeed's own storages hold what `trainwright estimate --trainer deepspeed@0.19` says, ZeRO 0 to 3 in bf16;
`tools/trainers/deepspeed_check.py` does the same by hand, fp32 included."""
import os
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEEPSPEED = pathlib.Path(os.environ.get("TRAINWRIGHT_DEEPSPEED_PYTHON", ROOT / "build/deepspeed/bin/python"))
sys.path.insert(0, str(ROOT / "tools/trainers"))


@pytest.mark.skipif(not DEEPSPEED.exists(), reason=f"no {DEEPSPEED}: tools/make/make_venv.sh makes it")
def test_weights_gradients_and_states_of_every_rank():
    import deepspeed_check

    rows = deepspeed_check.compare(os.environ["TRAINWRIGHT_BINARY"], str(DEEPSPEED), [(stage, "bf16") for stage in range(4)])
    differing = [row for row in rows if row["predicted"] != row["measured"]]
    assert not [row for row in differing if not deepspeed_check.explained(row)]
    # ZeRO 2 cuts weights between ranks and holds whole gradients of those; nothing else differs.
    assert {(row["zero"], row["part"]) for row in differing} <= {(2, "gradients")}
