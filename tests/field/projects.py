#!/usr/bin/env python3
"""Step times of projects that no constant is fitted to, every project counted alike.

Asks the rows of ../shared/field/time_rows.csv and of tests/elsewhere/runs.csv and prints, by project, the median error and the share
of rows inside their 90 % interval, and their means.

    tests/field/projects.py build/release/trainwright [--shared ../shared]
"""
import argparse
import csv
import json
import pathlib
import shlex
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared"
SKIPPED = 77  # what ctest takes for a skipped test


def questions(shared):
    """(project, words, folder, measured, whether it is a rate)"""
    with open(shared / "field/time_rows.csv") as file:
        for row in csv.DictReader(file):
            words = [row["model"]]
            for key in ("on", "trainer", "layout", "job", "attention"):
                words += ["--" + key, row[key]] if row[key] else []
            yield row["source"], words, shared / "field", float(row["measured"]), row["kind"] != "step_s"
    with open(ROOT / "tests/elsewhere/runs.csv") as file:
        for row in csv.DictReader(file):
            if not row["unit"].startswith("GiB"):
                yield row["project"], shlex.split(row["estimate"]), ROOT / "tests/elsewhere", float(row["measured"]), row["unit"] != "s"


def judged(program, words, folder, measured, rate):
    """The error of a step's time and whether it is inside the interval; None where there is no answer."""
    said = subprocess.run([program, "estimate", *words, "--json"], capture_output=True, text=True, cwd=folder, check=False)
    time = json.loads(said.stdout).get("time") if said.stdout.startswith("{") else None
    if time is None:
        return None
    step = time["tokens"] / time["ranks"] / measured if rate else measured
    return abs(time["step"] / step - 1), time["low"] <= step <= time["high"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=lambda path: str(pathlib.Path(path).resolve()))
    parser.add_argument("--shared", type=pathlib.Path, default=SHARED)
    options = parser.parse_args()
    if not (options.shared / "field").is_dir():
        print(f"skipped: no {options.shared / 'field'}")
        return SKIPPED
    projects = {}
    for project, *question in questions(options.shared.resolve()):
        projects.setdefault(project, []).append(judged(options.program, *question))
    medians, shares = [], []
    for project, rows in projects.items():
        known = [row for row in rows if row is not None]
        if not known:
            continue
        medians.append(statistics.median(error for error, _ in known))
        shares.append(sum(inside for _, inside in known) / len(known))
        print(f"{project:28} {len(known):3} rows  median {100 * medians[-1]:5.1f} %  inside {100 * shares[-1]:5.1f} %  not answered {len(rows) - len(known)}")
    print(f"{len(medians)} projects: mean of medians {100 * statistics.mean(medians):.1f} %, median of medians "
          f"{100 * statistics.median(medians):.1f} %, inside on average {100 * statistics.mean(shares):.1f} %")
    return 0


if __name__ == "__main__":
    sys.exit(main())
