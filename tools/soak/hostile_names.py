#!/usr/bin/env python3
"""Random names of models and clusters that try to break out of the files of an export.

    tools/soak/hostile_names.py BUILD [--names 10000] [--seed 1]

Names hold line feeds, quotes, backquotes, $(commands), escape sequences, marks of direction, NUL, or are 10 kB long. They
come in by a config.json, by a folder's or a file's name, and by the description of a cluster, and each is exported to one of
the targets. What has a character that is not printable must be refused for it. All else must be exported, and then every file
says what it says for the name "plain": settings and scripts in Python parse to the same, scripts of the shell start the same
command with the same words and nothing else, and no line of sbatch.sh is another option. BUILD holds `answers` and `data`.
"""
import argparse
import ast
import collections
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import unicodedata

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from asked import answered  # noqa: E402

BATCH = 500  # exports whose files are there at a time
PLAIN = ["'", '"', "`", "\\", "$(evil)", "`evil`", "${IFS}evil", "; evil ;", "&& evil", "| evil", "> pwned", "<(evil)", "$'\\n'evil",
         "\\nevil", "#", " # ", " ", "  ", "!", "!!python/object/apply:evil []", "*a", "&a", "- ", ": ", "evil: 1", "[evil]", "]", "=1",
         "{", "}", "{0}", "%s", "%", "\"\"\"", "'''", "--wrap=evil", "-h", "<script>evil</script>", "](evil)", "|", "~", "EOF", "é", "模型",
         "👩", "\u200d", "import os", ",", "a", "0", "x" * 50]
HIDDEN = ["\n", "\r", "\r\n", "\nevil\n", "\n#SBATCH --wrap=evil\n", "\t", "\0", "\x1b[2J", "\x1b]0;evil\a", "\x7f", "\x85", "\x9b", "\u061c",
          "\u200e", "\u2028", "\u2029", "\u202e", "\u2066", "\u2069", "\uffff"]
# trainer, layout: every form of settings, and the files in Python
EXPORTS = [("megatron-core", "tp=2,mbs=1,zero=1"), ("megatron-bridge", "tp=2,mbs=1"), ("torchtitan@0.3", "fsdp,mbs=1"),
           ("torchtitan@0.3", "pp=2,fsdp,zero=2,mbs=1,loss=loss-parallel"), ("torchtitan@0.2", "fsdp,mbs=1"),
           ("deepspeed", "zero=3,mbs=1"), ("deepspeed", "pp=2,mbs=1,zero=1"), ("accelerate", "fsdp,mbs=1"),
           ("accelerate-deepspeed", "zero=3,mbs=1"), ("nemo-automodel", "fsdp,mbs=1"), ("nanotron", "tp=2,mbs=1"),
           ("paddleformers", "tp=2,mbs=1"), ("paddlenlp", "tp=2,mbs=1")]
LAUNCHERS = ["torchrun", "deepspeed", "accelerate", "python", "srun"]
ALARMS = ["evil", "sh", "python3", "touch", "rm", "curl", "id", "env", "cat", "ls", "pwned"]
JOB = re.compile(r"#SBATCH --(job-name=[A-Za-z0-9._-]{1,64}|nodes=2|ntasks-per-node=1|gpus-per-node=8|exclusive)")
ASKED_FOR = {name: name.lower() for name in ["MASTER_ADDR", "MEGATRON", "TRAINING", "SCRIPT", "MODULE", "CONFIG", "NAME", "FLAVOR", "RECIPE",
                                             "NANOTRON", "SLURM_JOB_NODELIST"]}


def random_name(draw):
    pieces = draw.choices(PLAIN, k=draw.randint(1, 12))
    if draw.random() < 0.4:
        pieces.insert(draw.randrange(len(pieces) + 1), draw.choice(HIDDEN))
    if draw.random() < 0.03:
        pieces.insert(draw.randrange(len(pieces) + 1), draw.choice(PLAIN) * 10_000)
    return "".join(pieces)[:10_240]


def is_hidden(name):
    """By Unicode's own categories: controls, separators of lines and paragraphs; marks of direction; what is no character."""
    return any(unicodedata.category(letter) in ("Cc", "Zl", "Zp") or letter in "\u061c\u200e\u200f\ufffe\uffff"
               or "\u202a" <= letter <= "\u202e" or "\u2066" <= letter <= "\u2069" for letter in name)


def as_file(name):
    """What a file system takes: the name as it would be called, or nothing."""
    name = name.replace("/", "_").replace("\0", "\n")
    return name if name.strip(". ") and len(os.fsencode(name)) < 200 else None


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return str(path)


class Ways:
    """The ways by which a name comes in."""

    def __init__(self, folder):
        text = (ROOT / "data/models/llama-2-7b.json").read_text()
        self.config = json.loads(re.sub(r"(?m)^\s*//.*$", "", text))["config"]
        self.folder = folder
        self.count = 0

    def model(self, name, draw):
        self.count += 1
        below, file = self.folder / f"m{self.count}", as_file(name)
        way = draw.choice(["in it", "folder", "file"]) if file else "in it"
        if way == "folder":
            return str(pathlib.Path(write(below / file / "config.json", self.config)).parent), file
        if way == "file":
            return write(below / f"{file}.json", self.config), file
        return json.dumps({**self.config, "_name_or_path": name}), name

    def cluster(self, name, draw):
        self.count += 1
        groups, file = [{"accelerator": "H100-SXM", "nodes": 2}], as_file(name)
        if file and draw.random() < 0.3:
            return write(self.folder / f"c{self.count}" / f"{file}.json", {"groups": groups}), file
        return write(self.folder / f"c{self.count}.json", {"name": name, "groups": groups}), name

    def question(self, export, name, draw):
        """The words, and the names that come in by them."""
        trainer, layout = export
        model, called = self.model(name, draw)
        cluster, place = self.cluster(name, draw)
        return ["export", layout, "--model", model, "--on", cluster, "--batch", "64", "--seq", "4096", "--trainer", trainer,
                "--launch", "kubeflow", "--launch", "jobset", "--launch", "skypilot", "--launch", "ray", "--json"], called + place


def make_shims(folder):
    """Commands that note what they were started with; all that nobody should start notes it as an alarm."""
    folder.mkdir()
    for name in LAUNCHERS:
        (folder / name).write_text("#!/bin/bash\nprintf '%s\\0' \"${0##*/}\" \"$@\" >> started\n")
    for name in ALARMS:
        (folder / name).write_text("#!/bin/bash\necho \"$0 $*\" >> \"$ALARMS\"\n")
    (folder / "scontrol").write_text("#!/bin/bash\necho first\n")
    for path in folder.iterdir():
        path.chmod(0o755)
    for name in ("dirname", "head"):
        (folder / name).symlink_to(shutil.which(name))


RUN_ALL = r"""
command_not_found_handle() { echo "no such command: $*" >> "$ALARMS"; return 127; }
export -f command_not_found_handle
for folder in "$@"; do
  cd "$folder" || exit 1
  for script in *.sh; do
    /bin/bash -n "$script" > printed 2>&1 || echo "$folder/$script does not parse" >> "$ALARMS"
    [ "$script" = settings.sh ] && continue
    NODE_RANK=0 SLURM_SUBMIT_DIR=. /bin/bash "$script" > printed 2>&1 || echo "$folder/$script failed: $(<printed)" >> "$ALARMS"
  done
done
"""


def run_scripts(folders, shims, alarms):
    subprocess.run(["/bin/bash", "-c", RUN_ALL, "bash", *map(str, folders)], check=True,
                   env={**ASKED_FOR, "PATH": str(shims), "ALARMS": str(alarms), "LC_ALL": "C.UTF-8"})
    if alarms.exists():
        raise AssertionError(alarms.read_text())


def without_name(said, name=None):
    """A task, job or manifest with NAME for what it is called, which a host, a job and a file of YAML may be called."""
    if isinstance(said, list):
        return [without_name(one, name) for one in said]
    if isinstance(said, dict):
        name = name or said.get("name") or said.get("metadata", {}).get("name")
        assert name is None or re.fullmatch("[a-z]([-a-z0-9]{0,38}[a-z0-9])?", name), name
        return {key: without_name(value, name) for key, value in said.items()}
    if isinstance(said, str) and name:
        return "NAME" if said == name else said.replace(f"={name}-node-0-0.{name} ", "=HOST ")
    return said


def meaning(folder):
    """What each file says to whom it is for; comments and README.md say nothing to a program."""
    said = {}
    for path in sorted(folder.iterdir()):
        text = path.read_text()
        if path.suffix == ".toml":
            said[path.name] = tomllib.loads(text)
        elif path.suffix == ".yaml":
            said[path.name] = list(yaml.safe_load_all(text))
            if path.name in ("trainjob.yaml", "jobset.yaml", "sky.yaml"):
                said[path.name] = without_name(said[path.name])
        elif path.suffix == ".json":
            said[path.name] = json.loads(text)
        elif path.suffix == ".py":
            said[path.name] = ast.dump(ast.parse(text))
        elif path.name == "sbatch.sh":
            options = [line for line in text.splitlines() if line.startswith("#SBATCH")]
            assert len(options) == 5 and all(JOB.fullmatch(line) for line in options), options
            said[path.name] = None
        elif path.name == "README.md":
            lines = [line for line in text.split("\n") if not line.startswith("    ")]
            assert not any(re.search(r"(?<!\\)(\\\\)*(<(?!\d)|[`\[])", line.replace("`", "", 2) if line.startswith("| `") else line) for line in lines), text
            said[path.name] = len(text.split("\n"))
        else:
            said[path.name] = path.read_text() if path.name in ("started", "schedule.csv") else None
    question = said.pop("plan.json")  # holds the question, as text
    return said, {key: question[key] for key in ("expected", "target")}


def put_files(answer, folder):
    folder.mkdir()
    for file in answer["files"]:
        (folder / file["path"]).write_text(file["text"])
    return folder


def check_batch(build, ways, names, draw, folder, plain, counts):
    exports = [draw.randrange(len(EXPORTS)) for _ in names] if plain else range(len(EXPORTS))
    asked = [ways.question(EXPORTS[export], name, draw) for export, name in zip(exports, names)]
    made = []
    for number, (answer, (words, come_in), export) in enumerate(zip(answered(build, [words for words, _ in asked]), asked, exports)):
        code, output, error = answer
        assert not is_hidden(error.replace("\r\n", "").replace("\n", "").replace("\t", "")), repr(error)
        if is_hidden(come_in):
            assert code == 2 and "which is not printable" in error, (code, words, error)
            assert all(one["where"] and one["hint"] for one in json.loads(output)["error"]), output
            counts["refused"] += 1
            continue
        assert code == 0, (code, words, error, output[:2000])
        made.append((export, put_files(json.loads(output), folder / f"{number}")))
        counts[EXPORTS[export][0]] += 1
    run_scripts([path for _, path in made], folder.parent / "shims", folder.parent / "alarms")
    for export, path in made:
        found = meaning(path)
        if export in plain:
            assert found == plain[export], (path, found, plain[export])
        else:
            plain[export] = found
    shutil.rmtree(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--names", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    draw, plain, counts = random.Random(options.seed), {}, collections.Counter()
    with tempfile.TemporaryDirectory(prefix="trainwright-") as scratch:
        folder = pathlib.Path(scratch)
        make_shims(folder / "shims")
        ways = Ways(folder / "asked")
        names = ["plain"] * len(EXPORTS)
        left = options.names
        while names:
            (folder / "files").mkdir()
            check_batch(options.build, ways, names, draw, folder / "files", plain, counts)
            shutil.rmtree(folder / "asked", ignore_errors=True)
            names = [random_name(draw) for _ in range(min(left, BATCH))]
            left -= len(names)
    exported = sum(counts.values()) - counts["refused"] - len(EXPORTS)
    assert exported > options.names / 3 and counts["refused"] > options.names / 5, counts
    assert all(counts[trainer] > 1 for trainer, _ in EXPORTS), counts
    print(f"{options.names} names, seed {options.seed}: {counts['refused']} refused with place and hint, {exported} exported, each to one "
          f"of {len(EXPORTS)} sets of files, all of which said and started what those of a plain name do")


if __name__ == "__main__":
    main()
