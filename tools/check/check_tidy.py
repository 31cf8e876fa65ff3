#!/usr/bin/env python3
"""clang-tidy on every file but tests and benchmarks that has not passed as it is.

    tools/check/check_tidy.py build/alone/compile_commands.json [PATTERN] [--list]

Tests are left out: their tables are long. A header is looked at where it is included by one file, its own if there is one. Passes are
remembered as tools/run_tests.py remembers tests: by the text of the file and of such headers, its command, .clang-tidy and the compilers; not
by the other headers it includes, or a change in `base` would be one of every file. TRAINWRIGHT_FORGET=1 looks at all.
Most of the time goes into headers, so that files of a module are looked at eight at a time, and each by itself where something is found.
"""
import argparse
import collections
import concurrent.futures
import functools
import hashlib
import itertools
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))

from run_tests import ROOT, digest, included, remember, remembered, said, toolchain  # noqa: E402

PROGRAM = f"{ROOT}/build/types/bin/clang-tidy"  # tools/make/make_venv.sh


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


def flags_of(entry):
    words = [word for word in shlex.split(entry["command"]) if not word.endswith("ccache")]
    return words[1:words.index("-o")]


@functools.cache
def judge():
    return [digest(ROOT / ".clang-tidy"), toolchain(), said(PROGRAM, "--version")]


def key(path, headers, flags):
    told = [path, " ".join(flags).replace(str(ROOT), ""), judge(),
            [(one, digest(ROOT / one)) for one in [path, *headers]]]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()


def faults_of(path, flags, *more):
    run = subprocess.run([PROGRAM, "--quiet", f"--config-file={ROOT}/.clang-tidy", *more, path, "--", *flags], cwd=ROOT,
                         capture_output=True, text=True)
    return run.stdout + run.stderr if run.returncode else ""


def found_in(paths, flags):
    """Each of the files with its faults; they are compiled with the same flags."""
    if len(paths) > 1:
        with tempfile.NamedTemporaryFile("w", suffix=".cc") as together:
            together.write("".join(f'#include "{ROOT}/{path}"\n' for path in paths))
            together.flush()
            if not faults_of(together.name, flags, r"--header-filter=trainwright/.*\.(h|cc)$", "--checks=-bugprone-suspicious-include"):
                return [(path, "") for path in paths]
    return [(path, faults_of(path, flags)) for path in paths]


def together(paths, flags):
    """Files with the same flags of the same folder, at most eight at a time."""
    def alike(path):
        return path.rpartition("/")[0], flags[path]
    for _, group in itertools.groupby(sorted(paths, key=alike), alike):
        group = list(group)
        yield from (group[at:at + 8] for at in range(0, len(group), 8))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commands", type=pathlib.Path, help="compile_commands.json")
    parser.add_argument("pattern", nargs="?", default="", help="some files, by their path")
    parser.add_argument("--list", action="store_true", help="print what would be looked at")
    given = parser.parse_args()
    if not pathlib.Path(PROGRAM).exists():
        sys.exit(f"no {PROGRAM}: tools/make/make_venv.sh makes it")
    flags = {str(pathlib.Path(entry["file"]).relative_to(ROOT)): flags_of(entry) for entry in json.loads(given.commands.read_text())
             if entry["file"].startswith(f"{ROOT}/trainwright/") and not re.search(r"/testing/|_(test|bench)\.cc$", entry["file"])}
    headers = looked_at_with(sorted(flags))
    keys = {path: key(path, headers[path], flags[path]) for path in sorted(flags) if re.search(given.pattern, path)}
    left = [path for path, one in keys.items() if os.environ.get("TRAINWRIGHT_FORGET") or not remembered(one)]
    if given.list:
        print("\n".join(left))
        return 0
    wrong = 0
    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL", 2))) as pool:
        for found in pool.map(lambda group: found_in(group, flags[group[0]]), together(left, flags)):
            for path, faults in found:
                wrong += bool(faults)
                print(faults, end="", flush=True)
                if not faults:
                    remember(keys[path], f"clang-tidy {path}")
    print(f"clang-tidy: {len(keys)} files, of which {len(left)} were looked at and {len(keys) - len(left)} are remembered; {wrong} with faults")
    return 1 if wrong or not keys else 0


if __name__ == "__main__":
    sys.exit(main())
