#!/usr/bin/env python3
"""Layouts that trainers run or refuse, as their own sources say, and what our rules say of them.

`cases/*.csv`, one file per trainer, one line per case:

    trainer   megatron-core@0.12: always with its version; or one as a run had it switched (trainer.h read_trainer_variant)
    model, on, layout, job    as `trainwright show layout` takes them; job may be empty
    verdict   legal, refused, or advised: it runs, and we say what is amiss
    rule      the ids of all rules that refuse it, joined by '+'; of `advised` the one that speaks; of `legal` empty
    source    file and version that were read, and the fact's number where it has one

`facts/*.csv` holds what is no verdict, by its place in `trainwright show trainer --json`:

    trainer, place, value, source    place: optimizers/adamw/master; value: as JSON, "absent" where there is none

To add a case write one line, where a rule changed one for the last version before and one for the first after it. Lines
that begin with '#' are comments.

    tests/legality/run.py build/release/trainwright [FILE...]
"""
import argparse
import collections
import csv
import json
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
import asked  # noqa: E402

# Trainers whose every rule has a case here.
WHOLE = ["torchtitan", "deepspeed", "nanotron", "nanotron-main", "pytorch", "accelerate", "accelerate-deepspeed", "nemo-automodel",
         "paddlenlp", "paddlenlp-auto", "paddleformers"]
HERE = pathlib.Path(__file__).resolve().parent


def lines_of(path: pathlib.Path) -> list[tuple[str, dict]]:
    """The lines of a table, each with its place."""
    with path.open(newline="") as file:
        numbered = [(number, line) for number, line in enumerate(file, 1) if line.strip() and not line.startswith("#")]
    rows = csv.DictReader([line for _, line in numbered], strict=True)
    return [(f"{path.relative_to(HERE)}:{number}", row) for (number, _), row in zip(numbered[1:], rows)]


def words_of(row: dict) -> list[str]:
    if "place" in row:
        return ["show", "trainer", row["trainer"], "--json"]
    words = ["show", "layout", row["layout"], "--model", row["model"], "--on", row["on"], "--trainer", row["trainer"], "--json"]
    return words + (["--job", row["job"]] if row["job"] else [])


def understood(answer: list) -> dict:
    exit_code, output, error = answer
    if exit_code not in (0, 1) or not output.startswith("{"):
        raise ValueError(f"exit {exit_code}: {error.strip()[:300]}")
    return json.loads(output)


def fault_of_case(shown: dict, row: dict) -> str:
    """What differs from the case's verdict; empty if nothing does."""
    found = shown["violations"]
    forbidden, advice = ({one["id"] for one in found if one["forbidden"] is grave} for grave in (True, False))
    named = set(filter(None, row["rule"].split("+")))
    if not row["source"]:
        return "no source"
    if row["verdict"] not in ("legal", "refused", "advised") or (row["verdict"] == "legal") != (not named):
        return f"verdict '{row['verdict']}' with rule '{row['rule']}'"
    refused = named if row["verdict"] == "refused" else set()
    if forbidden != refused:
        return f"should be {row['verdict']} {row['rule']}, but is refused by {sorted(forbidden) or 'nothing'}"
    if row["verdict"] == "advised" and not named <= advice:
        return f"should be advised {row['rule']}, but is advised {sorted(advice)}"
    return ""


def fault_of_fact(node: dict, row: dict) -> str:
    """What differs from the fact; empty if nothing does."""
    for step in row["place"].split("/"):
        node = node.get(step, "absent") if isinstance(node, dict) else "absent"
    wanted = "absent" if row["value"] == "absent" else json.loads(row["value"])
    if not row["source"]:
        return "no source"
    return "" if node == wanted else f"{row['place']} is {json.dumps(node)}, should be {row['value']}"


def untried(build: pathlib.Path, rows: list[dict]) -> list[str]:
    """Rules of the trainers named above that no case violates; those in rules.json have theirs among the unit tests."""
    shared = (HERE.parents[1] / "data/trainers/rules.json").read_text()
    known, tried = {}, set()
    trainers = sorted({row["trainer"] for row in rows if not row["trainer"].startswith("{")})
    for trainer, answer in zip(trainers, asked.answered(build, [["show", "trainer", one, "--json"] for one in trainers])):
        known[trainer] = {rule["id"]: rule["require"] for rule in understood(answer)["rules"]}
    for row in rows:
        if row["trainer"] not in known:
            continue
        tried |= {(one, known[row["trainer"]].get(one)) for one in row.get("rule", "").split("+")}
    return [f"{trainer}: no case for its rule {rule[0]}" for trainer, rules in known.items() for rule in rules.items()
            if trainer.partition("@")[0] in WHOLE and rule not in tried and f'"{rule[0]}"' not in shared
            and rule[0] != "csv-placement"]  # a case has no schedule file


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("files", nargs="*", type=pathlib.Path, help="only these tables")
    options = parser.parse_args()
    build = pathlib.Path(options.program).resolve().parent
    tables = [path.resolve() for path in options.files] or sorted(HERE.glob("*/*.csv"))
    rows = [one for path in tables for one in lines_of(path)]

    def judged(place: str, row: dict, answer: list) -> str:
        try:
            fault = (fault_of_fact if "place" in row else fault_of_case)(understood(answer), row)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            fault = str(error)
        return f"{place} {row['trainer']}: {fault}" if fault else ""

    answers = asked.answered(build, [words_of(row) for _, row in rows])
    faults = list(filter(None, (judged(*row, answer) for row, answer in zip(rows, answers))))
    if not options.files:
        faults += untried(build, [row for _, row in rows])
    print(*faults, sep="\n", end="\n" if faults else "")
    verdicts = collections.Counter(row.get("verdict", "facts") for _, row in rows)
    counts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items()))
    trainers = {row["trainer"] for _, row in rows}
    print(f"{len(rows)} cases of {len(trainers)} trainers and versions ({counts}), {len(faults)} faults")
    return 1 if faults or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
