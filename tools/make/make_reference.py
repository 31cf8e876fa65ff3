#!/usr/bin/env python3
"""Writes the reference pages of the site: what the program says of its commands, words and answers.

    tools/make/make_reference.py PROGRAM FOLDER
"""
import json
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

PROGRAM, FOLDER = str(pathlib.Path(sys.argv[1]).resolve()), pathlib.Path(sys.argv[2])
GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"
TOPICS = ("layout", "job", "cluster", "trainer")
LOGGED = "--model llama-3.1-8b --on 8xH100 --trainer torchtitan --layout fsdp,mbs=1,gbs=8,seq=8192"
FAULT = "list modles"
QUESTIONS = (  # one of each kind of answer; seconds in all
    "plan llama-3.2-1b --on 8xH100 --batch 64 --seq 4096 --top 1",
    "estimate llama-2-7b --on 8xA100-80GB --layout tp=2,pp=2,sp,zero=1,mbs=1,gbs=64,seq=4096",
    "explain llama-3.2-1b --on 8xH100 --layout dp=8,zero=1,mbs=1,gbs=64,seq=4096 --against dp=8,zero=1,mbs=2",
    "export dp=8,fsdp,mbs=1,gbs=64,seq=4096 --model llama-3.2-1b --on 8xH100 --trainer torchtitan",
    "show model llama-2-7b",
    "show layout tp=2,pp=2,sp,mbs=1,gbs=64,seq=4096 --model llama-2-7b --on 8xH100",
    "show work llama-2-7b --on 8xH100 --layout tp=2,mbs=1,gbs=64,seq=4096",
    "show cluster 16xH100",
    "show trainer megatron",
    "show trainer megatron --sources",
    "schedule simulate 1f1b --ranks 2 --microbatches 4",
    "schedule draw 1f1b --ranks 2 --microbatches 4",
    "schedule make auto --ranks 2 --microbatches 4 --chunks 2",
    "schedule compare 1f1b zb-h1 --ranks 2 --microbatches 4",
    "list models",
    "list families",
    "list accelerators",
    "list clusters",
    "list trainers",
    "list schedules",
    "replay two_layers.jsonl --top 2",
    "validate memory --measurements mine.csv --rows",
    "validate time --measurements mine.csv --rows",
    "calibrate mine.csv",
    f"calibrate titan.log {LOGGED}",
    f"reconcile titan.log {LOGGED}",
    "tune status --history tuning",
    "tune show --history tuning --trial 1",
    FAULT,
)
# What these read: inputs of the transcripts, runs of one's own, and a history of one trial.
INPUTS = ("calibrate/titan.log", "replay/two_layers.jsonl")
RUNS = """model,on,trainer,layout,kind,measured
llama-2-7b,8xA100-80GB,megatron@0.12,"tp=2,zero=1,mbs=1,gbs=64,seq=4096",step,12.5 s
llama-2-7b,8xA100-80GB,megatron@0.12,"tp=2,zero=1,mbs=1,gbs=64,seq=4096",reserved,41.2 GiB
"""
TRIAL = ("tune run llama-3.2-1b --on 8xH100 --batch 64 --seq 4096 --history tuning --trials 1 --steps 8 --step-pattern 'took ([0-9.]+) s' "
         "-- printf 'took 0.4 s\\n%.0s' 1 2 3 4 5 6 7 8")


def told(*words, cwd=None):
    return subprocess.run([PROGRAM, *words], capture_output=True, text=True, check=False, cwd=cwd).stdout


def answers():
    """What the questions are answered with, by question."""
    with tempfile.TemporaryDirectory() as folder:
        for path in INPUTS:
            shutil.copy(GOLDEN / path, folder)
        (pathlib.Path(folder) / "mine.csv").write_text(RUNS)
        told(*shlex.split(TRIAL), cwd=folder)
        found = {question: json.loads(told(*shlex.split(question), "--json", cwd=folder)) for question in QUESTIONS}
    if faults := [question for question in QUESTIONS if ("error" in found[question]) != (question == FAULT)]:
        sys.exit(f"answered otherwise than meant: {faults}")
    return found


def title(question):
    words = question.split()
    return " ".join(words[:2 if words[0] in ("show", "schedule", "list", "tune", "validate") else 1])


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
    answered = answers()
    schema = answered[QUESTIONS[0]]["schema"]
    text = f"""# JSON

Every command takes `--json`. Every answer is an object that begins with `schema`, now {schema}, which grows when a key changes its
name or its meaning (new keys may come without that), and with `made_by`: the program's version and a hash of its data. Memory is in
bytes, time in seconds, shares and chances between 0 and 1. Bad input gives `error`, a list of `where`, `what` and `hint`, and exit
code 2. Python's [answers](../python.md#answers) have the same names.

Whole numbers, bytes among them, are exact. All others are rounded to nine digits, each by itself, so parts add up to their total within
half a unit of the ninth digit for each of them. Layouts are ranked by steps in nine digits, too; equal ones by the order of their text.
Processors and browsers, which differ in the last of sixteen digits, so give the same answer, unless such a difference straddles the half
of a ninth digit ([what remains](../playground.md#nine-digits)).

The tables list the keys of one answer each, with the value that they have there.
"""
    above = ""
    for question, answer in answered.items():
        rows = {}
        keys(answer, "", rows)
        text += f"\n## {'A fault' if question == FAULT else title(question)}\n\n" if title(question) != above else "\n"
        above = title(question)
        text += f"`trainwright {question} --json`\n\n| key | is | here |\n|---|---|---|\n"
        for path, (what, example) in rows.items():
            shown = example if len(example) <= 60 else example[:57] + '..."'
            text += f"| `{path}` | {what} | `{shown.replace('|', chr(92) + '|')}` |\n"
    return text


FOLDER.mkdir(parents=True, exist_ok=True)
for name, page in (("commands", commands_page), ("words", words_page), ("json", json_page)):
    (FOLDER / f"{name}.md").write_text(page())
