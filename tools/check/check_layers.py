#!/usr/bin/env python3
"""Checks every #include between modules against tools/layers.txt.

An arrow that the table does not list fails, and so does a table that is not in dependency order,
a private header used from another module, two types of one name in one namespace (programs that link
both may mix them up without a word), or a picture in ARCHITECTURE.md that is out of date. `--draw`
rewrites that picture.
"""
import argparse
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BEGIN, END = "<!-- layers: begin -->", "<!-- layers: end -->"
INCLUDE = re.compile(r'^\s*#include\s+"trainwright/([a-z_]+)/([^"]+)"', re.M)
# What says nothing about scopes: comments, raw and plain strings, characters, preprocessor lines.
BLANK = re.compile(r"""//[^\n]*|/\*.*?\*/|R"\((?:.|\n)*?\)"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+'|^\s*\#[^\n]*(?:\\\n[^\n]*)*""", re.M | re.S)
SCOPE = re.compile(r"[{};]")
NAMESPACE = re.compile(r"\bnamespace\s*([\w:]*)\s*$")
TYPE = re.compile(r"(?:^|>|\s)(?:struct|class|union|enum(?:\s+(?:class|struct))?)\s+(\w+)\s*(?:final\s*)?(?::[^:].*)?$", re.S)


def read_table(text):
    table = {}
    for line in text.splitlines():
        line = line.split("#")[0].strip()
        if not line:
            continue
        module, _, uses = line.partition(":")
        uses = uses.split()
        for used in uses:
            if used not in table:
                sys.exit(f"layers.txt: {module} uses {used}, which does not stand above it")
        table[module.strip()] = uses
    return table


def is_public(module, header):
    """Says so in its first line."""
    text = (ROOT / "trainwright" / module / header).read_text()
    return text.startswith("#pragma once\n// Public: ")


def faults(table):
    for path in sorted((ROOT / "trainwright").rglob("*")):
        if path.suffix not in (".h", ".cc"):
            continue
        module = path.relative_to(ROOT / "trainwright").parts[0]
        if module == "testing":
            continue
        is_test = path.stem.endswith(("_test", "_bench"))
        if module not in table:
            yield f"{path}: module {module} is not in tools/layers.txt"
            continue
        for used, header in INCLUDE.findall(path.read_text()):
            place = f"{path.relative_to(ROOT)}: includes trainwright/{used}/{header}"
            if used == "testing":
                if not is_test:
                    yield f"{place}, but production code may not use testing/"
            elif used == module:
                continue
            elif used not in table[module]:
                yield f"{place}, but {module} may only use: {' '.join(table[module]) or 'nothing'}"
            elif used != "base" and header != f"{used}.h" and not is_public(used, header):
                yield f"{place}, a private header of {used}"


def types_of(text):
    """The full names of the types that a file defines outside functions and anonymous namespaces."""
    text = BLANK.sub(" ", text)
    scopes, begin = [], 0  # of each open brace: the namespace's name, "" for an anonymous one, None for others
    for mark in SCOPE.finditer(text):
        before = text[begin:mark.start()].strip()
        begin = mark.end()
        if mark.group() == "}" and scopes:
            scopes.pop()
        if mark.group() != "{":
            continue
        namespace = NAMESPACE.search(before)
        found = TYPE.search(before)
        if found and not namespace and all(scopes):
            yield "::".join([*scopes, found.group(1)])
        scopes.append(namespace.group(1) if namespace else None)


def repeated_types():
    places = {}
    for path in sorted((ROOT / "trainwright").rglob("*")):
        if path.suffix in (".h", ".cc") and path.relative_to(ROOT / "trainwright").parts[0] != "testing":
            for name in types_of(path.read_text()):
                places.setdefault(name, set()).add(str(path.relative_to(ROOT)))
    for name, files in sorted(places.items()):
        if len(files) > 1:
            yield f"{name} is defined in {' and in '.join(sorted(files))}: rename one"


def direct_arrows(table):
    """The arrows that do not follow from others, so that the picture stays readable."""
    def reach(module):
        seen = set()
        for used in table[module]:
            seen |= {used} | reach(used)
        return seen

    for module, uses in table.items():
        implied = set().union(*(reach(used) for used in uses)) if uses else set()
        for used in uses:
            if used not in implied:
                yield module, used


def picture(table):
    lines = ["```mermaid", "graph BT"]
    lines += [f"  {module} --> {used}" for module, used in direct_arrows(table)]
    return "\n".join(lines + ["```"])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draw", action="store_true", help="rewrite the picture in ARCHITECTURE.md")
    options = parser.parse_args()
    table = read_table((ROOT / "tools/layers.txt").read_text())
    found = list(faults(table)) + list(repeated_types())
    architecture = ROOT / "ARCHITECTURE.md"
    text = architecture.read_text()
    head, rest = text.split(BEGIN)
    tail = rest.split(END)[1]
    fresh = f"{head}{BEGIN}\n{picture(table)}\n{END}{tail}"
    if options.draw:
        architecture.write_text(fresh)
    elif fresh != text:
        found.append("ARCHITECTURE.md: the picture is out of date; run tools/check/check_layers.py --draw")
    for fault in found:
        print(fault)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
