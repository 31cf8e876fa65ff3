#!/usr/bin/env python3
"""Fails where tools/README.md is not what the scripts say of themselves, or a script is one that nothing names.

    tools/check/check_tools.py [--update]
"""
import ast
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "tools/README.md"
FOLDERS = {
    "": "First of all",
    "check": "Checks that the check run makes",
    "make": "Makes what ships, and what tests need",
    "plot": "Pages and pictures of the documentation",
    "fit": "Constants from measured tables",
    "soak": "What runs for long, in short as tests",
    "trainers": "Beside real training frameworks, on CPU processes",
}


def first_sentence(path):
    """What the script says that it is, up to the first end of a sentence."""
    text = path.read_text()
    if path.suffix == ".py":
        said = (ast.get_docstring(ast.parse(text)) or "").split("\n\n")[0]
    else:
        marks = [line.lstrip("#/ ") for line in text.splitlines() if line.startswith(("# ", "// "))]
        said = " ".join(marks[:3])
    said = " ".join(said.split()).replace("|", "\\|")
    ends = [at for at in (said.find(". "), said.find("; ")) if at > 0]
    return said[:min(ends)] if ends else said.rstrip(".")


def scripts():
    tracked = subprocess.run(["git", "ls-files", "tools"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in tracked.split() if name.endswith((".py", ".sh", ".js"))]


def page(paths):
    lines = ["# Tools", "", "Made by `tools/check/check_tools.py --update` of each script's first lines.", ""]
    for folder, what in FOLDERS.items():
        lines += [f"## {folder or 'tools'}", "", f"{what}.", "", "| script | what it does |", "|---|---|"]
        lines += [f"| `{path.name}` | {first_sentence(path)} |" for path in sorted(paths)
                  if path.parent == (ROOT / "tools" / folder if folder else ROOT / "tools")]
        lines += [""]
    return "\n".join(lines)


def named(path):
    """Whether a file of the project other than itself and the page names it."""
    word = path.name if path.suffix != ".py" else path.stem
    found = subprocess.run(["git", "grep", "-lwF", word, "--", ".", ":!CHANGELOG.md", ":!tools/README.md"], cwd=ROOT, capture_output=True,
                           text=True).stdout.split()
    return any(ROOT / name != path for name in found)


def main():
    paths = scripts()
    wanted = page(paths)
    if sys.argv[1:] == ["--update"]:
        PAGE.write_text(wanted)
    faults = [f"{path.relative_to(ROOT)}: nothing names it; who runs it?" for path in paths if not named(path)]
    faults += [f"{path.relative_to(ROOT)}: no first line that says what it is" for path in paths if not first_sentence(path)]
    faults += [f"tools/{path.parent.name}: no purpose in {pathlib.Path(__file__).name}" for path in paths
               if path.parent != ROOT / "tools" and path.parent.name not in FOLDERS]
    if not PAGE.exists() or PAGE.read_text() != wanted:
        faults.append("tools/README.md is not what the scripts say: tools/check/check_tools.py --update")
    print("\n".join(faults), end="\n" if faults else "")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
