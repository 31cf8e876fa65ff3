#!/usr/bin/env python3
"""Whether tests read nothing but what tools/test_inputs.txt says: they run under strace, and every file of the project that one opens
must be an input of it. Otherwise tools/run_tests.py would remember what is no longer so.

    tools/check/check_inputs.py PRESET [-R REGEX] [--label-exclude REGEX]     the tests whose names contain REGEX
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))

import run_tests  # noqa: E402

OPENED = re.compile(r"(?:openat|open)\(.* = \d+<([^>]+)>$|execve\(\"([^\"]+)\".* = 0$")


def opened(test, properties):
    """Files of the project that a test opened, and whether it passed."""
    environment = dict(pair.split("=", 1) for pair in properties.get("ENVIRONMENT", []))
    with tempfile.NamedTemporaryFile("r", errors="replace") as trace:
        run = subprocess.run(["strace", "-f", "-y", "-qq", "--seccomp-bpf", "-e", "trace=openat,open,execve", "-o", trace.name, *test["command"]],
                             cwd=properties.get("WORKING_DIRECTORY"), env={**os.environ, **environment}, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
        paths = {one[1] or one[2] for one in map(OPENED.search, trace) if one}
    root = f"{run_tests.ROOT}/"
    return {path.removeprefix(root) for path in paths if path.startswith(root)}, run.returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("preset")
    parser.add_argument("-R", default="", help="some tests, by name")
    parser.add_argument("--label-exclude", help="as of ctest")
    given = parser.parse_args()
    tracked, checked, wrong = set(run_tests.tree()), 0, 0
    for test in json.loads(run_tests.said("ctest", "--preset", given.preset, "--show-only=json-v1"))["tests"]:
        properties = {one["name"]: one["value"] for one in test["properties"]}
        inputs = run_tests.inputs_of(test["name"], test.get("command", []))
        if inputs is None or not re.search(given.R, test["name"]):
            continue
        if given.label_exclude and any(re.search(given.label_exclude, label) for label in properties.get("LABELS", [])):
            continue
        read, code = opened(test, properties)
        more = sorted((read & tracked) - set(run_tests.all_files(inputs)))
        checked, wrong = checked + 1, wrong + bool(more)
        if more:
            print(f"{test['name']} reads {', '.join(more)}, which tools/test_inputs.txt does not say")
        elif code not in (0, 77):
            print(f"{test['name']}: ends with {code} under strace; what it read until then is as said")
    print(f"{checked} tests looked at, {wrong} of them read more than is said")
    sys.exit(1 if wrong or not checked else 0)


if __name__ == "__main__":
    main()
