#!/usr/bin/env python3
"""Compare every model of data/models with transformers and with its published size.

    check_zoo.py [NAME...]

Each model is built on the meta device, so nothing is allocated, and its parameters are counted.
Printed are the name, the count, the published figure and the relative difference; a line that ends
in "differs" is outside of the printed rounding (or of the file's own tolerance), and makes the
exit code 1. data/README.md explains the fields.
"""

import json
import pathlib
import re
import sys

import torch
import transformers

MODELS = pathlib.Path(__file__).resolve().parents[2] / "data" / "models"
UNITS = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}


def read_json_with_comments(path):
    """A comment is a line of its own that starts with two slashes."""
    lines = path.read_text().splitlines()
    return json.loads("\n".join("" if line.lstrip().startswith("//") else line for line in lines))


def figure(text):
    """The value of "70.6B" and half a unit of its last printed digit."""
    number, unit = re.fullmatch(r"([0-9.]+)([KMBT]?)", text).groups()
    digits = len(number.partition(".")[2])
    exact = unit == "" and digits == 0
    return float(number) * UNITS[unit], 0 if exact else 0.5 * 10**-digits * UNITS[unit]


def build(config):
    fields = {key: value for key, value in config.items() if key != "model_type"}
    described = transformers.AutoConfig.for_model(config["model_type"], **fields)
    with torch.device("meta"):
        return transformers.AutoModelForCausalLM.from_config(described)


def size(module):
    return sum(parameter.numel() for parameter in module.parameters())


def count(config, counts):
    """The parameters that the published figure speaks of."""
    model = build(config)
    total = size(model)
    embedding = model.get_input_embeddings().weight
    output = model.get_output_embeddings().weight
    own_output = 0 if output is embedding else output.numel()
    if counts != "without_mtp" and config.get("num_nextn_predict_layers"):
        # transformers builds none: a further layer, the projection that joins its two inputs,
        # and three norms.
        width = config["hidden_size"]
        extra = size(model.model.layers[-1]) + 2 * width * width + 3 * width
        total += config["num_nextn_predict_layers"] * extra
    if counts == "without_embedding":
        return total - embedding.numel() - own_output
    if counts == "without_output":
        return total - own_output
    if counts == "tied_twice":
        return total + output.numel() - own_output
    return total


def check(path):
    """One line of the report, and whether the figures agree."""
    entry = read_json_with_comments(path)
    published = entry.get("published", {})
    counted = count(entry["config"], published.get("counts", "all"))
    line = f"{entry['name']:26} {counted:17,d}"
    if not published:
        return line + "  nothing published", True
    value, slack = figure(published["total"])
    slack = max(slack, published.get("tolerance", 0) * value)
    difference = counted - value
    agrees = abs(difference) <= slack
    line += f"  {published['total']:>12}  {difference / value:+9.4%}"
    return line + ("" if agrees else "  differs"), agrees


def main(names):
    paths = [MODELS / f"{name}.json" for name in names] or sorted(MODELS.glob("*.json"))
    agreement = []
    for path in paths:
        line, agrees = check(path)
        agreement.append(agrees)
        print(line, flush=True)
    print(f"{len(agreement)} models, {agreement.count(False)} differ")
    return 0 if all(agreement) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
