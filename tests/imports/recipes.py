#!/usr/bin/env python3
"""Asks about 400 files of fine-tuning that others published, and checks that nothing of them is dropped without a word.

    tests/imports/recipes.py build/release --shared ../shared [--list]

Each file is asked about as it is, and where that is refused for want of a model, a length or a batch, with those of
files/index.csv beside it. `--list` prints every outcome.
"""
import argparse
import collections
import csv
import json
import pathlib
import re
import shlex
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
import asked  # noqa: E402

SKIPPED = 77
DATA = HERE.parents[1] / "data/imports"


def rules(program):
    text = re.sub(r"(?m)^\s*//.*$", "", (DATA / f"{program}.json").read_text())
    table = json.loads(text)
    return {**table["keys"], **table.get("older_keys", {})}


def script_text(line):
    """A script of the arguments that are kept of one."""
    text = []
    for command in line["commands"]:
        words = [f"{name}={shlex.quote(str(value))}" for name, value in command["environment"].items()]
        words += command["program"]
        for name, value in command["arguments"].items():
            words.append(f"--{name}")
            words += [str(one) for one in (value if isinstance(value, list) else [value]) if str(one) not in ("true", "&>")]
        text.append(" \\\n  ".join(words))
    return "\n".join(text) + "\n"


def with_files(shared, folder):
    """Rows of the index, whose files all stand in `folder`."""
    files = shared / "recipes/files"
    for line in map(json.loads, (files / "shell_arguments.jsonl").read_text().splitlines()):
        path = folder / line["path"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(script_text(line))
    for file in files.rglob("*.*"):
        path = folder / file.relative_to(files)
        if file.is_file() and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.read_bytes())
    with open(files / "index.csv", newline="") as table:
        return list(csv.DictReader(table))


def words_of(command, folder):
    words = shlex.split(command)[1:]
    at = words.index("--config") + 1
    words[at] = str(folder / words[at])
    return words


def outcome(answer):
    code, output, error = answer
    if code in (0, 1) and "GiB of pipeline rank" in output:
        return "answered"
    if code in (0, 1):
        return "illegal"
    return "refused" if re.search(r"not counted here|a file of (?!the)|are not read here", error) else "fault"


def unsaid(row, answer):
    """Keys that matter and that the answer does not name before its figures, though they have no reason to be left out."""
    head, _, rest = answer[1].partition("GiB of pipeline rank")
    program = re.search(r"Read as a file of ([^.]*)\.", " ".join(rest.split()))
    name = {"axolotl": "axolotl", "LLaMA-Factory": "llama-factory", "TRL": "trl", "Hugging Face's Trainer": "trainer"}.get(
        program.group(1) if program else "", None)
    table = rules(name) if name else {}
    missing = []
    for part in row["dropped_that_matter"].split("; "):
        key, _, value = part.partition("=")
        plain = key.replace("-", "_").removeprefix("__")
        plain = re.sub(r"^fsdp_config\.fsdp_(?!version)", "fsdp_config.", plain)
        if not key or value.lower() in ("false", "none", "0", "0.0", "[]", "no"):
            continue
        said = re.search(rf"(?<![\w.]){re.escape(key)}(?!\w)", " ".join(head.split())) or key in rest
        rule = table.get(plain, "")
        kinds = {text for text in (rule.values() if isinstance(rule, dict) else [rule])}
        fine = any(text == "counted" or text.startswith("no-effect: ") for text in kinds) or (isinstance(rule, dict) and "no-effect" in kinds)
        if not said and not fine:
            missing.append(key)
    return missing


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--shared", type=pathlib.Path, default=HERE.parents[2] / "shared")
    parser.add_argument("--list", action="store_true")
    given = parser.parse_args()
    if not (given.shared / "recipes/files/index.csv").exists():
        print(f"skipped: no recipes in {given.shared}")
        return SKIPPED
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        rows = with_files(given.shared, folder)
        questions = [words_of(row["command"], folder) for row in rows]
        answers = asked.answered(given.build, questions)
        again = [i for i, row in enumerate(rows) if outcome(answers[i]) == "fault" and row["command2"]]
        for i, answer in zip(again, asked.answered(given.build, [words_of(rows[i]["command2"], folder) for i in again])):
            if answer[0] != 2 or outcome(answer) == "refused":
                answers[i] = answer
    counts, wrong = collections.defaultdict(collections.Counter), []
    for row, answer in zip(rows, answers):
        kind = outcome(answer)
        counts[row["project"]][kind] += 1
        keys = unsaid(row, answer) if kind == "answered" else []
        if keys:
            wrong.append(f"{row['path']}: {', '.join(keys)}")
        if given.list:
            fault = " ".join(answer[2].split())[:300] if kind in ("refused", "fault") else ""
            print(f"{kind:9} {row['path']} {fault.replace(place, '')}")
    kinds = ("answered", "illegal", "refused", "fault")
    print(f"{'':20}" + "".join(f"{kind:>10}" for kind in kinds))
    for project, of in counts.items():
        print(f"{project:20}" + "".join(f"{of[kind]:>10}" for kind in kinds))
    print("\n".join(f"unsaid: {line}" for line in wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
