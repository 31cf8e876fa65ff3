#!/usr/bin/env python3
"""Writes the reference pages of the site: what the program says of its commands, words and answers.

    tools/make_reference.py PROGRAM FOLDER
"""
import json
import pathlib
import re
import shlex
import subprocess
import sys

PROGRAM, FOLDER = sys.argv[1], pathlib.Path(sys.argv[2])
TOPICS = ("layout", "job", "cluster", "trainer")
QUESTIONS = (  # one of each kind of answer; seconds in all
    "plan llama-3.2-1b --on 8xH100 --batch 64 --seq 4096 --top 1",
    "estimate llama-2-7b --on 8xA100-80GB --layout tp=2,pp=2,sp,zero=1,mbs=1,gbs=64,seq=4096",
    "explain llama-3.2-1b --on 8xH100 --layout dp=8,zero=1,mbs=1,gbs=64,seq=4096 --to dp=8,zero=1,mbs=2,gbs=64,seq=4096",
    "export dp=8,fsdp,mbs=1,gbs=64,seq=4096 --model llama-3.2-1b --on 8xH100 --trainer torchtitan",
    "show model llama-2-7b",
    "show layout tp=2,pp=2,sp,mbs=1,gbs=64,seq=4096 --model llama-2-7b --on 8xH100",
    "show cluster 16xH100",
    "schedule simulate 1f1b --ranks 2 --microbatches 4",
    "list schedules",
)


def told(*words):
    return subprocess.run([PROGRAM, *words], capture_output=True, text=True, check=False).stdout


def subcommands(help_text):
    part = help_text.partition("Subcommands:\n")[2].partition("\n\n")[0]
    return re.findall(r"^  ([a-z]\S*)", part, re.M)


def fenced(text):
    return f"```text\n{text.rstrip()}\n```\n"


def commands_page():
    text = "# Commands\n\nWhat `trainwright COMMAND --help` prints. All commands take `--json`, `--data` and `--width`.\n\n"
    text += fenced(told("--help"))
    for name in subcommands(told("--help")):
        help_text = told(name, "--help")
        text += f"\n## {name}\n\n" + fenced(help_text)
        for sub in subcommands(help_text):
            text += f"\n### {name} {sub}\n\n" + fenced(told(name, sub, "--help"))
    return text


def words_page():
    text = "# Layout, job, cluster, trainer\n\nWhat `trainwright help TOPIC` prints: every key, its values, what holds without it.\n"
    for topic in TOPICS:
        text += f"\n## {topic.capitalize()}\n\n" + fenced(told("help", topic, "--width", "100"))
    return text


def kind(value):
    names = {bool: "true or false", int: "integer", float: "number", str: "text", type(None): "null"}
    return names.get(type(value), "")


def keys(value, path, rows):
    """Of a list the first item speaks for all."""
    if isinstance(value, dict):
        for key, inner in value.items():
            keys(inner, f"{path}.{key}" if path else key, rows)
    elif isinstance(value, list):
        if value:
            keys(value[0], path + "[]", rows)
        else:
            rows.setdefault(path, ("list", "[]"))
    else:
        rows.setdefault(path, (kind(value), json.dumps(value, ensure_ascii=False)))


def json_page():
    schema = json.loads(told(*shlex.split(QUESTIONS[0]), "--json"))["schema"]
    text = f"""# JSON

Every command takes `--json`. An object begins with `schema`, now {schema}, which grows when a key changes its name or its
meaning; new keys may come without that. Memory is in bytes, time in seconds, shares and chances between 0 and 1. Bad input gives
`error`, a list of `where`, `what` and `hint`, and exit code 2. Python's [answers](../python.md#answers) have the same names.

The tables list the keys of one answer each, with the value that they have there.
"""
    for question in QUESTIONS:
        rows = {}
        keys(json.loads(told(*shlex.split(question), "--json")), "", rows)
        text += f"\n## {' '.join(question.split()[:2 if question.split()[0] in ('show', 'schedule', 'list') else 1])}\n\n"
        text += f"`trainwright {question} --json`\n\n| key | is | here |\n|---|---|---|\n"
        for path, (what, example) in rows.items():
            shown = example if len(example) <= 60 else example[:57] + '..."'
            text += f"| `{path}` | {what} | `{shown.replace('|', chr(92) + '|')}` |\n"
    return text


FOLDER.mkdir(parents=True, exist_ok=True)
for name, page in (("commands", commands_page), ("words", words_page), ("json", json_page)):
    (FOLDER / f"{name}.md").write_text(page())
