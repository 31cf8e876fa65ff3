#!/usr/bin/env python3
"""Published runs of well-known projects that no constant was fitted to, each answered by one `estimate`.

runs.csv has their source, the words of the command and what was measured; the page is what this makes of them.
fine_tuning.csv has the same of fine-tuning programs, judged by itself.

    tests/elsewhere/run.py build/release/trainwright [--table runs|fine_tuning] [--write]
"""
import argparse
import csv
import json
import pathlib
import shlex
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
HEAD = """# Runs from elsewhere

Published runs that were looked for after the constants had been fitted, each answered by one command. The words are those of `trainwright
estimate`; rows are in `tests/elsewhere/runs.csv`, files beside it.

- *Ratio* is predicted over measured: time of a step, or memory. Tokens are per second and accelerator.
- What a source leaves out was assumed, and the note says what. Where an assumption was made after a look at the first answer, the note says
  "not blind". Runs whose batch or layout is unknown were left out unless one choice is usual.
- Trainers that are not known here are asked as the nearest one (OLMo-core and prime-rl as torchtitan, Open-Llama as DeepSpeed, TinyLlama as
  litgpt, GPT-NeoX as Megatron-DeepSpeed), and then for time alone.

All of them together:

"""
HEAD_TUNING = """# Fine-tuning as published

Memory that fine-tuning programs publish for one or a few accelerators, each answered by one command. The words are those of `trainwright
estimate`; rows are in `tests/elsewhere/fine_tuning.csv`.

- *Ratio* is predicted over measured. GB of a source are turned into GiB where it counts in 10^9.
- What a source leaves out was assumed, and the note says what. No constant was fitted to these rows.
- Unsloth's own kernels are unknown here: of its tables only the column of Hugging Face's code is asked about.

All of them together:

"""
# By table: its rows, its page, what stands at the top.
TABLES = {"runs": ("runs.csv", "elsewhere.md", HEAD), "fine_tuning": ("fine_tuning.csv", "fine-tuning.md", HEAD_TUNING)}
TAIL = "\n*Made by `tests/elsewhere/run.py` of what `trainwright estimate` says.*\n"


def answer(program, row):
    """Predicted, low and high in the row's unit."""
    command = [program, "estimate", *shlex.split(row["estimate"]), "--json"]
    said = subprocess.run(command, capture_output=True, text=True, cwd=HERE)
    if not said.stdout.startswith("{"):
        sys.exit(f"{row['estimate']}\n{said.stderr}")
    told = json.loads(said.stdout)
    if row["unit"].startswith("GiB"):
        kind = row["unit"].split()[1]
        worst = max(told["memory"]["classes"], key=lambda rank: rank[kind])
        ends = worst["intervals"][kind]
        return worst[kind] / 2**30, ends["low"] / 2**30, ends["high"] / 2**30
    time = told["time"]
    if row["unit"] == "s":
        return time["step"], time["low"], time["high"]
    tokens = time["tokens"] / time["ranks"]
    return tokens / time["step"], tokens / time["high"], tokens / time["low"]


def ratio_of(row, predicted):
    measured = float(row["measured"])
    return measured / predicted if row["unit"] == "tokens/s" else predicted / measured


def short(value):
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def summary(name, judged):
    errors = [abs(ratio - 1) for ratio, _ in judged]
    return (f"{name}: {len(judged)} runs, median error {100 * statistics.median(errors):.0f} %, mean {100 * statistics.mean(errors):.0f} %, "
            f"{sum(inside for _, inside in judged)} inside their 90 % intervals")


def page_of(program, head_text, rows):
    lines = ["| project | run | measured | predicted | ratio | note |", "|---|---|---:|---:|---:|---|"]
    judged = {"Time": [], "Memory": []}
    for row in rows:
        predicted, low, high = answer(program, row)
        ratio, inside = ratio_of(row, predicted), low <= float(row["measured"]) <= high
        judged["Memory" if row["unit"].startswith("GiB") else "Time"].append((ratio, inside))
        lines.append(f"| {row['project']} | `{row['estimate']}` | {short(float(row['measured']))} {row['unit']} | "
                     f"{short(predicted)} ({short(low)} to {short(high)}) | {ratio:.2f} | {row['note']} |")
    sources = sorted({(row["project"], row["address"]) for row in rows})
    told = "\n".join(f"- {name}: {address}" for name, address in sources)
    head = "\n".join(f"- {summary(name, of)}" for name, of in judged.items() if of)
    return head_text + head + "\n\n" + "\n".join(lines) + "\n\n## Sources\n\n" + told + "\n" + TAIL


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=lambda path: str(pathlib.Path(path).resolve()))
    parser.add_argument("--table", choices=TABLES, default="runs")
    parser.add_argument("--write", action="store_true", help="make the page instead of comparing it")
    options = parser.parse_args()
    table, name, head = TABLES[options.table]
    written = HERE.parents[1] / "docs/validation" / name
    with open(HERE / table) as file:
        page = page_of(options.program, head, list(csv.DictReader(file)))
    print("\n".join(line[2:] for line in page.splitlines() if line.startswith(("- Time", "- Memory"))))
    if options.write:
        written.write_text(page)
    elif written.read_text() != page:
        sys.exit(f"{written} is not what the program says; look at the change, then --write")


if __name__ == "__main__":
    main()
