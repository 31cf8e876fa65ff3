#!/usr/bin/env python3
"""Runs the tests of a built preset, of which those are remembered that passed with the same inputs before.

    tools/run_tests.py PRESET [--label-exclude REGEX] [--forget] [--changed | --targets]
    tools/run_tests.py step NAME [--forget] -- COMMAND...      the same for a command that is no test of ctest

What a test's answer rests on stands in tools/test_inputs.txt. The hash of all that, of its command and of the compilers is its key;
a file of that name in $TRAINWRIGHT_TESTS_CACHE, a folder that may vanish, says that it passed. Nothing but a pass is remembered: what
failed or was skipped runs again. With --forget, or TRAINWRIGHT_FORGET=1, everything runs.
"""
import argparse
import fnmatch
import functools
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
SHARED = pathlib.Path(os.environ.get("TRAINWRIGHT_SHARED", ROOT.parent / "shared"))
CACHE = pathlib.Path(os.environ.get("TRAINWRIGHT_TESTS_CACHE") or
                     os.environ.get("CCACHE_DIR", str(pathlib.Path.home() / ".cache/ccache")).rstrip("/") + "-tests")
KEPT_DAYS = 30  # since it was last asked for
OWN = re.compile(r"trainwright/.*(_test\.cc|_bench\.cc|\.md)$")  # what no other program is made of


def said(*command):
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout
    except FileNotFoundError:  # no such compiler here
        return ""


@functools.cache
def tree():
    """Every file that git knows or would add."""
    return said("git", "ls-files", "-co", "--exclude-standard").splitlines()


@functools.cache
def digest(path):
    """A file that is gone is another one than it was."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "-"


@functools.cache
def toolchain():
    packages = re.search(r"packages=\((.*?)\)", (ROOT / "tools/install_packages.sh").read_text(), re.S)[1].split()
    return said("g++", "--version") + said("clang++-19", "--version") + said("dpkg-query", "-W", *packages) + sys.version


@functools.cache
def table():
    """Names for several inputs, and the rows of patterns and inputs."""
    words, rows = {}, []
    for line in (ROOT / "tools/test_inputs.txt").read_text().splitlines():
        if line.startswith("#") or not line:
            continue
        name, mark, inputs = re.match(r"(.*?) (=|->) (.*)", line).groups()
        inputs = [one for word in inputs.split() for one in words.get(word, [word])]
        if mark == "=":
            words[name] = inputs
        else:
            rows.append((name, inputs))
    return words, rows


@functools.cache
def uses(module):
    layers = dict(re.findall(r"^(\w+):(.*)$", (ROOT / "tools/layers.txt").read_text(), re.M))
    return [module, *layers[module].split()]


def inputs_of(name, command=()):
    """None where nobody has said what they are."""
    program = re.fullmatch(r"(\w+?)_(?:prop_)?test", program_of(name, command))
    words, rows = table()
    if program:
        return [f"@{program[1]}", f"tests:{program[1]}", *words["unit"]]
    return next((inputs for pattern, inputs in rows if re.fullmatch(pattern, name)), None)


def program_of(name, command):
    """The program of C++ that a test is; before it is built, ctest tells its name alone."""
    told = re.fullmatch(r"(\w+): (\1_\w*test)", name)
    return told[2] if told else pathlib.Path(command[0]).name if command else ""


@functools.cache
def files(one):
    """Name and content of all that an input stands for."""
    if one.startswith("@"):
        folders = tuple(f"trainwright/{module}/" for module in uses(one[1:]))
        return {path: digest(ROOT / path) for path in tree() if path.startswith(folders) and not OWN.match(path)}
    if one.startswith("="):  # packages with their versions, as pip wrote them down
        found = sorted(path.name for path in (ROOT / "build" / one[1:]).glob("**/*.dist-info"))
        return {one: " ".join(found)}
    if one.startswith("shared/"):
        folder = SHARED / one.removeprefix("shared/")
        return {f"shared/{path.relative_to(SHARED)}": digest(path) for path in sorted(folder.rglob("*")) if path.is_file()}
    if one.startswith("tests:"):
        return {path: digest(ROOT / path) for path in tree() if path.startswith(f"trainwright/{one[6:]}/") and path.endswith("_test.cc")}
    return {path: digest(ROOT / path) for path in tree()
            if (fnmatch.fnmatch(path, one) or path.startswith(one + "/")) and not OWN.match(path)}


def all_files(inputs):
    found = {}
    for one in inputs:  # in their order: what one leaves out another may add again
        if one.startswith("-"):
            found = {path: content for path, content in found.items() if not fnmatch.fnmatch(path, one[1:])}
        else:
            found.update(files(one))
    left = [path for path in found if path.startswith("trainwright/")]
    while left:  # headers of modules that are not among them
        new = [header for header in included(left.pop()) if header not in found and (ROOT / header).exists()]
        found.update({header: digest(ROOT / header) for header in new})
        left += new
    return found


@functools.cache
def included(path):
    return re.findall(r'^#include "(trainwright/[^"]+)"', (ROOT / path).read_text(errors="replace"), re.M) if path.endswith((".h", ".cc")) else []


def key(name, command, inputs, *more):
    """None: to be run whatever has changed. No folder has a say: a clone elsewhere remembers the same."""
    if inputs is None or not all(files(one) for one in inputs if not one.startswith(("-", "shared/"))):
        return None
    if not command or command[0].startswith(f"{ROOT}/build/") and "/venv/" not in command[0]:
        command = []  # not known before it is built; what makes it is among its inputs
    told = json.dumps([name, list(command), more]).replace(str(ROOT), "")
    return hashlib.sha256(json.dumps([told, toolchain(), all_files(inputs)]).encode()).hexdigest()


def remembered(one):
    if not one or not (CACHE / one).exists():
        return False
    os.utime(CACHE / one)
    return True


def remember(one, name, seconds="0"):
    if one:
        CACHE.mkdir(parents=True, exist_ok=True)
        (CACHE / one).write_text(f"{seconds} {name}\n")


def seconds_of(one):
    """How long it took when it ran."""
    return float((CACHE / one).read_text().split()[0])


def forget_the_old():
    for path in CACHE.glob("*"):
        if path.stat().st_mtime < time.time() - KEPT_DAYS * 86400:
            path.unlink()


def targets_of(preset, name, words):
    """What has to be built for a test with these words in its command and its environment."""
    fuzzed = re.search(r"the (\w+) corpus", name)
    if fuzzed:
        return {f"{fuzzed[1]}_fuzz"}
    program, folder = program_of(name, words), f"{ROOT}/build/{preset}/"
    if not words:
        return {program or "all"}  # ctest knows a program that is built
    return {program} if program.endswith("_test") else {word.removeprefix(folder) for word in words if word.startswith(folder)}


def keys_of(preset, left_out):
    """Number in ctest's list, name, key (None: runs always) and targets of every test."""
    listed = json.loads(said("ctest", "--preset", preset, "--show-only=json-v1"))["tests"]
    for number, test in enumerate(listed, 1):
        properties = {one["name"]: one["value"] for one in test["properties"]}
        if left_out and any(re.search(left_out, label) for label in properties.get("LABELS", [])):
            continue
        name, command, environment = test["name"], test.get("command", []), properties.get("ENVIRONMENT", [])
        one = key(name, command, inputs_of(name, command), preset, environment)
        yield number, name, one, targets_of(preset, name, [*command, *(pair.partition("=")[2] for pair in environment)])


def run_preset(preset, given):
    tests = list(keys_of(preset, given.label_exclude))
    left = {number: (name, one, targets) for number, name, one, targets in tests if given.forget or not remembered(one)}
    if given.changed:
        print("\n".join(f"{'changed' if one else 'always'}: {name}" for name, one, _ in left.values()))
        return 0
    if given.targets:
        print(*sorted(set().union(*(targets for _, _, targets in left.values()))))
        return 0
    forget_the_old()
    code, kept = 0, [one for number, _, one, _ in tests if number not in left]
    if left:
        chosen = ",".join(map(str, left))
        with subprocess.Popen(["ctest", "--preset", preset, "-I", f"0,0,0,{chosen}"], cwd=ROOT, stdout=subprocess.PIPE, text=True) as run:
            for line in run.stdout:
                print(line, end="", flush=True)
                passed = re.match(r" *\d+/\d+ Test +#(\d+): .* Passed +([\d.]+) sec", line)
                if passed:
                    name, one, _ = left[int(passed[1])]
                    remember(one, name, passed[2])
        code = run.returncode
    else:
        print(f"100% tests passed, 0 tests failed out of {len(tests)}")
    print(f"{preset}: {len(tests)} tests, of which {len(left)} ran and {len(kept)} are remembered, which took {sum(map(seconds_of, kept)):.0f} s")
    return code


def run_step(name, command, forget):
    one = key(name, command, inputs_of(f"step {name}"))
    if not forget and remembered(one):
        print(f"{name}: remembered, nothing that it reads has changed")
        return 0
    code = subprocess.run(command, cwd=ROOT).returncode
    if code == 0:
        remember(one, name)
    return code


def main():
    words, command = sys.argv[1:], []
    if "--" in words:
        words, command = words[:words.index("--")], words[words.index("--") + 1:]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("preset", help="a preset of ctest, or `step`")
    parser.add_argument("name", nargs="?", help="of the step")
    parser.add_argument("--label-exclude", help="as of ctest")
    parser.add_argument("--forget", action="store_true", default=bool(os.environ.get("TRAINWRIGHT_FORGET")), help="run everything")
    parser.add_argument("--changed", action="store_true", help="print what would run")
    parser.add_argument("--targets", action="store_true", help="print what has to be built for that")
    given = parser.parse_args(words)
    sys.exit(run_step(given.name, command, given.forget) if given.preset == "step" else run_preset(given.preset, given))


if __name__ == "__main__":
    main()
