"""Asks the program for operator lists: `trainwright show work --json`."""
import json
import math
import os
import pathlib
import subprocess
import tempfile

import torch

from kept_storages import Layer, configuration

PRECISIONS = {torch.float32: "fp32", torch.bfloat16: "bf16"}


def request(spec: Layer, which: str = "layer", job: str = "", trainer: str = "pytorch", **degrees) -> dict:
    """`degrees`: entries of the layout beside those that the layer says, as in layout.h. The world is as large as they
    need."""
    ways = ("tp", "cp", "dp", "dp_shard", "dp_replicate")
    copies = math.prod(degrees.get(one, 1) for one in ("dp", "dp_shard", "dp_replicate"))
    entries = {"mbs": spec.batch, "gbs": spec.batch * copies, "seq": spec.sequence, "precision": "bf16" if spec.autocast else PRECISIONS[spec.dtype],
               "recompute": spec.recompute, **degrees}
    layout = ",".join(key if value is True else f"{key}={value}" for key, value in entries.items() if value is not False)
    return {"config": whole_config(spec), "list": which, "layer": spec.index, "layout": layout, "attention": spec.attention, "job": job,
            "trainer": "accelerate" if spec.autocast else trainer, "world": math.prod(degrees.get(one, 1) for one in ways)}


def whole_config(spec: Layer) -> dict:
    """With the class's defaults, of which some (dropout, soft caps) are not what their absence means."""
    config = json.loads(configuration(spec).to_json_string(use_diff=False))
    return {key: value for key, value in config.items() if key != "experts_implementation"}


def lists(requests: list[dict]) -> list[dict]:
    return [one_list(one) for one in requests]


def one_list(wanted: dict) -> dict:
    """`kept`: name, dtype, bytes and half of each tensor; `operators`; `totals`; `parameters`: what data parallelism
    moves."""
    piece = _piece(_stage(wanted)["pieces"], wanted)
    tensors = piece["list"]["tensors"]
    kept = [{**tensors[one["tensor"]], "half": one["half"]} for one in piece["list"]["kept"]]
    return {"kept": kept, "operators": piece["list"]["operators"], "totals": piece["totals"], "parameters": piece["parameter_traffic"]}


def whole_model(wanted: dict) -> dict:
    """The totals of all lists."""
    return _stage(wanted)["totals"]


def _stage(wanted: dict) -> dict:
    with tempfile.NamedTemporaryFile("w", suffix=".json") as config:
        json.dump(wanted["config"], config)
        config.flush()
        command = [os.environ["TRAINWRIGHT_BINARY"], "show", "work", config.name, "--on", f"{wanted['world']}xH100", "--trainer",
                   wanted["trainer"], "--layout", wanted["layout"], "--attention", wanted["attention"], "--job", wanted["job"], "--json"]
        run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr + run.stdout
    return json.loads(run.stdout)["stages"][0]


def _piece(pieces: list[dict], wanted: dict) -> dict:
    names = {"layer": "layer", "head": "head and loss", "embedding": "embedding"}
    found = [piece for piece in pieces if piece["what"] == names[wanted["list"]] for _ in range(piece["count"])]
    return found[wanted["layer"] if wanted["list"] == "layer" else 0]
