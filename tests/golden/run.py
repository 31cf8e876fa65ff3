#!/usr/bin/env python3
"""Golden tests of the command line: what a person types, and everything they get back.

Each folder beside this file is one behaviour: `cmd` holds one command line per line (without the
program's name), `expected` the transcript: every command, what it printed and its exit code. Input
files lie in the same folder. `--update` rewrites the transcripts; read the diff before committing.
"""
import argparse
import difflib
import pathlib
import shlex
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


def transcript(program, folder):
    lines = []
    for command in (folder / "cmd").read_text().splitlines():
        if not command or command.startswith("#"):
            continue
        done = subprocess.run([program, *shlex.split(command)], cwd=folder, capture_output=True,
                              text=True, timeout=120)
        lines.append(f"$ trainwright {command}")
        lines += done.stdout.splitlines()
        lines += [f"! {line}" for line in done.stderr.splitlines()]
        if done.returncode != 0:
            lines.append(f"-> exit {done.returncode}")
        lines.append("")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", help="path of the trainwright program")
    parser.add_argument("--update", action="store_true", help="rewrite the expected transcripts")
    options = parser.parse_args()
    program = str(pathlib.Path(options.program).resolve())
    passed = failed = 0
    for folder in sorted(path.parent for path in HERE.glob("*/cmd")):
        got = transcript(program, folder)
        expected = folder / "expected"
        if options.update:
            expected.write_text(got)
        want = expected.read_text() if expected.exists() else ""
        if got == want:
            passed += 1
            continue
        failed += 1
        print(f"FAILED {folder.name}")
        print("\n".join(difflib.unified_diff(want.splitlines(), got.splitlines(), "expected", "got",
                                             lineterm="")))
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    main()
