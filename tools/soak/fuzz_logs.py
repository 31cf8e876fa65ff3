#!/usr/bin/env python3
"""Ten million runs of each fuzzer that reads what trials print: logs, and how a trial ended.

    cmake --preset dev && cmake --build --preset dev --target logs_fuzz ending_fuzz
    tools/soak/fuzz_logs.py build/dev [--runs 10000000] [--seconds N] [--only logs] [--record]

With address and undefined-behaviour sanitizers in that build, at the lowest priority. New inputs go to a folder that is thrown
away; what breaks a reader is left in crash-* here, and the exit code is 1. After --seconds, or at an interrupt of the fuzzer, it
stops early and says how far it came.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile
import time

from recorded import Output

ROOT = pathlib.Path(__file__).resolve().parents[2]
READERS = ("logs", "ending")
INTERRUPTED = 72  # libFuzzer's exit code
LONGEST = 1024  # bytes of an input: a few lines of any trainer


def fuzzed(folder, name, runs, seconds, seed):
    """Runs, seconds, inputs that reached something new, and whether it held."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as found:
        words = [folder / f"{name}_fuzz", f"-runs={runs}", f"-max_len={LONGEST}", f"-seed={seed}", "-timeout=20", "-print_final_stats=1",
                 f"-max_total_time={seconds}", found, ROOT / "fuzz/corpus" / name]
        done = subprocess.run(["nice", "-n", "19", *words], capture_output=True, text=True)
        inputs = len(list(pathlib.Path(found).iterdir()))
    counted = re.search(r"stat::number_of_executed_units: +(\d+)", done.stderr)
    held = done.returncode in (0, INTERRUPTED)
    if not held:
        sys.stderr.write(done.stderr[-4000:])
    return int(counted.group(1)) if counted else 0, round(time.monotonic() - start), inputs, held


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="of the dev build")
    parser.add_argument("--runs", type=int, default=10**7)
    parser.add_argument("--seconds", type=int, default=0, help="of each fuzzer at most (default: no limit)")
    parser.add_argument("--only", choices=READERS, nargs="*", default=READERS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", action="store_true")
    arguments = parser.parse_args()
    say, sound = Output(), True
    for name in arguments.only:
        runs, seconds, inputs, held = fuzzed(arguments.folder.absolute(), name, arguments.runs, arguments.seconds, arguments.seed)
        sound = sound and held
        say(f"{name}: {runs:,} runs in {seconds:,} s, {inputs:,} inputs that reached something new, {'no fault' if held else 'A FAULT'}")
    if arguments.record:
        say.record("dev/tune.md", "fuzzed logs")
    sys.exit(not sound)


if __name__ == "__main__":
    main()
