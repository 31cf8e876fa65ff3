#!/usr/bin/env python3
"""Whether recipes of experts come out in the order in which they were measured.

    tools/soak/rank_check.py build/release/trainwright ../shared/recipes/bridge.csv [--calibration FILE] [--bar 0.85]

The table has the commands that answer for recipes of Megatron-Bridge, and what NVIDIA published of each run of
exactly that layout: tokens a second and GPU. Two recipes of one model make a pair if these differ by more than 10 %; it is right if the predicted tokens a
second and GPU differ the same way. Recipes are a vendor's own, so all are asked with --tuned. With --calibration the
constants of a file are used: `validate time --source megatron_bridge --rows DIR` writes those without Bridge's own runs.
"""
import argparse
import csv
import itertools
import json
import pathlib
import shlex
import subprocess
import sys

APART = 1.1


def predicted(program, row, calibration, folder):
    words = shlex.split(row["command"])
    words[0] = program
    words += ["--tuned", "--json"] + (["--calibration", calibration] if calibration else [])
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    answer = json.loads(done.stdout) if done.stdout.startswith("{") else {}
    return answer.get("time", {}).get("tokens_per_second_per_rank")


def measured_recipes(arguments):
    csv.field_size_limit(1 << 24)
    with open(arguments.recipes, newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["command"] and row["measured_match"] == "exact"]
    folder = arguments.recipes.resolve().parent
    program, calibration = str(arguments.program.resolve()), arguments.calibration and str(arguments.calibration.resolve())
    recipes = []
    for row in rows:
        rate = predicted(program, row, calibration, folder)
        if rate:
            recipes.append((row, float(row["measured_tokens_s_gpu"]), rate))
    return rows, recipes


def orders(recipes, alike):
    """(right, pairs) of those that are alike and were measured apart."""
    right = pairs = 0
    wrong = []
    for (a, measured_a, rate_a), (b, measured_b, rate_b) in itertools.combinations(recipes, 2):
        if not alike(a, b) or max(measured_a, measured_b) <= APART * min(measured_a, measured_b):
            continue
        pairs += 1
        good = (measured_a > measured_b) == (rate_a > rate_b)
        right += good
        if not good:
            wrong.append((a["function"], b["function"], measured_a / measured_b, rate_a / rate_b))
    return right, pairs, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("recipes", type=pathlib.Path)
    parser.add_argument("--calibration", type=pathlib.Path)
    parser.add_argument("--bar", type=float, default=0.85)
    parser.add_argument("--wrong", action="store_true", help="lists pairs in the wrong order")
    arguments = parser.parse_args()
    rows, recipes = measured_recipes(arguments)
    print(f"{len(recipes)} of {len(rows)} measured recipes have a prediction; pairs of one model, measured more than 10 % apart:")
    def same(*keys):
        return lambda a, b: all(a[key] == b[key] for key in keys)

    kinds = {"all": same("model", "task"), "on the same GPU": same("model", "task", "gpu"),
             "in the same precision": same("model", "task", "precision")}
    shares = {}
    for name, alike in kinds.items():
        right, pairs, wrong = orders(recipes, alike)
        shares[name] = right / max(pairs, 1)
        print(f"  {name:22} {right} of {pairs} in the right order, {100 * shares[name]:.0f} %")
        for a, b, measured, rate in wrong if arguments.wrong and name == "all" else []:
            print(f"    {a} over {b}: measured {measured:.2f}, predicted {rate:.2f}")
    sys.exit(0 if shares["all"] >= arguments.bar else 1)


if __name__ == "__main__":
    main()
