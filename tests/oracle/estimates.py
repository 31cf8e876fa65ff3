"""Asks the program for the memory of a model on one rank: `trainwright estimate --json`."""
import json
import os
import subprocess
import tempfile

from kept_storages import Layer
from work_lists import PRECISIONS, whole_config


def estimated(spec: Layer, job: str, layout: str = "", trainer: str = "pytorch") -> dict[str, int]:
    """Bytes by category at the highest moment, and `allocated` of them."""
    entries = f"mbs={spec.batch},gbs={spec.batch},seq={spec.sequence},precision={PRECISIONS[spec.dtype]}{layout and ','}{layout}"
    with tempfile.NamedTemporaryFile("w", suffix=".json") as config:
        json.dump(whole_config(spec), config)
        config.flush()
        command = [os.environ["TRAINWRIGHT_BINARY"], "estimate", config.name, "--on", "1xH100", "--trainer", trainer, "--attention",
                   spec.attention, "--layout", entries, "--job", job, "--json"]
        run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr + run.stdout
    rank = json.loads(run.stdout)["memory"]["classes"][0]
    return rank["bytes"] | {"allocated": rank["allocated"]}
