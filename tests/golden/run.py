#!/usr/bin/env python3
"""Golden tests of the command line: what a person types, and everything they get back.

Each folder beside this file is one behaviour: `cmd` holds one command line per line (without the
program's name), `expected` the transcript: every command, what it printed and its exit code. Input
files lie in the same folder. A folder with `brief` in place of `cmd` is about what is refused: of a
command that succeeds only the first line counts. Commands in README.md and README.zh-CN.md, indented and begun by
`$ trainwright`, are followed by what they print likewise; those of docs/ are tests/docs/run.py's, which runs last.
`--update` rewrites the transcripts; read the
diff before committing.
"""
import argparse
import concurrent.futures
import difflib
import os
import pathlib
import re
import shlex
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
READMES = [HERE.parents[1] / name for name in ("README.md", "README.zh-CN.md")]
INDENT = "    "
PLAIN = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
HASH = re.compile(r'("data": ")[0-9a-f]{16}')  # of all data: one more model would change every transcript
HANGS = 1200  # seconds; a command takes one or two, on a busy host more


def transcript(program, path):
    lines, folder = [], path.parent
    for command in path.read_text().splitlines():
        if command.startswith("#") or (not command and path.name != "brief"):
            continue
        done = subprocess.run([program, *shlex.split(command)], cwd=folder, capture_output=True,
                              text=True, timeout=HANGS, env=PLAIN)
        lines.append(f"$ trainwright {command}")
        lines += HASH.sub(r"\1...", done.stdout).splitlines()[:1 if path.name == "brief" and done.returncode == 0 else None]
        lines += [f"! {line}" for line in done.stderr.splitlines()]
        if done.returncode != 0:
            lines.append(f"-> exit {done.returncode}")
        lines.append("")
    return "\n".join(lines)


def readme_with_output(program, text):
    """A README with what its commands print now."""
    lines, given = [], text.splitlines()
    while given:
        line = given.pop(0)
        lines.append(line)
        if not line.startswith(INDENT + "$ trainwright "):
            continue
        command = line[len(INDENT + "$ "):]
        while command.endswith("\\"):
            lines.append(given.pop(0))
            command = command[:-1] + lines[-1]
        # What it printed last time: up to the next command or the end of the indented block.
        while given and re.match(r"    (?!\$ )|$", given[0]):
            given.pop(0)
        # By a shell, which cuts what is too long for a page.
        done = subprocess.run(["bash", "-c", f'trainwright() {{ "{program}" "$@"; }}; {command}'], capture_output=True, text=True,
                              timeout=HANGS, env=PLAIN)
        lines += [(INDENT + out).rstrip() for out in done.stdout.rstrip().splitlines()] + [""]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", help="path of the trainwright program")
    parser.add_argument("folders", nargs="*", help="some behaviours, by name (default: all, READMEs and docs)")
    parser.add_argument("--update", action="store_true", help="rewrite the expected transcripts")
    options = parser.parse_args()
    program = str(pathlib.Path(options.program).resolve())
    passed = failed = 0
    paths = [path for path in sorted([*HERE.glob("*/cmd"), *HERE.glob("*/brief")])
             if not options.folders or path.parent.name in options.folders]
    readmes = [] if options.folders else READMES
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        places = [*zip([path.parent / "expected" for path in paths], pool.map(lambda path: transcript(program, path), paths)),
                  *zip(readmes, pool.map(lambda readme: readme_with_output(program, readme.read_text()), readmes))]
    for expected, got in places:
        if options.update:
            expected.write_text(got)
        want = expected.read_text() if expected.exists() else ""
        if got == want:
            passed += 1
            continue
        failed += 1
        print(f"FAILED {expected.relative_to(HERE.parents[1])}")
        print("\n".join(difflib.unified_diff(want.splitlines(), got.splitlines(), "expected", "got",
                                             lineterm="")))
    print(f"{passed} passed, {failed} failed", flush=True)
    if options.folders:
        sys.exit(1 if failed or not passed else 0)
    docs = subprocess.run([sys.executable, HERE.parent / "docs" / "run.py", program, *(["--update"] if options.update else [])])
    sys.exit(1 if failed or not passed or docs.returncode else 0)


if __name__ == "__main__":
    main()
