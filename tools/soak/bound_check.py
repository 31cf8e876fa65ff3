#!/usr/bin/env python3
"""Asks of many random layouts whether a search would reject what a replay accepts.

    tools/soak/bound_check.py build/release/memory_prop_test [--layouts 20000] [--seed 1]

The property draws twenty layouts in each case; small models with large vocabularies are among them. Prints what the
program says; its last line is the verdict. 20,000 layouts take about 5 minutes on one core.
"""
import argparse
import os
import subprocess
import sys

DRAWN = 20  # in each case of the property


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--layouts", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    cases = max(1, options.layouts // DRAWN)
    environment = dict(os.environ, RC_PARAMS=f"max_success={cases} seed={options.seed}")
    run = subprocess.run([options.program, "--test-case=a search never rejects*"], env=environment)
    print(f"{cases * DRAWN} layouts drawn, seed {options.seed}: "
          f"{'none was rejected wrongly' if run.returncode == 0 else 'one was rejected wrongly'}")
    return run.returncode


if __name__ == "__main__":
    sys.exit(main())
