#!/usr/bin/env python3
"""Published runs that no constant has seen, answered by the program as it is.

Every command of ../shared/field/memory.csv is run, the figure that its row counts is read out of `--json`, and the
errors are printed by source. What a row's stack did and its command does not say is added from OPTIONS, each with its
reason; never a number that was fitted. Rows whose lengths vary (ms-swift) and rows that nobody can determine stand apart.

    tests/field/run.py build/release/trainwright [--rows] [--shared ../shared]
"""
import argparse
import csv
import json
import pathlib
import re
import shlex
import statistics
import subprocess
import sys
import tempfile

SHARED = pathlib.Path(__file__).resolve().parents[3] / "shared"
SKIPPED = 77  # what ctest takes for a skipped test
GIB = 1 << 30

# Sources whose sequences are shorter than their command says, by an unknown share.
VARYING = {"swift_benchmark"}

# Shares that the errors of all determined rows must not exceed: median, mean.
BARS = (0.055, 0.07)

# (source, pattern of the id, option, words to join to it or its new value, why).
OPTIONS: list[tuple[str, str, str, str, str]] = [
    ("litgpt_(resource_tables|config_hub)", "", "--trainer", "litgpt", "layers and losses of its own"),
    ("litgpt_resource_tables", "", "--job", "lora_dropout", "finetune/lora.py: 0.05 by default"),
    ("litgpt_config_hub", "(?<! full)$", "--job", "lora_dropout", "lora_dropout: 0.05 or 0.1 in its lora.yaml files"),
    ("litgpt_config_hub", " full$", "--layout", "loss=chunked", "finetune/full.py: one head, the loss over pieces of 128 tokens"),
    ("qwen_readme", "lora", "--job", "+down", "finetune.py: c_proj names two modules, one of them projects out of the feed-forward part"),
    ("qwen_readme", "lora", "--job", "lora_dropout", "finetune.py: 0.05"),
    ("torchtune_readme", "compile$", "--layout", "loss=compiled-fp32", "November 2024: the model gives fp32 logits to the compiled loss"),
    ("torchtune_readme", "chunked", "--layout", "loss=chunked-compiled", "CEWithChunkedOutputLoss, compiled"),
    ("torchtune_readme", "", "--job", "optimizer=adamw-fused", "fused: True in its configs of November 2024"),
    ("torchtitan_issues", "#382|#996", "--trainer", "torchtitan@0.0.2", "July 2024 and March 2025, when the loss was not compiled"),
    ("mindspeed_llm", "DeepSeek-V2", "--trainer", "megatron@0.10", "MindSpeed brings latent attention, Megatron-Core has it since 0.10"),
    ("slurm_on_aws_70b", "", "--job", "optimizer=adamw-foreach", "its lesson installs megatron-core and neither Apex nor Transformer Engine"),
]


# Sources whose trainer holds embedding and head apart where the model ties them (litgpt: model.py GPT, and finetune/lora.py
# refuses tie_embeddings).
UNTIED = {"litgpt_config_hub"}
MODELS = pathlib.Path(__file__).resolve().parents[2] / "data" / "models"


class Row:
    """A measured figure, and what the program answers."""

    def __init__(self, fields: dict[str, str]):
        self.source, self.id, self.kind = fields["source"], fields["id"], fields["kind"]
        self.measured = fields["measured"]
        self.determined = not fields["undetermined"]
        self.command = shlex.split(fields["command"])[1:]
        for source, pattern, option, words, _ in OPTIONS:
            if re.fullmatch(source, self.source) and re.search(pattern, self.id):
                join(self.command, option, words)
        self.untied = self.source in UNTIED
        self.answer: float | None = None  # GiB
        self.interval: tuple[float, float] | None = None  # GiB; none is printed of first steps and between steps
        self.fits: bool | None = None
        self.fault = ""

    @property
    def is_figure(self) -> bool:
        return self.measured not in ("oom", "ran")

    @property
    def error(self) -> float:
        return self.answer / float(self.measured) - 1

    def ask(self, program: str, folder: pathlib.Path) -> None:
        with tempfile.TemporaryDirectory() as own:
            if self.untied:
                self.command[1] = untied(self.command[1], pathlib.Path(own))
            done = subprocess.run([program, *self.command], cwd=folder, capture_output=True, text=True, timeout=300)
        if done.returncode not in (0, 1) or not done.stdout:
            self.fault = done.stderr.strip().splitlines()[0] if done.stderr else f"exit {done.returncode}"
            return
        document = json.loads(done.stdout)
        if "memory" not in document:
            self.fault = "not legal: " + ", ".join(one["id"] for one in document["violations"] if one["forbidden"])
            return
        memory = document["memory"]
        self.fits = memory["classes"][memory["worst"]]["driver"] <= memory["capacity"]
        of = memory["classes"][self.rank(memory)]
        self.answer = figure(self.kind, of) / GIB
        if printed := of["intervals"].get(self.kind):
            self.interval = (printed["low"] / GIB, printed["high"] / GIB)

    def rank(self, memory: dict) -> int:
        """The pipeline rank that the row speaks of; else the fullest."""
        named = re.search(r"(?:stage |rank)(\d+)", self.id)
        return int(named.group(1)) if named else memory["worst"]


def untied(model: str, folder: pathlib.Path) -> str:
    """A config of the model with a head of its own."""
    config = json.loads((MODELS / f"{model}.json").read_text())["config"] | {"tie_word_embeddings": False}
    path = folder / f"{model}.json"
    path.write_text(json.dumps(config))
    return str(path)


def join(command: list[str], option: str, words: str) -> None:
    """Words that begin with "+" go on with a list that is there already."""
    if option not in command:
        command += [option, words]
        return
    at = command.index(option) + 1
    if option == "--trainer":
        command[at] = words
        return
    command[at] += words if words.startswith("+") else "," + words


def figure(kind: str, of: dict) -> int:
    """What a row counts: the most of a step, of the first one ("-first"), or what stays between steps ("static")."""
    if kind == "static":
        return of["between_steps"]
    if kind.endswith("-first"):
        return of["first_step"][kind.removesuffix("-first")]
    return of[kind]


def spread(errors: list[float]) -> str:
    sizes = [abs(error) for error in errors]
    return (f"{len(errors):4} {100 * statistics.median(sizes):7.1f} {100 * statistics.mean(sizes):7.1f}"
            f" {100 * max(sizes):7.1f} {100 * statistics.mean(errors):+7.1f}")


def print_errors(groups: dict[str, list[Row]]) -> None:
    print(f"{'per cent of the measured figure':36}   n  median    mean   worst    bias")
    for name, rows in groups.items():
        if rows:
            print(f"{name:36} {spread([row.error for row in rows])}")


def groups_of(rows: list[Row]) -> dict[str, list[Row]]:
    answered = [row for row in rows if row.is_figure and row.answer is not None]
    steady = [row for row in answered if row.determined and row.source not in VARYING]
    groups = {}
    for row in steady:
        groups.setdefault(f"{row.source}, {row.kind}", []).append(row)
    groups["all"] = steady
    for source in sorted(VARYING):
        groups[f"{source}, lengths vary"] = [row for row in answered if row.source == source]
    groups["not determined"] = [row for row in answered if not row.determined]
    return groups


def print_verdicts(rows: list[Row]) -> None:
    """One for each command: several figures may be of one run."""
    asked = {tuple(row.command): row for row in rows if row.fits is not None}.values()
    ran = [row for row in asked if row.measured != "oom"]
    out = [row for row in asked if row.measured == "oom"]
    print(f"\nverdicts: {sum(row.fits for row in ran)} of {len(ran)} that ran fit, "
          f"{sum(not row.fits for row in out)} of {len(out)} that ran out of memory do not")
    for row in ran:
        if not row.fits:
            print(f"  ran: {row.source}, {row.id}")
    for row in out:
        if row.fits:
            print(f"  ran out of memory: {row.source}, {row.id}")


def print_coverage(groups: dict[str, list[Row]]) -> None:
    """The printed interval is to hold nine of ten measured figures."""
    print("\nmeasured figures inside the printed 90 % interval")
    for name, rows in groups.items():
        asked = [row for row in rows if row.interval]
        inside = [row for row in asked if row.interval[0] <= float(row.measured) <= row.interval[1]]
        if asked:
            print(f"{name:36} {len(inside):4} of {len(asked):3}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--shared", type=pathlib.Path, default=SHARED)
    parser.add_argument("--rows", action="store_true", help="print every row")
    parser.add_argument("--only", default="", help="rows whose source and id hold this pattern")
    options = parser.parse_args()
    folder = options.shared / "field"
    if not (folder / "memory.csv").exists():
        print(f"skipped: there is no {folder / 'memory.csv'}")
        return SKIPPED
    with open(folder / "memory.csv", newline="") as file:
        rows = [row for row in map(Row, csv.DictReader(file)) if re.search(options.only, f"{row.source} {row.id}")]
    program = str(pathlib.Path(options.program).resolve())
    for row in rows:
        row.ask(program, folder)
        if options.rows and row.is_figure and row.answer is not None:
            print(f"{row.source:24} {row.id:42} {row.kind:16} {float(row.measured):8.2f} {row.answer:8.2f} {100 * row.error:+7.1f}")
    groups = groups_of(rows)
    print_errors(groups)
    print_coverage(groups)
    print_verdicts(rows)
    faults = [f"{row.source}, {row.id}: {row.fault}" for row in rows if row.fault]
    sizes = [abs(row.error) for row in groups["all"]]
    for bar, name, found in zip(BARS, ("median", "mean"), (statistics.median(sizes), statistics.mean(sizes))):
        if not options.only and found > bar:
            faults.append(f"the {name} error is {100 * found:.1f} %, more than {100 * bar:.1f} %")
    if faults:
        print("\n" + "\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
