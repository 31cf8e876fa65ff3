#!/usr/bin/env python3
"""What `validate memory` scores is what `estimate` answers, to the byte.

`validate memory --rows --json` names for every published row the command that gives its as-shipped figure. Rows of all
sources are drawn, their commands are run as printed, and the figures compared. Rows that our own rules refuse must be
few, what is scored meets its bars (bars.py), and docs/validation tells of the same scores.

    tests/rows/run.py build/release/trainwright [--rows 500] [--shared ../shared]
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import bars

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "tools/plot"))
import validation_pages  # noqa: E402

SHARED = pathlib.Path(__file__).resolve().parents[3] / "shared"
SKIPPED = 77  # what ctest takes for a skipped test
MOST_REFUSED = 0.03  # of a source's rows


def answer(program: str, words: list[str]) -> dict:
    run = subprocess.run([program, *words[1:], "--json"], capture_output=True, text=True)
    if run.returncode not in (0, 1) or not run.stdout.startswith("{"):
        raise RuntimeError(f"exit {run.returncode}: {run.stderr[:300]}")
    return json.loads(run.stdout)["memory"]


def figure(memory: dict, row: dict) -> float:
    """The bytes of the row's counter on the rank that it means."""
    counter = {"verdict": "driver", "static": "between_steps", "unstated": "reserved"}.get(row["kind"], row["kind"])
    sizes = [
        rank["bytes"]["activations"] if counter == "activations" else rank[counter]
        for rank in memory["classes"]
        if row["at"] == "worst-rank" or row["kind"] == "verdict" or rank["pipeline_rank"] == row["pipeline_rank"]
    ]
    return max(sizes)


def drawn(sources: list[dict], count: int) -> list[tuple[str, dict]]:
    """Evenly from every source, all of one that has few."""
    rows, left = [], count
    for place, source in enumerate(sorted(sources, key=lambda source: len(source["rows"]))):
        share = min(len(source["rows"]), left // (len(sources) - place))
        step = len(source["rows"]) / max(share, 1)
        rows += [(source["source"], source["rows"][int(i * step)]) for i in range(share)]
        left -= share
    return rows


def differs(program: str, source: str, row: dict) -> str:
    try:
        memory = answer(program, row["estimate"])
    except (RuntimeError, KeyError) as fault:
        return f"{source} {row['label']} {row['kind']}: {fault}"
    found = figure(memory, row)
    if found != row["as_shipped"] or abs(memory["oom"] - row["oom"]) > 1e-6:
        return f"{source} {row['label']} {row['kind']}: {found} B, chance {memory['oom']}; scored {row['as_shipped']} B, {row['oom']}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--shared", type=pathlib.Path, default=SHARED)
    options = parser.parse_args()
    measurements = options.shared / "measurements"
    if not measurements.is_dir():
        print(f"skipped: no {measurements}")
        return SKIPPED
    program = str(pathlib.Path(options.program).resolve())
    with tempfile.TemporaryDirectory() as files:
        scored = subprocess.run(
            [program, "validate", "memory", "--measurements", str(measurements), "--rows", "--json", "--files", files],
            capture_output=True, text=True, check=True)
        sources = json.loads(scored.stdout)["sources"]
        rows = drawn(sources, options.rows)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            faults = [fault for fault in pool.map(lambda row: differs(program, *row), rows) if fault]
    for source in sources:
        refused = sum(source["refused"].values())
        cases = refused + len({row["case"] for row in source["rows"]})
        if refused > MOST_REFUSED * cases:
            faults.append(f"{source['source']}: {refused} of {cases} rows are refused by our own rules")
    faults += bars.missed(sources)
    if validation_pages.stored(validation_pages.FIGURES)["memory"] != [validation_pages.without_rows(source) for source in sources]:
        faults.append("docs/validation is not of this program: tools/plot/validation_pages.py --program ... --about memory, or validate it anew")
    print(f"{len(rows)} rows of {len(sources)} sources, {len(faults)} faults")
    print("\n".join(faults[:20]))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
