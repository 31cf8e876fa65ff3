#!/usr/bin/env python3
"""Published recipes asked of the program: may they run, do they fit, how fast, and would `plan` run them.

    tools/plot/corpus.py build/release/trainwright --shared ../shared [--sample N] [--jobs 2] [--keep FILE] [--fit]

Reads recipes/{bridge,titan,automodel}.csv: recipes of Megatron-Bridge 0.6.2, torchtitan 0.3.0 and NeMo AutoModel as somebody else
evaluated them, with what NVIDIA measured. Those whose model and accelerator are known are asked with `estimate`, those that pretrain
with `plan` too. Prints the table of docs/validation/corpus.md. Models are split in two by a hash of their names: weights of
data/preferences.json are chosen on one half (--fit) and scored on the other, the held-out half.
"""
import argparse
import collections
import concurrent.futures
import csv
import dataclasses
import hashlib
import json
import os
import re
import shlex
import statistics
import subprocess
import sys

# Keys that the csv calls inexpressible and that have words by now, or that change memory and time by less than 2 %.
HARMLESS = {
    "optimizer.main_grads_dtype=bf16": "gradients=bf16 with the precision-aware optimizer, which reads them as they are",
    "use_precision_aware_optimizer with fp32 moments": "the bytes of AdamW's own states",
    "moe_router_padding_for_quantization": "rows of an expert are padded to 16 or 32 of thousands",
    "mtp_use_repeated_layer": "parameters of one layer of dozens",
    "defer_embedding_wgrad_compute": "the same work at another time of the last stage",
    "first_last_layers_bf16": "two layers of dozens, whose GEMMs take twice as long",
    "length (data's own)": "no recipe says how long its data are: asked with 4,096 tokens",
    "mtp_num_layers of qwen3_next": "asked with a config that has them",
}
# What a csv says of a recipe is missing, and the entry of a layout that says it now.
WORDS = {
    "moe_flex_dispatcher_backend=hybridep": ("dispatcher", "hybridep"),
    "moe_flex_dispatcher_backend=deepep": ("dispatcher", "deepep"),
    "moe_flex_dispatcher_backend=ncclep": ("dispatcher", "nccl-ep"),
    "dispatcher hybridep": ("dispatcher", "hybridep"),
    "dispatcher deepep": ("dispatcher", "deepep"),
}
MARGIN, DIFFERENT = 0.10, 0.10
DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "data")


@dataclasses.dataclass
class Recipe:
    source: str
    name: str
    model: str  # as its family calls it: the halves are split by it
    estimate: list
    missing: list  # keys that matter and have no word
    impossible: str  # why it cannot run as shipped
    pretrains: bool
    moe: bool
    accelerator: str
    measured: float | None  # tokens a second of an accelerator, of the very layout
    told: dict = dataclasses.field(default_factory=dict)
    tuned: dict | None = None  # told as a vendor's own run, where it was measured
    plan: dict | None = None

    @property
    def held_out(self):
        return hashlib.sha256(self.model.encode()).digest()[0] % 2 == 1


def number(text):
    return float(text) if text not in (None, "") else None


def entries(layout):
    return dict(entry.partition("=")[::2] for entry in layout.split(","))


def with_entry(layout, key, value):
    kept = [entry for entry in layout.split(",") if entry.partition("=")[0] != key]
    return ",".join([*kept, f"{key}={value}"])


def in_our_words(argv, folder, missing):
    """The command of the csv, which is of an older program: gradients are a key of a layout now, no trainer file."""
    argv = argv[1:] if argv[0] == "trainwright" else list(argv)
    at = {flag: i + 1 for i, flag in enumerate(argv) if flag.startswith("--")}
    trainer = argv[at["--trainer"]]
    if trainer.startswith("trainers/"):
        with open(os.path.join(folder, trainer), encoding="utf-8") as file:
            variant = json.load(file)
        gradients = variant.pop("gradients", None)
        argv[at["--layout"]] = with_entry(argv[at["--layout"]], "gradients", gradients or "fp32")
        argv[at["--trainer"]] = json.dumps(variant) if len(variant) > 1 else variant["based_on"]
    elif trainer == "megatron-bridge":
        argv[at["--layout"]] = with_entry(argv[at["--layout"]], "gradients", "fp32")
    left = []
    for key in missing:
        if key in WORDS:
            name, value = WORDS[key]
            argv[at["--layout"]] = with_entry(argv[at["--layout"]], name, value)
        elif key not in HARMLESS:
            left.append(key)
    return argv, left


def has_experts(folder, model):
    path = os.path.join(folder, model) if model.endswith(".json") else os.path.join(DATA, "models", f"{model}.json")
    with open(path, encoding="utf-8") as file:
        return bool(re.search(r'"(num_local_experts|num_experts|n_routed_experts|moe_num_experts)": *[1-9]', file.read()))


def why_impossible(row):
    """By the degrees, the machine and the trainer's own validators."""
    degree = {key: int(float(row.get(key) or 1)) for key in ("tp", "pp", "cp", "ep", "etp", "mbs", "gbs", "gpus")}
    model_ranks = degree["tp"] * degree["pp"] * degree["cp"]
    if degree["gpus"] % model_ranks:
        return "degrees do not divide the GPUs"
    if row.get("ep") and degree["gpus"] % (degree["ep"] * degree["etp"] * degree["pp"]):
        return "experts and stages do not divide the GPUs"
    if degree["gbs"] % (degree["mbs"] * degree["gpus"] // model_ranks):
        return "the batch does not divide"
    if row.get("gpu") == "h100" and row.get("precision") in ("mxfp8", "nvfp4"):
        return "no such precision on the GPU"
    for column in ("bridge_validate", "core_layers_check", "core_layers"):
        if "num_layers" in (row.get(column) or ""):
            return row[column]
    return ""


def recipes(folder):
    csv.field_size_limit(1 << 30)
    for source in ("bridge", "titan", "automodel"):
        with open(os.path.join(folder, f"{source}.csv"), newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                if not row["command"]:
                    continue
                missing = [key for key in row["inexpressible"].split("; ") if key]
                argv, left = in_our_words(shlex.split(row["command"]), folder, missing)
                exact = row.get("measured_match") == "exact" or (source == "automodel" and row.get("measured_tokens_s_gpu")
                                                                 and "differs" not in row.get("measured_match", ""))
                bridge = source == "bridge"
                yield Recipe(
                    source=source, name=row.get("function") or row["path"], model=row["model" if bridge else "zoo"],
                    estimate=argv, missing=left, impossible=why_impossible(row) if bridge else "",
                    pretrains=row["task"] == "pretrain" if bridge else "--job" not in argv or source == "titan",
                    moe=has_experts(folder, argv[1]),
                    accelerator=argv[argv.index("--on") + 1].partition("x")[2],
                    measured=number(row.get("measured_tokens_s_gpu")) if exact else None)


def plan_words(recipe):
    argv = recipe.estimate
    at = {flag: i + 1 for i, flag in enumerate(argv) if flag.startswith("--")}
    layout = entries(argv[at["--layout"]])
    words = ["plan", argv[1], "--on", argv[at["--on"]], "--trainer", argv[at["--trainer"]], "--batch", layout["gbs"],
             "--seq", layout["seq"]]
    if "precision" in layout:
        words += ["--precision", layout["precision"]]
    if layout.get("gradients") == "bf16":
        words += ["--fix", "gradients=bf16"]
    if "--job" in at:
        words += ["--job", argv[at["--job"]]]
    return words


def slim(answer):
    """What is scored of an answer."""
    if "error" in answer:
        return {"verdict": "refused", "why": [fault["what"] for fault in answer["error"]][:3]}
    if "best" in answer:
        best = [{"layout": one["layout"], "step": one["time"]["step"]} for one in answer["best"]]
        return {"best": best, "recommended": answer["recommended"], "choice": answer.get("choice"), "end": answer["end"],
                "proven": answer["search"]["proven"]}
    if not answer.get("legal", True):
        return {"verdict": "illegal", "why": [one["id"] for one in answer["violations"] if one.get("forbidden", True)]}
    time = answer["time"]
    return {"verdict": answer["verdict"], "oom": answer["memory"]["oom"], "step": time["step"],
            "rate": time["tokens_per_second_per_rank"], "low": time["low"], "high": time["high"]}


class Asked:
    """Answers, each question once; kept in a file where there is one."""

    def __init__(self, program, folder, keep):
        self.program, self.folder, self.keep, self.known = os.path.abspath(program), folder, keep, {}
        if keep and os.path.exists(keep):
            with open(keep, encoding="utf-8") as file:
                self.known = {tuple(key): answer for key, answer in map(json.loads, file)}

    def ask(self, words):
        key = tuple(words)
        if key not in self.known:
            done = subprocess.run([self.program, *words, "--json"], capture_output=True, text=True, cwd=self.folder, check=False)
            try:
                self.known[key] = slim(json.loads(done.stdout))
            except (ValueError, KeyError) as fault:
                self.known[key] = {"verdict": "crash", "why": [f"exit {done.returncode}: {fault} {done.stderr[-200:]}"]}
            if self.keep:
                with open(self.keep, "a", encoding="utf-8") as file:
                    file.write(json.dumps([words, self.known[key]]) + "\n")
        return self.known[key]


def share(part, whole):
    return f"{len(part)} of {len(whole)} ({len(part) / len(whole):.0%})" if whole else "none"


def degrees(layout):
    words = entries(layout)
    return {key: int(words.get(key) or 1) for key in ("tp", "pp", "ep", "cp")}


def agrees(one, other):
    """Each of tp, pp, ep and cp equal or a factor of two apart."""
    return all(max(a, b) <= 2 * min(a, b) for a, b in zip(degrees(one).values(), degrees(other).values()))


def layout_of(recipe):
    return recipe.estimate[recipe.estimate.index("--layout") + 1]


def recommended(recipe):
    return recipe.plan["best"][recipe.plan["recommended"]]["layout"]


def error(recipe):
    return abs(recipe.tuned["rate"] / recipe.measured - 1)


def pairs(rated):
    """Of one model on one kind of accelerator, measured more than 10 % apart; and those that are told in this order."""
    groups = collections.defaultdict(list)
    for recipe in rated:
        groups[recipe.model, recipe.accelerator].append(recipe)
    found, right = [], []
    for group in groups.values():
        for i, one in enumerate(group):
            for other in group[:i]:
                ratio = one.measured / other.measured
                if max(ratio, 1 / ratio) < 1 + DIFFERENT:
                    continue
                found.append((one, other))
                if (ratio > 1) == (one.tuned["rate"] > other.tuned["rate"]):
                    right.append((one, other))
    return found, right


def rows_of(asked):
    """Each goal with what came of it, and the recipes that miss it."""
    legal = [r for r in asked if r.told["verdict"] in ("fits", "tight", "does-not-fit")]
    able = [r for r in asked if not r.impossible]
    rated = [r for r in legal if r.tuned]
    yield "expressible without keys that change memory or time by more than 2 %", "98 %", [r for r in asked if not r.missing], asked
    yield "legal, of those that can run", "100 %", [r for r in able if r in legal], able
    unable = [r for r in asked if r.impossible]
    yield "refused, of those that cannot run as shipped", "100 %", [r for r in unable if r not in legal], unable
    yield "published with a throughput: fits", "95 %", [r for r in rated if r.told["verdict"] == "fits"], rated
    yield "published with a throughput: not called \"does not fit\"", "100 %", [
        r for r in rated if r.told["verdict"] != "does-not-fit"], rated
    planned = [r for r in legal if r.plan and r.plan.get("best") and r.told["verdict"] == "fits"]
    fastest = {id(r): r.plan["best"][0]["step"] for r in planned}
    yield "plan no slower than the recipe, by its own model", "100 %", [
        r for r in planned if fastest[id(r)] <= r.told["step"] * 1.001], planned
    yield "the recipe within 10 % of the plan's step", "80 %", [
        r for r in planned if r.told["step"] <= fastest[id(r)] * (1 + MARGIN)], planned
    for half, goal in ((True, "70 %"), (False, "")):
        of = [r for r in planned if r.held_out == half]
        yield (f"recommended and recipe agree in tp, pp, ep, cp, {'held-out' if half else 'other'} half", goal,
               [r for r in of if agrees(recommended(r), layout_of(r))], of)
    yield "measured throughput inside the 90 % interval", "90 %", [
        r for r in rated if r.tuned["low"] <= r.tuned["step"] * r.tuned["rate"] / r.measured <= r.tuned["high"]], rated


def table(asked, verbose):
    print("| of published recipes | goal | found |\n|---|---:|---:|")
    missed = []
    for what, goal, part, whole in rows_of(asked):
        print(f"| {what} | {goal} | {share(part, whole)} |")
        missed += [(what, r) for r in whole if r not in part]
    rated = [r for r in asked if r.tuned]
    for kind, goal in (("dense", "8 %"), ("MoE", "14 %")):
        of = [error(r) for r in rated if r.moe == (kind == "MoE")]
        if of:
            print(f"| median error of throughput, {kind} ({len(of)}) | {goal} | {statistics.median(of):.1%} |")
    found, right = pairs(rated)
    print(f"| pairs of a model and accelerator, measured over 10 % apart, told in this order | | {share(right, found)} |")
    if verbose:
        keys = collections.Counter(key for r in asked for key in r.missing)
        print("\nWithout a word: " + "; ".join(f"{key} ({count})" for key, count in keys.most_common(40)))
        for what, r in missed:
            print(f"\n- {what}: {r.name} ({r.source}{', held out' if r.held_out else ''})\n  {shlex.join(r.estimate)}\n"
                  f"  {'; '.join(r.missing)} {r.told}")
            if r.plan and r.plan.get("best"):
                print(f"  plan: {r.plan['best'][0]}\n  recommended: {recommended(r)}")


def read_preferences(path):
    with open(path, encoding="utf-8") as file:
        return json.loads("".join(line for line in file if not line.lstrip().startswith("//")))["preferences"]


def chosen(candidates, weights):
    return min(candidates, key=lambda one: (one["step"] * (1 + sum(
        weights[name] / 100 * amount for name, amount in one["amounts"].items())), one["step"]))


def fit(asked, path):
    """Weights that `chosen by` this tool says were chosen here: one at a time, until none agrees better with the chosen half."""
    preferences = read_preferences(path)
    weights = {of["name"]: of["weight"] for of in preferences}
    free = [of for of in preferences if "tools/plot/corpus.py" in of["source"]]
    told = [r for r in asked if r.plan and r.plan.get("choice") and r.told["verdict"] == "fits"]

    def score(half):
        picks = [(r, chosen(r.plan["choice"]["candidates"], weights)) for r in told if r.held_out == half]
        return (sum(agrees(pick["layout"], layout_of(r)) for r, pick in picks), len(picks),
                -sum(pick["step"] / r.plan["best"][0]["step"] for r, pick in picks))

    def possible(half):
        of = [r for r in told if r.held_out == half]
        return sum(any(agrees(one["layout"], layout_of(r)) for one in r.plan["choice"]["candidates"]) for r in of)

    print("before", score(False)[:2], "held out", score(True)[:2], "possible", possible(False), possible(True))
    better = True
    while better:
        better = False
        for of in free:
            best = score(False), weights[of["name"]]
            for weight in (0, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 4, 5):
                if not of["least"] <= weight <= of["most"]:
                    continue
                weights[of["name"]] = weight
                if score(False) > best[0]:
                    best, better = (score(False), weight), True
            weights[of["name"]] = best[1]
    print("after", score(False)[:2], "held out", score(True)[:2])
    for name, weight in weights.items():
        print(f"  {name}: {weight}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("program")
    parser.add_argument("--shared", required=True)
    parser.add_argument("--sample", type=int, help="so many recipes, the same in every run")
    parser.add_argument("--jobs", type=int, default=2, help="questions at a time")
    parser.add_argument("--keep", help="file of answers: questions in it are not asked again")
    parser.add_argument("--no-plan", action="store_true", help="only what `estimate` says")
    parser.add_argument("--fit", action="store_true", help="choose weights of data/preferences.json on one half of the models")
    parser.add_argument("--verbose", action="store_true", help="name every recipe that misses a goal")
    wanted = parser.parse_args()
    folder = os.path.abspath(os.path.join(wanted.shared, "recipes"))
    all_of = list(recipes(folder))
    if wanted.sample:
        all_of = sorted(all_of, key=lambda r: hashlib.sha256(r.name.encode()).digest())[:wanted.sample]
    asked = Asked(wanted.program, folder, wanted.keep)

    def answer(recipe):
        recipe.told = asked.ask(recipe.estimate)
        if recipe.measured and "rate" in recipe.told:
            recipe.tuned = asked.ask([*recipe.estimate, "--tuned"])
        if recipe.pretrains and not wanted.no_plan and recipe.told["verdict"] in ("fits", "tight"):
            recipe.plan = asked.ask(plan_words(recipe))

    with concurrent.futures.ThreadPoolExecutor(wanted.jobs) as pool:
        for done, _ in enumerate(pool.map(answer, all_of), 1):
            if sys.stderr.isatty():
                print(f"\r{done} of {len(all_of)}", end="", file=sys.stderr)
    if wanted.fit:
        fit(all_of, os.path.join(DATA, "preferences.json"))
    else:
        table(all_of, wanted.verbose)


if __name__ == "__main__":
    main()
