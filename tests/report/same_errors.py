#!/usr/bin/env python3
"""The errors in data/calibrations/accuracy.json are those of the tables in docs/validation/time.md and docs/dev/memory.md."""
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def time_rows():
    rows = re.findall(r"^\| (\w[\w-]*) \| ([\d,]+) \| ([\d.]+) % \| ([\d.]+) % \|", (ROOT / "docs/validation/time.md").read_text(), re.M)
    return [{"source": name, "runs": int(runs.replace(",", "")), "error": float(error), "inside": float(inside)}
            for name, runs, error, inside in rows]


def memory_rows():
    table = (ROOT / "docs/dev/memory.md").read_text().split("| source | rows | as shipped |")[1].split("\n\n")[0]
    rows = re.findall(r"^\| ([^|]+?) \| ([\d,]+) \| ([\d.]+) %", table, re.M)
    return [{"source": name, "runs": int(runs.replace(",", "")), "error": float(error)} for name, runs, error in rows]


text = (ROOT / "data/calibrations/accuracy.json").read_text()
stored = json.loads(re.sub(r"^//.*$", "", text, flags=re.M))
found = {"time": time_rows(), "memory": memory_rows()}
for table, rows in found.items():
    for row in rows:
        if row not in stored[table]:
            print(f"{table}: not in accuracy.json: {json.dumps(row)}")
    for row in stored[table]:
        if row not in rows:
            print(f"{table}: not in the documentation: {json.dumps(row)}")
left = json.loads(re.sub(r"^//.*$", "", (ROOT / "data/calibrations/residuals.json").read_text(), flags=re.M))["time"]
if [one["source"] for one in left] != [one["source"] for one in stored["time"]]:
    print("residuals.json has other sources than accuracy.json")
    sys.exit(1)
sys.exit(0 if stored == found and len(found["time"]) > 10 else 1)
