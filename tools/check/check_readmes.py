#!/usr/bin/env python3
"""Fails where README.zh-CN.md does not say the same as README.md (commands, code, and the numbers and links of every row of a table), where
README's figures are not those of docs/validation and data/, and where it has grown beyond MOST_LINES."""
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
LINK = re.compile(r"\]\(([^)]*)\)")
MOST_LINES = 130


def said(name):
    """What does not hang on the language: rows by their numbers and links, headings, lines of code without comments."""
    lines = (ROOT / name).read_text().splitlines()
    rows = [(sorted(NUMBER.findall(LINK.sub("", line))), sorted(LINK.findall(line))) for line in lines if line.startswith("|")]
    code = [line.partition(" # ")[0].rstrip() for line in lines if line.startswith("    ")]
    return {"a row": rows, "a heading": [line.split(" ")[0] for line in lines if line.startswith("#")], "code": code}


def figures():
    """What pages have to say as it is written here; the other errors of step times are renewed by tools/plot/validation_pages.py."""
    of = {about: {one["source"]: one for one in rows} for about, rows in json.loads((ROOT / "docs/validation/figures.json").read_text()).items()}
    sweep, memory = (of["memory"][source]["as_shipped"] for source in ("aleph-alpha-2023", "simumax_b200"))
    picked, rule = (of["choice"]["nanotron_playbook"][how]["regret_mean"] for how in ("as_shipped", "simple"))
    runs, median, inside = re.search(r"Time: (\d+) runs, median error (\d+) %.*, (\d+) inside", (ROOT / "docs/validation/elsewhere.md").read_text()).groups()
    first = f"{100 * of['choice']['aleph-alpha-2023']['as_shipped']['regret_mean']:.1f} % slower than the best"
    return {"README.md": [
        f"{sum(1 for _ in (ROOT / 'data/models').glob('*.json'))} built in", f"| {sum(1 for _ in (ROOT / 'data/accelerators').glob('*.json'))}: NVIDIA",
        f"{sweep['verdicts']} runs of an A100 sweep | {100 * sweep['fit_right']:.1f} % right, {sweep['false_fits']} missed OOMs",
        f"{100 * memory['mape_allocated']:.2f} % allocated, {100 * memory['mape_reserved']:.1f} % reserved",
        f"| {runs} runs of other projects | median {median} %, {inside} inside",
        f"{100 * picked:.0f} % slower; a simple rule (most DP, then least TP) {100 * rule:.0f} %"],
        "docs/comparison.md": [f"with intervals: {100 * of['time']['aleph-alpha-2023']['as_shipped']['mape']:.1f} %"],
        "docs/faq.md": [first], "docs/concepts/optimal.md": [first]}


english, chinese = said("README.md"), said("README.zh-CN.md")
found = []
for what, ours in english.items():
    theirs = chinese[what]
    found += [f"{what}: {one} in README.md, {other} in README.zh-CN.md" for one, other in zip(ours, theirs) if one != other][:5]
    if len(ours) != len(theirs):
        found.append(f"{what}: README.md has {len(ours)}, README.zh-CN.md {len(theirs)}")
found += [f"{page} does not say: {one}" for page, stated in figures().items() for one in stated if one not in (ROOT / page).read_text()]
if (lines := (ROOT / "README.md").read_text().count("\n")) > MOST_LINES:
    found.append(f"README.md has {lines} lines, more than {MOST_LINES}")
print("\n".join(found))
sys.exit(1 if found else 0)
