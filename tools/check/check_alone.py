#!/usr/bin/env python3
"""Compiles every file by itself, without making an object: each must include what it uses.

    tools/check/check_alone.py build/alone/compile_commands.json [PATTERN]
"""
import concurrent.futures
import json
import re
import shlex
import subprocess
import sys


def fault(entry: dict) -> str:
    words = [word for word in shlex.split(entry["command"]) if not word.endswith("ccache")]
    words = words[:words.index("-o")] + words[words.index("-o") + 2:]
    run = subprocess.run([*words, "-fsyntax-only"], cwd=entry["directory"], capture_output=True, text=True)
    return run.stderr if run.returncode else ""


def main() -> int:
    pattern = sys.argv[2] if len(sys.argv) > 2 else ""
    entries = [entry for entry in json.load(open(sys.argv[1])) if re.search(pattern, entry["file"])]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        faults = [text for text in pool.map(fault, entries) if text]
    print("\n".join(faults), end="")
    print(f"{len(entries)} files, {len(faults)} do not stand alone")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
