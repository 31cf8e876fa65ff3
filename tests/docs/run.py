#!/usr/bin/env python3
"""Every command of the documentation is run, and what it prints compared with the page.

In docs/**/*.md and examples/*/README.md a block fenced as `console` holds commands after `$ `, each followed by what it prints; a
command that fails ends with `-> exit N`, as in tests/golden. A block with a `title="FILE"` is an input: it is
written to that file first. A page's commands share an empty folder, those of an
example a copy of its folder. `--update` rewrites what they print; read
the diff before committing.

Commands elsewhere, in running text, in tables and indented, must be understood: exit code 0 or 1. They run in the order of the
page, in a folder with INPUTS. Those that cannot run here are counted by their reason (LEFT_OUT).
"""
import argparse
import collections
import concurrent.futures
import difflib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
HANGS = 1200  # seconds; a command takes one or two, on a busy host more
FENCE = re.compile(r"^( *)```(\w*)(.*)$")
GOLDEN = ROOT / "tests/golden"
INPUTS = {  # what running text calls a reader's own file
    "train.log": "calibrate/titan.log", "run/plan.json": "calibrate/titan.plan.json", "snapshot.jsonl": "calibrate/snapshot.jsonl",
    "mine.csv": "calibrate/own.csv", "stage.jsonl": "replay/two_layers.jsonl",
}
LEFT_OUT = [
    (r"shared/|my_runs", "scores published runs for minutes; tests/rows does so, and docs/validation has what it says"),
    (r"\.\.\.|…|NAME|PLAN|FILE|TOPIC|LAYOUT|<|pretrain", "stands for words of the reader's own"),
    (r"tune (run|resume) |--history tuning", "starts training, or tells of it; tests/golden/tune and tools/soak/kill_tuner.py do both"),
    (r"tiny\.json|four\.json", "reads what a real run has logged or recorded, which is too large to ship"),
    (r"costs\.json", "reads what the engine has recorded on real processes; tests of the engine do so"),
]
MENTION = "a mention, not a whole command"


class Page:
    def __init__(self, path, program):
        self.path, self.text = path, path.read_text()
        self.environment = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8"}
        self.environment.pop("COLUMNS", None)
        self.faults, self.understood, self.left_out = [], 0, collections.Counter()

    def run(self, command, folder):
        done = subprocess.run(["bash", "-c", command], cwd=folder, text=True, timeout=HANGS, env=self.environment,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        lines = [line.rstrip() for line in done.stdout.splitlines()]
        return lines + ([f"-> exit {done.returncode}"] if done.returncode else [])

    def console(self, lines, folder):
        """The lines of a block, with what its commands print now."""
        made = []
        while lines:
            command = lines.pop(0)
            made.append(command)
            while command.endswith("\\"):
                made.append(lines.pop(0))
                command = command[:-1] + made[-1]
            while lines and not lines[0].startswith("$ "):
                lines.pop(0)
            made += self.run(command.removeprefix("$ "), folder)
        return made

    def renewed(self, folder):
        """The page with what its commands print now."""
        made, prose, lines = [], [], self.text.splitlines()
        while lines:
            line = lines.pop(0)
            made.append(line)
            fence = FENCE.match(line)
            if not fence:
                prose.append(line)
                continue
            indent, language, rest = fence.groups()
            end = lines.index(indent + "```")
            block, lines = lines[:end], lines[end:]
            title = re.search(r'title="([^"]+)"', rest)
            if title:
                target = pathlib.Path(folder, title[1])
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text("\n".join(block) + "\n")
            if language == "console":
                block = self.console([one.removeprefix(indent) for one in block], folder)
                block = [(indent + one).rstrip() for one in block]
            made += block + [lines.pop(0)]
        self.understand("\n".join(prose))
        return "\n".join(made) + "\n"

    def understand(self, prose):
        """Commands in `...` and in indented lines."""
        found = re.findall(r"`(trainwright [a-z]+ [^`]*)`", prose)
        indented = re.findall(r"^    (?:\$ )?(trainwright [a-z]+ .*)$", prose.replace("\\\n", ""), re.M)
        found += [re.sub(r" {2,}[a-z(].*", "", command) for command in indented]  # what follows is a remark
        with tempfile.TemporaryDirectory() as folder:
            for name, golden in INPUTS.items():
                target = pathlib.Path(folder, name)
                target.parent.mkdir(exist_ok=True)
                target.write_bytes((GOLDEN / golden).read_bytes())
            for command in found:
                self.understand_one(" ".join(command.split()), folder)

    def understand_one(self, command, folder):
        for pattern, reason in LEFT_OUT:
            if re.search(pattern, command):
                self.left_out[reason] += 1
                return
        quick = " --time-limit 1" if command.startswith("trainwright plan") else ""
        force = " --force" if re.search(r" --(export|out) run\b", command) else ""  # INPUTS has a `run` of its own
        lines = self.run(command + quick + force, folder) or [""]
        if re.search("is required|is needed here", lines[0]):
            self.left_out[MENTION] += 1
            return
        self.understood += 1
        if re.match(r"-> exit (?!1$)", lines[-1]):
            self.faults.append(f"{command}\n" + "\n".join(lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path, help="path of the trainwright program")
    parser.add_argument("pages", nargs="*", type=pathlib.Path, help="some pages (default: all)")
    parser.add_argument("--update", action="store_true", help="rewrite what commands print")
    options = parser.parse_args()
    program = options.program.resolve()

    def read(path):
        page = Page(path.resolve(), program)
        with tempfile.TemporaryDirectory() as folder:
            if EXAMPLES in page.path.parents:
                shutil.copytree(page.path.parent, folder, dirs_exist_ok=True)
            return page, page.renewed(folder)

    commands = understood = failed = 0
    left_out = collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for page, now in pool.map(read, options.pages or sorted([*(ROOT / "docs").rglob("*.md"), *EXAMPLES.glob("*/README.md")])):
            name = page.path.relative_to(ROOT)
            commands += len(re.findall(r"^ *\$ ", now, re.M))
            understood, left_out = understood + page.understood, left_out + page.left_out
            if options.update:
                page.path.write_text(now)
            elif now != page.text:
                page.faults.append("\n".join(difflib.unified_diff(page.text.splitlines(), now.splitlines(), "page", "now", lineterm="")))
            for fault in page.faults:
                failed += 1
                print(f"FAILED {name}: {fault}")
    print(f"{commands} commands with what they print, {understood} others understood, {left_out.total()} left out; {failed} failed")
    print("\n".join(f"left out {count}: {reason}" for reason, count in sorted(left_out.items())))
    sys.exit(1 if failed or not commands else 0)


if __name__ == "__main__":
    main()
