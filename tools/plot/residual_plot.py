#!/usr/bin/env python3
"""What is left between predicted and measured memory, source by source, as pictures.

    trainwright validate memory --measurements ../shared/measurements --rows > rows.csv
    tools/plot/residual_plot.py rows.csv --source nanotron_playbook --to docs/residuals

One PNG per source: every reading's held-out error over what was measured, coloured by what was left out
together, and how many readings are within an error. Verdicts are drawn over what was predicted; wrong
ones stand out. Needs matplotlib.
"""
import argparse
import csv
import pathlib
from collections import defaultdict

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt

MOST_NAMED = 8  # folds named in the legend


def draw_errors(axes, rows):
    over, within = axes
    by_fold = defaultdict(list)
    for row in rows:
        by_fold[row["fold"]].append(row)
    folds = sorted(by_fold, key=lambda fold: (-len(by_fold[fold]), fold))
    errors = []
    for number, fold in enumerate(folds):
        measured = [float(row["measured_mib"]) / 1024 for row in by_fold[fold]]
        error = [100 * (float(row["held_out_mib"]) / float(row["measured_mib"]) - 1)
                 for row in by_fold[fold]]
        errors += [abs(e) for e in error]
        named = len(folds) <= MOST_NAMED or number < MOST_NAMED - 1
        over.scatter(measured, error, s=9, alpha=0.6, linewidths=0, label=fold if named else None,
                     color=f"C{number}" if named else "0.6")
    over.axhline(0, color="0.3", linewidth=0.8)
    over.set_yscale("symlog", linthresh=10)
    over.set_xlabel("measured, GiB")
    over.set_ylabel("predicted over measured, % (held out)")
    over.legend(fontsize=7, loc="best", framealpha=0.7)
    errors.sort()
    within.plot(errors, [100 * (i + 1) / len(errors) for i in range(len(errors))], color="C0")
    within.set_xscale("symlog", linthresh=1)
    within.set_xlabel("error, %")
    within.set_ylabel("readings within it, %")
    mean = sum(errors) / len(errors)
    within.set_title(f"{len(errors)} readings: mean {mean:.2f} %, median "
                     f"{errors[len(errors) // 2]:.2f} %", fontsize=9)
    within.grid(alpha=0.3)


def draw_verdicts(axes, rows):
    over, within = axes
    shares = [float(row["held_out_mib"]) / float(row["measured_mib"]) for row in rows]
    failed = [row["outcome"] == "oom" for row in rows]
    right = [(share > 1) == out for share, out in zip(shares, failed)]
    for good, colour, name in ((True, "C0", "on the right side"), (False, "C3", "on the wrong side")):
        chosen = [i for i, r in enumerate(right) if r == good]
        over.scatter([shares[i] for i in chosen],
                     [failed[i] + 0.7 * (k % 17 - 8) / 17 for k, i in enumerate(chosen)], s=9,
                     alpha=0.6, linewidths=0, color=colour, label=f"{name}: {len(chosen)}")
    over.axvline(1, color="0.3", linewidth=0.8)
    over.set_xscale("log")
    over.set_xlim(0.1, 10)
    over.set_yticks([0, 1], ["ran", "out of memory"])
    over.set_xlabel("predicted over capacity (held out)")
    over.legend(fontsize=8)
    wrong = defaultdict(int)
    for row, good in zip(rows, right):
        wrong[row["fold"]] += not good
    names = sorted(wrong)
    within.barh(range(len(names)), [wrong[name] for name in names], color="C3")
    within.set_yticks(range(len(names)), [name[:44] for name in names], fontsize=6)
    within.set_xlabel("on the wrong side of the capacity")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", help="CSV of trainwright validate memory --rows")
    parser.add_argument("--source", action="append", help="only this one; may be repeated")
    parser.add_argument("--to", default=".", help="folder of the pictures")
    options = parser.parse_args()
    by_source = defaultdict(list)
    with open(options.rows, newline="") as file:
        for row in csv.DictReader(file):
            by_source[row["source"]].append(row)
    folder = pathlib.Path(options.to)
    folder.mkdir(parents=True, exist_ok=True)
    for source in options.source or sorted(by_source):
        readings = [row for row in by_source[source] if row["kind"] != "verdict"]
        verdicts = [row for row in by_source[source] if row["kind"] == "verdict"]
        parts = [(draw_errors, readings), (draw_verdicts, verdicts)]
        parts = [(draw, rows) for draw, rows in parts if rows]
        if not parts:
            parser.error(f"no rows of {source}")
        figure, axes = plt.subplots(len(parts), 2, figsize=(10, 4 * len(parts)), squeeze=False)
        for (draw, rows), row_axes in zip(parts, axes):
            draw(row_axes, rows)
        figure.suptitle(source)
        figure.tight_layout()
        figure.savefig(folder / f"{source}.png", dpi=90, metadata={"Software": None})
        plt.close(figure)
        print(folder / f"{source}.png")


if __name__ == "__main__":
    main()
