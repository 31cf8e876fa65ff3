"""What Megatron's own parser and configuration classes refuse, our rules refuse.

One-sided: what only we refuse (at run time it fails later, or the hardware or a library cannot) is counted by rule. Half of
the layouts are random, half are one change away from one that we call legal. `TRAINWRIGHT_LAYOUTS` sets how many.
"""
import collections
import concurrent.futures
import json
import os
import pathlib
import random
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAYOUTS = int(os.environ.get("TRAINWRIGHT_LAYOUTS", "500"))
BASE = ("--train-iters 10 --lr 1e-4 --mock-data --tokenizer-type NullTokenizer --transformer-impl transformer_engine "
        "--attention-backend flash --no-rope-fusion")  # rotation is fused by Transformer Engine, which is not here
MODELS = {  # name: layers, whether some of them have experts
    "llama-3.1-8b": (32, False), "llama-3.2-1b": (16, False), "qwen2.5-7b": (28, False), "mixtral-8x7b": (32, True),
    "qwen3-30b-a3b": (48, True), "deepseek-v2-lite": (27, True), "deepseek-v3": (61, True)}
CAPABILITY = {"H100": (9, 0), "B200": (10, 0), "A100": (8, 0)}


def drawn_value(key, pick, layers, pp=1):
    """One random value of a layout's key, plausible or not."""
    return {
        "tp": lambda: pick.choice([1, 1, 2, 2, 4, 4, 8, 16, 3, 6]), "pp": lambda: pick.choice([1, 1, 2, 2, 4, 4, 8, 3, 7]),
        "cp": lambda: pick.choice([1, 1, 1, 2, 4, 3]), "vpp": lambda: pick.choice([1, 1, 1, 2, 2, 4, 3, 7]),
        "ep": lambda: pick.choice([1, 2, 4, 8, 8, 16, 3]), "etp": lambda: pick.choice([1, 1, 2, 4]),
        "sp": lambda: pick.choice([True, True, None]), "zero": lambda: pick.choice([0, 1, 1]),
        "seq": lambda: pick.choice([4096, 4096, 8192, 4100, 4098]), "mbs": lambda: pick.choice([1, 1, 2, 3]),
        "gbs": lambda: pick.choice([64, 128, 256, 512, 384, 100]),
        "recompute": lambda: pick.choice([
            "none", "selective", "full", "full:2", "block:2", "modules:norm", "modules:mlp", "modules:moe", "modules:moe-activation",
            "modules:core-attention+shared-experts", "modules:mla-up-projection+norm", "modules:norm+moe-activation"]),
        "precision": lambda: pick.choice(["bf16", "bf16", "fp16", "fp32", "fp8-delayed", "fp8-tensorwise", "fp8-blockwise", "mxfp8", "nvfp4"]),
        "sharding": lambda: pick.choice([None, None, "fsdp", "megatron-fsdp"]),
        "optimizer": lambda: pick.choice(["adamw", "adamw", "sgd", "muon", "adamw-precision-aware"]),
        "offload": lambda: pick.choice([None, None, ["optimizer"]]),
        "dispatcher": lambda: pick.choice(["all-to-all", "all-to-all", "all-gather", "flex"]),
        "cp_kind": lambda: pick.choice(["ring", "all-gather", "ulysses"]),
        "max_connections": lambda: pick.choice([None, 1, 8]),
        "on": lambda: pick.choice([None, ["overlap-gradient-reduce"], ["overlap-gradient-reduce", "overlap-parameter-gather"],
                                   ["overlap-tp"], ["overlap-ep"], ["overlap-shared-experts"], ["overlap-ep", "delay-weight-gradient"],
                                   ["grouped-gemm"], ["overlap-ep", "grouped-gemm"], ["fp8-parameter-gather"], ["distribute-saved"],
                                   ["overlap-parameter-gather"], ["delay-weight-gradient"],
                                   ["overlap-gradient-reduce", "overlap-parameter-gather", "overlap-gather-with-step"]]),
        "off": lambda: pick.choice([None, ["overlap-p2p"]]),
        "first_layers": lambda: pick.choice([None, layers // max(pp, 1), layers // max(pp, 1) - 1, 3]),
        "last_layers": lambda: pick.choice([None, layers // max(pp, 1), layers // max(pp, 1) - 1, 2]),
        "count_embedding": lambda: pick.choice([None, True]), "count_loss": lambda: pick.choice([None, True]),
        "micro_batch_group": lambda: pick.choice([None, pp, pp + 1, 2 * pp]),
        "layers": lambda: stage_list(pick, layers, pp),
    }[key]()


def stage_list(pick, layers, pp):
    """Layers of as many stages, one too many or too few now and then."""
    counts = [layers // pp] * pp
    counts[-1] += layers - sum(counts) + pick.choice([0, 0, 0, 1, -1])
    return counts


COMMON = ("tp", "pp", "zero", "seq", "mbs", "gbs")
RARE = {"cp": 0.3, "vpp": 0.3, "sp": 0.6, "recompute": 0.4, "precision": 0.25, "sharding": 0.15, "optimizer": 0.2, "offload": 0.1,
        "dispatcher": 0.2, "cp_kind": 0.2, "max_connections": 0.15, "on": 0.4, "off": 0.1, "first_layers": 0.1,
        "last_layers": 0.1, "count_embedding": 0.08, "count_loss": 0.08, "micro_batch_group": 0.1, "layers": 0.08}


def settled(layout):
    """What goes together whatever is drawn: a sharding has a stage, a list of layers replaces vpp."""
    layout = {key: value for key, value in layout.items() if value is not None}
    sharding = layout.get("sharding")
    if sharding in ("fsdp", "megatron-fsdp"):
        layout["zero"] = 3
    elif layout.get("zero", 0) == 0:
        layout["sharding"] = "ddp"
    else:
        layout["sharding"] = "zero"
    if "layers" in layout:
        layout.pop("vpp", None)
    return layout


def random_case(pick):
    model = pick.choice(sorted(MODELS))
    layers = MODELS[model][0]
    keys = list(COMMON) + [key for key, chance in RARE.items() if pick.random() < chance]
    if MODELS[model][1]:
        keys += ["ep"] + ["etp"] * (pick.random() < 0.4)
    layout = {}
    for key in keys:
        layout[key] = drawn_value(key, pick, layers, layout.get("pp", 1))
    return {"model": model, "gpu": pick.choice(["H100"] * 4 + ["B200", "A100"]), "nodes": pick.choice([1, 2, 4, 6, 8]),
            "layout": settled(layout)}


def changed_case(pick, case):
    """One key drawn anew."""
    keys = list(COMMON) + list(RARE) + ["ep", "etp"] * MODELS[case["model"]][1]
    key = pick.choice(keys)
    layout = dict(case["layout"]) | {key: drawn_value(key, pick, MODELS[case["model"]][0], case["layout"].get("pp", 1))}
    if layout.get("sharding") in ("ddp", "zero"):
        del layout["sharding"]
    return case | {"layout": settled(layout)}


def layout_text(layout):
    """As the program reads it; the optimizer is the job's."""
    parts = []
    for key, value in layout.items():
        if key == "optimizer":
            continue
        if isinstance(value, list):
            value = ("/" if key == "layers" else "+").join(map(str, value))
        parts.append(key if value is True else f"{key}={value}")
    return ",".join(parts)


def exported(trainer, case):
    """Our verdict with the settings, or null if the layout cannot even be read."""
    words = ["export", layout_text(case["layout"]), "--model", case["model"], "--on", f"{case['nodes'] * 8}x{case['gpu']}",
             "--trainer", trainer, "--job", f"optimizer={case['layout'].get('optimizer', 'adamw')}", "--only-settings", "--json"]
    run = subprocess.run([os.environ["TRAINWRIGHT_BINARY"], *words], capture_output=True, text=True)
    return json.loads(run.stdout) if run.returncode < 2 else None


def all_exported(trainer, cases):
    """With those that the trainer has no words for left out: it cannot be asked about them."""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda case: exported(trainer, case), cases))
    return [(case, answer) for case, answer in zip(cases, answers) if answer and not answer["cannot_be_said"]]


def refusing(answer):
    """The rules that refuse; empty if legal."""
    return [one["id"] for one in answer["violations"] if one["forbidden"]]


def question_of(case, answer, trainer):
    flags, environment = BASE.split(), {}
    for setting in answer["settings"]:
        if setting["key"].startswith("--"):
            flags += [setting["key"], *setting["values"]]
        else:
            environment[setting["key"]] = setting["values"][0]
    return {"world": case["nodes"] * 8, "flags": flags, "capability": CAPABILITY[case["gpu"]], "environment": environment,
            "transformer_engine": trainer["libraries"].get("transformer_engine", "2.13.0")}


@pytest.mark.parametrize("version", ["0.16.1", "0.17.1", "0.19.2"])
def test_what_megatron_refuses_is_refused(version):
    folder = ROOT / ("build/megatron" if version == "0.16.1" else f"build/megatron-{version}")
    folder = pathlib.Path(os.environ.get(f"TRAINWRIGHT_MEGATRON_{version}", folder))
    if not folder.exists():
        pytest.skip(f"no {folder}: tools/make_venv.sh brings it")
    name = f"megatron-core@{version}"
    trainer = json.loads(subprocess.run([os.environ["TRAINWRIGHT_BINARY"], "show", "trainer", name, "--json"],
                                        capture_output=True, text=True, check=True).stdout)
    pick = random.Random(f"megatron {version}")
    asked = all_exported(name, [random_case(pick) for _ in range(LAYOUTS)])[:LAYOUTS // 2]
    legal = [case for case, answer in asked if answer["legal"]]
    asked += all_exported(name, [changed_case(pick, pick.choice(legal)) for _ in range(LAYOUTS - len(asked))])
    cases, ours = [case for case, _ in asked], [refusing(answer) for _, answer in asked]

    judged = subprocess.run([sys.executable, pathlib.Path(__file__).with_name("megatron_judge.py"), folder],
                            input=json.dumps([question_of(*one, trainer) for one in asked]), capture_output=True, text=True)
    assert judged.returncode == 0, judged.stderr[-2000:]
    theirs = json.loads(judged.stdout)
    missed = [f"{case['model']} on {case['nodes'] * 8}x{case['gpu']} {layout_text(case['layout'])} "
              f"optimizer={case['layout'].get('optimizer', 'adamw')}: {reason}"
              for case, refused, reason in zip(cases, ours, theirs) if reason and not refused]
    only_ours = collections.Counter(rule for refused, reason in zip(ours, theirs) if refused and not reason for rule in refused)
    refusals = sum(1 for reason in theirs if reason)
    print(f"\n{version}: {len(cases)} layouts, {refusals} refused by Megatron, {sum(1 for one in ours if one)} by us, "
          f"{len(missed)} missed; only ours: {dict(only_ours.most_common())}")
    assert refusals > len(cases) // 10, "Megatron refuses hardly anything: it is not asked"
    assert len(theirs) - refusals > len(cases) // 10, f"Megatron refuses nearly everything: {theirs[:5]}"
    assert not missed, "\n".join(missed[:20])
