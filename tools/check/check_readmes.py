#!/usr/bin/env python3
"""Fails where README.zh-CN.md does not say the same as README.md: commands, code, and the numbers and links of every row of a table."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
LINK = re.compile(r"\]\(([^)]*)\)")


def said(name):
    """What does not hang on the language: rows by their numbers and links, headings, lines of code without comments."""
    lines = (ROOT / name).read_text().splitlines()
    rows = [(sorted(NUMBER.findall(LINK.sub("", line))), sorted(LINK.findall(line))) for line in lines if line.startswith("|")]
    code = [line.partition(" # ")[0].rstrip() for line in lines if line.startswith("    ")]
    return {"a row": rows, "a heading": [line.split(" ")[0] for line in lines if line.startswith("#")], "code": code}


english, chinese = said("README.md"), said("README.zh-CN.md")
found = []
for what, ours in english.items():
    theirs = chinese[what]
    found += [f"{what}: {one} in README.md, {other} in README.zh-CN.md" for one, other in zip(ours, theirs) if one != other][:5]
    if len(ours) != len(theirs):
        found.append(f"{what}: README.md has {len(ours)}, README.zh-CN.md {len(theirs)}")
print("\n".join(found))
sys.exit(1 if found else 0)
