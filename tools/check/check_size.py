#!/usr/bin/env python3
"""Fails on a source file over 600 lines or a public header over 200: split by idea."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
found = []
for path in sorted((ROOT / "trainwright").rglob("*")):
    if path.suffix not in (".h", ".cc"):
        continue
    lines = len(path.read_text().splitlines())
    public = path.suffix == ".h" and (path.stem == path.parent.name or path.parent.name == "base")
    limit = 200 if public else 600
    if lines > limit:
        found.append(f"{path.relative_to(ROOT)}: {lines} lines, at most {limit}")
print("\n".join(found))
sys.exit(1 if found else 0)
