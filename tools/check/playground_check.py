#!/usr/bin/env python3
"""The playground's answers are the program's, byte for byte.

  tools/check/playground_check.py PROGRAM [--made build/playground] [--questions 200] [--seed 1]

Asks node (the core as WebAssembly) and the program the same random questions and those of tests/golden, and compares
exit codes, output, errors and files. Then times a 70B model on 64 accelerators, both on one core. Exit code 1 where
something differs, 77 where there is no playground (tools/make/make_playground.sh).
"""
import argparse
import json
import os
import pathlib
import random
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77
PLAIN = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
NOT_THERE = {"calibrate", "check", "reconcile", "tune", "validate", "completion", "man"}  # fits, files, logs, trials; what shells and manuals need
CLUSTERS = ("H100", "A100-80GB", "A100-40GB", "H200", "B200", "RTX-4090", "MI300X", "H800", "V100-32GB", "L40S")
TRAINERS = ("", "", "megatron@0.12", "megatron@0.16", "torchtitan", "deepspeed", "accelerate", "paddlenlp", "pytorch", "nanotron")
LARGE = "plan llama-3.1-70b --on 64xH100 --batch 1024 --seq 8192"


class Core:
    """The WebAssembly in one node process."""

    def __init__(self, made):
        self.node = subprocess.Popen(["node", "--no-experimental-fetch", ROOT / "tools/check/playground_node.js", made],
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, words, folder=None):
        self.node.stdin.write(json.dumps({"words": words, "folder": folder and str(folder)}) + "\n")
        self.node.stdin.flush()
        line = self.node.stdout.readline()
        if not line:
            raise RuntimeError(f"node ended at {shlex.join(words)}")
        return json.loads(line)

    def close(self):
        self.node.stdin.close()
        self.node.wait()


def answer_of(program, words, folder=None):
    """What the program prints and writes; in a copy of `folder`."""
    with tempfile.TemporaryDirectory() as place:
        here = pathlib.Path(place) / (folder.name if folder else "asked")
        here.mkdir()
        for one in folder.iterdir() if folder else ():
            (here / one.name).write_bytes(one.read_bytes())
        before = {path for path in here.rglob("*") if path.is_file()}
        done = subprocess.run([program, *words], cwd=here, capture_output=True, env=PLAIN, check=False)
        files = {str(path.relative_to(here)): path.read_bytes().decode() for path in here.rglob("*")
                 if path.is_file() and path not in before}
    return {"exit": done.returncode, "out": done.stdout.decode(), "err": done.stderr.decode(), "files": files}


def layout(pick):
    tp, pp = pick.choice((1, 1, 2, 4, 8)), pick.choice((1, 1, 2, 4))
    words = [f"tp={tp}", f"pp={pp}", f"mbs={pick.choice((1, 1, 2, 4))}", f"gbs={pick.choice((32, 64, 128, 256, 96))}",
             f"seq={pick.choice((1024, 2048, 4096, 8192))}"]
    if tp > 1 and pick.random() < 0.7:
        words.append("sp")
    words += pick.choice(([], ["zero=1"], ["zero=1"], ["zero=3"], ["fsdp"], ["cp=2"]))
    words += pick.choice(([], [], ["recompute=full"], ["recompute=selective"], ["recompute=block:2"]))
    if pp > 1 and pick.random() < 0.3:
        words.append(f"vpp={pick.choice((2, 4))}")
    return ",".join(words)


def random_words(pick, models):
    model = pick.choice(models)
    ranks = pick.choice((1, 2, 4, 8, 8, 16, 32, 64))
    on = f"{ranks}x{pick.choice(CLUSTERS)}"
    trainer = pick.choice(TRAINERS)
    told = ["--trainer", trainer] if trainer else []
    told += pick.choice(([], [], [], ["--job", "lora=16"], ["--precision", "fp32"], ["--risk", "0.2"], ["--risk", "5e-2"]))
    shown = pick.choice((["--json"], ["--width", "120"], [], ["--width", "61"]))
    kind = pick.choice(("plan", "plan", "estimate", "estimate", "estimate", "export", "show", "show", "explain", "schedule", "wrong"))
    step = ["--batch", str(pick.choice((16, 64, 128, 512))), "--seq", str(pick.choice((1024, 2048, 4096, 8192)))]
    if kind == "plan":
        more = pick.choice(([], ["--report", "plan.html"], ["--json", "--details"], ["--fix", "mbs=1"], ["--no", "pp"],
                            ["--tokens", "15T", "--price", "2.5"], ["--top", "3", "--why-not", "tp=2,pp=1,mbs=1"]))
        return ["plan", model, "--on", on, *step, *told, *more, *([] if "--json" in more else shown)]
    if kind == "export":
        to = pick.choice(([], ["--to", "megatron-lm"], ["--to", "torchtitan"], ["--to", "deepspeed"], ["--out", "run"]))
        return ["export", layout(pick), "--model", model, "--on", on, *to, *(told[:2] if trainer else []),
                *pick.choice(([], ["--json"], ["--only-settings"]))]
    if kind == "show":
        what = pick.choice(("model", "layout", "work", "cluster", "trainer"))
        if what == "layout":
            return ["show", "layout", layout(pick), "--model", model, "--on", on, *told[:2], *shown]
        if what == "work":
            return ["show", "work", model, "--on", on, "--layout", layout(pick), *told[:2], *shown]
        return ["show", what, {"model": model, "cluster": on, "trainer": trainer or "megatron-core"}[what], *shown]
    if kind == "schedule":
        name = pick.choice(("1f1b", "gpipe", "zb-h1", "zb-v", "interleaved-1f1b", "auto", "v-half"))
        if pick.random() < 0.3:
            return ["schedule", "compare", "--ranks", str(pick.choice((2, 4, 8))), "--microbatches", str(pick.choice((8, 16))), *shown]
        return ["schedule", "draw", name, "--ranks", str(pick.choice((2, 4, 8))), "--microbatches", str(pick.choice((4, 8, 12))), *shown]
    if kind == "wrong":
        return pick.choice((
            ["plan", model + "x", "--on", on + "0", *step, "--risk", "+0.05"], ["plan", model, "--on", on, *step, "--risk", " 0.05"],
            ["plan", model, "--on", on, *step, "--price", "1e400", "--json"], ["plan", model, "--on", on, *step, "--price", "0x1p3"],
            ["plan", model, "--on", on, *step, "--goodput", "."], ["estimate", model, "--on", on, "--layout", "tp=+2,mbs=1"],
            ["list", "modles"], ["show", "trainer", "megatorn"], ["estimate", model, "--on", "0x" + on, "--layout", "tp=2", "--json"]))
    return [kind, model, "--on", on, "--layout", layout(pick), *told, *shown]


def is_yaml(path):
    """A file of YAML, or a script that names one."""
    return path.suffix in (".yaml", ".yml") or path.suffix == ".sh" and path.is_file() and re.search(r"\.ya?ml\b", path.read_text())


def golden_questions():
    for path in sorted([*ROOT.glob("tests/golden/*/cmd"), *ROOT.glob("tests/golden/*/brief")]):
        for line in path.read_text().splitlines():
            words = [] if line.startswith("#") else shlex.split(line)
            # Help lists commands that are not there; nobody fits, reads YAML or runs a trainer's own check in a browser.
            options = {"--help", "--measured", "--check"} & set(words)
            absent = not words or words[0] in NOT_THERE or options or words[0] == "help"
            beside = any(word.startswith(("/", "..")) or is_yaml(path.parent / word) for word in words)
            if not absent and not beside:
                yield words, path.parent


def without_commands(text):
    """Commands that are not there are not listed."""
    return re.sub(r"commands are .*", "commands are ...", text)


def difference(native, core):
    core = {**core, "files": {one["path"]: one["content"] for one in core["files"]}}
    native, core = ({**one, "err": without_commands(one["err"]), "out": without_commands(one["out"])} for one in (native, core))
    for key in ("exit", "err", "out", "files"):
        if native[key] == core[key]:
            continue
        if not isinstance(native[key], str):
            return f"{key}: " + (f"{native[key]} and {core[key]}" if key == "exit" else f"of {sorted(native[key])} and {sorted(core[key])}")
        ours, theirs = native[key].split("\n"), core[key].split("\n")
        at = next((i for i, pair in enumerate(zip(ours, theirs)) if pair[0] != pair[1]), min(len(ours), len(theirs)))
        return f"{key}, line {at + 1}:\n    program    {''.join(ours[at:at + 1])[:300]}\n    playground {''.join(theirs[at:at + 1])[:300]}"
    return None


def compare(program, core, questions):
    differs, kinds = [], {}
    for words, folder in questions:
        kind = words[0] if words else ""
        found = difference(answer_of(program, words, folder), core.ask(words, folder))
        kinds.setdefault(kind, [0, 0])[found is not None] += 1
        if found:
            differs.append(words)
            print(f"{shlex.join(words)}\n  {found}", flush=True)
    return differs, ", ".join(f"{name or 'nothing'} {equal + other}" for name, (equal, other) in sorted(kinds.items()))


def times(program, core, repeats=3):
    """Seconds of the program and of WebAssembly, each at its best on one core."""
    words = LARGE.split()
    script = "import os, subprocess, sys, time; best = 9e9\n" \
             f"for _ in range({repeats}):\n  s = time.perf_counter(); subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)\n" \
             "  best = min(best, time.perf_counter() - s)\nprint(best)"
    native = float(subprocess.run(["taskset", "-c", "0", sys.executable, "-c", script, program, *words], capture_output=True, text=True,
                                  check=True).stdout)
    first = core.ask(words)["seconds"]
    return native, first, min([first] + [core.ask(words)["seconds"] for _ in range(repeats - 1)])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--made", type=pathlib.Path, default=ROOT / "build/playground")
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only-golden", action="store_true")
    given = parser.parse_args()
    if not (given.made / "trainwright.wasm").exists():
        print(f"there is no {given.made}/trainwright.wasm: run tools/make/make_playground.sh")
        return SKIPPED
    program = str(pathlib.Path(given.program).resolve())
    pick, models = random.Random(given.seed), sorted(path.stem for path in (ROOT / "data/models").glob("*.json"))
    asked = [] if given.only_golden else [(random_words(pick, models), None) for _ in range(given.questions)]
    core = Core(given.made)
    failed = 0
    for name, questions in (("random questions", asked), ("questions of tests/golden", list(golden_questions()))):
        differs, kinds = compare(program, core, questions)
        failed += len(differs)
        print(f"{len(questions) - len(differs)} of {len(questions)} {name} have equal answers ({kinds})")
    core.close()
    fresh = Core(given.made)
    native, first, best = times(program, fresh)
    fresh.close()
    print(f"{LARGE}: program on one core {native:.2f} s, WebAssembly in node {first:.2f} s at first, {best:.2f} s at best, {best / native:.2f} times")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
