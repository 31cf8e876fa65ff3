#!/usr/bin/env python3
"""Every command of the documentation is run, and what it prints compared with the page.

In docs/**/*.md a block fenced as `console` holds commands after `$ `, each followed by what it prints; a
command that fails ends with `-> exit N`, as in tests/golden. A block with a `title="FILE"` is an input: it is
written to that file first. A page's commands share an empty folder. `--update` rewrites what they print; read
the diff before committing.

Commands elsewhere, in running text, in tables and indented, must be understood: exit code 0 or 1. Those that
read a file which the page does not make, or measurements that do not ship, are only counted.
"""
import argparse
import concurrent.futures
import difflib
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
HANGS = 1200  # seconds; a command takes one or two, on a busy host more
FENCE = re.compile(r"^( *)```(\w*)(.*)$")
FOREIGN = re.compile(r"train\.log|tuning|\.csv|\.jsonl|plan\.json|my_|mine|pretrain|shared/|PLAN|FILE|NAME|TOPIC|LAYOUT|\.\.\.|…|<|>")


class Page:
    def __init__(self, path, program):
        self.path, self.text = path, path.read_text()
        self.environment = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8"}
        self.environment.pop("COLUMNS", None)
        self.faults, self.understood, self.left_out = [], 0, 0

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
        for command in found:
            command = " ".join(command.split())
            if FOREIGN.search(command) or " --" not in command:
                self.left_out += 1
                continue
            quick = " --time-limit 1" if command.startswith("trainwright plan") else ""
            with tempfile.TemporaryDirectory() as folder:
                lines = self.run(command + quick, folder) or [""]
            if "is required" in lines[0]:  # a mention, not a whole command
                self.left_out += 1
                continue
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
            return page, page.renewed(folder)

    commands = understood = left_out = failed = 0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for page, now in pool.map(read, options.pages or sorted((ROOT / "docs").rglob("*.md"))):
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
    print(f"{commands} commands with what they print, {understood} others understood, {left_out} left out; {failed} failed")
    sys.exit(1 if failed or not commands else 0)


if __name__ == "__main__":
    main()
