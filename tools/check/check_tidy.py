#!/usr/bin/env python3
"""clang-tidy on every file but tests and benchmarks that has not passed as it is.

    tools/check/check_tidy.py build/alone/compile_commands.json [PATTERN] [--list]

Tests are left out: their tables are long. A header is looked at where it is included by one file, its own if there is one. Passes are
remembered as tools/run_tests.py remembers tests: by the text of the file and of such headers, its command, .clang-tidy and the compilers; not
by the other headers it includes, or a change in `base` would be one of every file. TRAINWRIGHT_FORGET=1 looks at all.
"""
import argparse
import collections
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))

from run_tests import ROOT, digest, included, remember, remembered, toolchain  # noqa: E402


def reached(path):
    """The headers that a file includes, at once or by others."""
    found, left = set(), [path]
    while left:
        new = [header for header in included(left.pop()) if header not in found and (ROOT / header).exists()]
        found.update(new)
        left += new
    return found


def looked_at_with(paths):
    """The headers that are looked at with each file: those it is named for, or of its folder, come first."""
    users = collections.defaultdict(list)
    for path in paths:
        for header in reached(path):
            users[header].append(path)
    given = collections.defaultdict(list)
    for header, those in sorted(users.items()):
        folder, stem = header.rpartition("/")[0], header.removesuffix(".h")
        given[min(those, key=lambda path: (path != stem + ".cc", not path.startswith(folder + "/"), path))].append(header)
    return given


def key(path, headers, command):
    told = [path, command.replace(str(ROOT), ""), (ROOT / ".clang-tidy").read_text(), toolchain(),
            [(one, digest(ROOT / one)) for one in [path, *headers]]]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()


def faults_of(path, commands):
    run = subprocess.run(["clang-tidy-19", "-p", str(commands.parent), "--quiet", path], cwd=ROOT, capture_output=True, text=True)
    return run.stdout + run.stderr if run.returncode else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commands", type=pathlib.Path, help="compile_commands.json")
    parser.add_argument("pattern", nargs="?", default="", help="some files, by their path")
    parser.add_argument("--list", action="store_true", help="print what would be looked at")
    given = parser.parse_args()
    entries = {str(pathlib.Path(entry["file"]).relative_to(ROOT)): entry["command"] for entry in json.loads(given.commands.read_text())
               if entry["file"].startswith(f"{ROOT}/trainwright/") and not re.search(r"/testing/|_(test|bench)\.cc$", entry["file"])}
    headers = looked_at_with(sorted(entries))
    keys = {path: key(path, headers[path], command) for path, command in sorted(entries.items()) if re.search(given.pattern, path)}
    left = [path for path, one in keys.items() if os.environ.get("TRAINWRIGHT_FORGET") or not remembered(one)]
    if given.list:
        print("\n".join(left))
        return 0
    wrong = 0
    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL", 2))) as pool:
        for path, faults in zip(left, pool.map(lambda one: faults_of(one, given.commands), left)):
            wrong += bool(faults)
            print(faults, end="", flush=True)
            if not faults:
                remember(keys[path], f"clang-tidy {path}")
    print(f"clang-tidy: {len(keys)} files, of which {len(left)} were looked at and {len(keys) - len(left)} are remembered; {wrong} with faults")
    return 1 if wrong or not keys else 0


if __name__ == "__main__":
    sys.exit(main())
