#!/usr/bin/env python3
"""Fails where what users read says something that the field has another word for (tools/check/terms.txt).

    tools/check/check_terms.py                    what must not be said, with its place
    tools/check/check_terms.py --counts COMMIT    lines that say it, and the words that are only counted, then and now
"""
import argparse
import fnmatch
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
READ = ["README.md", "GLOSSARY.md", "docs/*.md", "docs/how-to/*.md", "docs/tutorials/*.md", "docs/guides/*.md", "docs/concepts/*.md", "docs/extend/*.md",
        "examples/*/README.md", "tests/golden/*/expected", "web/**/*.js", "web/**/*.html"]


def terms():
    """[(pattern, the field's word, whether it is only counted), ...]"""
    for line in (ROOT / "tools/check/terms.txt").read_text().splitlines():
        pattern, bar, instead = line.rpartition(" | ")
        if bar and not line.startswith("#"):
            yield re.compile(pattern.removeprefix("? ")), instead, line.startswith("? ")


def wrong():
    for path in sorted(path for pattern in READ for path in ROOT.glob(pattern)):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            yield from (f"{path.relative_to(ROOT)}:{number}: {used[0]!r}: {instead}" for term, instead, counted in terms()
                        if not counted and (used := term.search(line)))


def lines_of(commit):
    """Of what users read: as it is, or as it was at a commit."""
    if commit is None:
        return [line for pattern in READ for path in ROOT.glob(pattern) for line in path.read_text().splitlines()]
    git = ["git", "-C", str(ROOT)]
    names = subprocess.run([*git, "ls-tree", "-r", "--name-only", commit], capture_output=True, text=True, check=True).stdout.splitlines()
    read = [name for name in names if any(fnmatch.fnmatch(name, pattern.replace("**/", "*")) and name.count("/") >= pattern.count("/") - 1 for pattern in READ)]
    return [line for name in read for line in subprocess.run([*git, "show", f"{commit}:{name}"], capture_output=True, text=True, check=True).stdout.splitlines()]


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--counts", metavar="COMMIT")
    given = words.parse_args()
    if not given.counts:
        found = list(wrong())
        print("\n".join(found))
        return 1 if found else 0
    before, now = lines_of(given.counts), lines_of(None)
    print(f"{'before':>6} {'now':>6}  per 1,000 lines   term: what is written instead")
    totals = [0, 0]
    for term, instead, counted in terms():
        counts = [sum(bool(term.search(line)) for line in lines) for lines in (before, now)]
        totals = [total + count * counted for total, count in zip(totals, counts)]
        print("{:6} {:6}  {:6.1f} {:6.1f}   {}: {}".format(*counts, *(1000 * n / len(of) for n, of in zip(counts, (before, now))), term.pattern, instead))
    print("{:6} {:6}  {:6.1f} {:6.1f}   all that are counted".format(*totals, *(1000 * n / len(of) for n, of in zip(totals, (before, now)))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
