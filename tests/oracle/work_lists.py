"""Asks the program for operator lists."""
import json
import os
import pathlib
import subprocess

import torch

from kept_storages import Layer, configuration

PRECISIONS = {torch.float32: "fp32", torch.bfloat16: "bf16"}
DATA = pathlib.Path(__file__).parents[2] / "data"


def request(spec: Layer, which: str = "layer", **degrees) -> dict:
    """`degrees`: entries of the layout beside those that the layer says, as in layout.h."""
    entries = {"mbs": spec.batch, "seq": spec.sequence, "precision": PRECISIONS[spec.dtype],
               "recompute": spec.recompute, **degrees}
    layout = ",".join(key if value is True else f"{key}={value}" for key, value in entries.items() if value is not False)
    return {"config": whole_config(spec), "list": which, "layer": spec.index, "layout": layout, "attention": spec.attention}


def whole_config(spec: Layer) -> dict:
    """With the class's defaults, of which some (dropout, soft caps) are not what their absence means."""
    config = json.loads(configuration(spec).to_json_string(use_diff=False))
    return {key: value for key, value in config.items() if key != "experts_implementation"}


def lists(requests: list[dict]) -> list[dict]:
    program = pathlib.Path(os.environ["TRAINWRIGHT_BUILD"]) / "work_dump"
    run = subprocess.run([program, DATA], input=json.dumps(requests), capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)
