#!/usr/bin/env python3
"""Counts the instructions of benchmarks under callgrind and compares them with those of tools/check/instructions.csv.

    tools/check/count_instructions.py build/release [--update]

Unlike seconds they are the same on a busy host. Fails where one took 3 % more than in the table, and where it took 3 % less, so that
the table follows; `--update` writes it. Another compiler or another libstdc++ counts otherwise, too.
"""
import argparse
import csv
import pathlib
import re
import subprocess
import sys

TABLE = pathlib.Path(__file__).with_name("instructions.csv")
LIMIT = 0.03


def instructions(program, benchmark):
    """Of one pass, with reading the data: a second pass would hang on the clock."""
    run = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", program, f"--benchmark_filter=^{benchmark}$",
                          "--benchmark_min_time=0"], capture_output=True, text=True, check=True)
    if benchmark not in run.stdout:
        sys.exit(f"{program.name} has no {benchmark}")
    return int(re.search(r"Collected : (\d+)", run.stderr)[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--update", action="store_true")
    given = parser.parse_args()
    rows, off = list(csv.DictReader(TABLE.read_text().splitlines())), 0
    for row in rows:
        count = instructions((given.build / row["program"]).resolve(), row["benchmark"])
        change = count / int(row["instructions"]) - 1
        off += abs(change) > LIMIT
        print(f"{row['program']} {row['benchmark']}: {count:,} instructions, {change:+.2%}{' OVER' if change > LIMIT else ''}")
        row["instructions"] = count
    if given.update:
        TABLE.write_text("program,benchmark,instructions\n" + "".join(",".join(map(str, row.values())) + "\n" for row in rows))
    sys.exit(1 if off and not given.update else 0)


if __name__ == "__main__":
    main()
