#!/usr/bin/env python3
"""Rows of every published source that a clone has, asked again.

docs/validation/rows.csv holds of each source that step times or memory are scored on at most 21 runs, those that the pictures of
docs/validation draw: where they were published, the command that answers, what was measured and what it answered. The commands
run from the top of the repository; constants that have not seen the source, and orders of actions, are in tests/rows/files.
All of it is written by tools/plot/validation_pages.py.

    tests/rows/clone.py build/release
"""
import csv
import json
import os
import pathlib
import shlex
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROWS = ROOT / "docs/validation/rows.csv"
FILES = ROOT / "tests/rows/files"
RESIDUALS = ROOT / "data/calibrations/residuals.json"
COLUMNS = ["about", "source", "link", "where", "command", "figure", "rank", "unit", "measured", "answered"]
WORST = "fullest"
MIB = 2**20
FEWEST_SOURCES = {"time": 19, "memory": 11}

sys.path.append(str(ROOT / "tests"))
from asked import answered  # noqa: E402


def memory_figure(memory, kind, rank):
    """The bytes of a counter on the rank that is meant."""
    counter = {"verdict": "driver", "static": "between_steps", "unstated": "reserved"}.get(kind, kind)
    return max(of["bytes"]["activations"] if counter == "activations" else of[counter]
               for of in memory["classes"] if rank == WORST or of["pipeline_rank"] == int(rank))


def figure(answer, row):
    """What a row was asked for, in its unit."""
    if row["about"] == "time":
        return answer["time"]["step"]
    return memory_figure(answer["memory"], row["figure"], row["rank"]) / MIB


def asked(build, rows):
    """The rows with what the program answers now, to six digits."""
    os.chdir(ROOT)
    questions = [[*shlex.split(row["command"])[1:], "--json"] for row in rows]
    made = []
    for row, (code, output, error) in zip(rows, answered(build, questions), strict=True):
        if code not in (0, 1) or not output.startswith("{"):
            raise SystemExit(f"{row['command']}\nexit {code}: {error}")
        made.append({**row, "answered": f"{figure(json.loads(output), row):.6g}"})
    return made


def json_of(path):
    """Of a file with remarks."""
    return json.loads("".join(line for line in path.read_text().splitlines(True) if not line.lstrip().startswith("//")))


def stored():
    with open(ROWS, newline="") as file:
        return list(csv.DictReader(file))


def ratios(rows, about):
    """[{source, off}]: in per cent above what was measured, from the lowest to the highest."""
    of = {}
    for row in rows:
        if row["about"] == about:
            of.setdefault(row["source"], []).append(round(100 * (float(row["answered"]) / float(row["measured"]) - 1), 2))
    return [{"source": source, "off": sorted(off)} for source, off in of.items()]


def main():
    rows = stored()
    now = asked(pathlib.Path(sys.argv[1]).resolve(), rows)
    faults = [f"{row['source']}, {row['where']}: {row['answered']} {row['unit']} when written, now {one['answered']}\n  {row['command']}"
              for row, one in zip(rows, now, strict=True) if row != one]
    drawn = json_of(RESIDUALS)
    for about, fewest in FEWEST_SOURCES.items():
        found = ratios(rows, about)
        if len(found) < fewest:
            faults.append(f"{about}: rows of {len(found)} sources, of {fewest} expected")
        if found != drawn[about]:
            faults.append(f"{RESIDUALS.relative_to(ROOT)} has other ratios of {about} than {ROWS.relative_to(ROOT)}")
    print(f"{len(rows)} rows asked again, {len(faults)} faults")
    if faults:
        print("\n".join(faults[:20]))
        print("If this is on purpose: tools/plot/validation_pages.py --program build/release/trainwright --measurements ../shared/measurements")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
