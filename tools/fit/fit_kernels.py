#!/usr/bin/env python3
"""Fits data/calibrations/kernels.json to published kernel timings and scores it held out.

    tools/fit/fit_kernels.py --shared ../shared --program build/release/kernel_times [--write] [--out FILE]
    tools/fit/fit_kernels.py --shared mine --all-rows ...      # mine/kernels: tables of `trainwright.engine bench`

Needs numpy and scipy. Constants are fitted here; what is scored are the C++ functions that ship, fed with the
constants of the other folds (rows of one (n, k) are in one fold) or of the other accelerators.
"""

import argparse
import collections
import json
import pathlib
import sys
import tempfile

import numpy as np
from scipy.optimize import least_squares

import kernel_tables as tables

ROOT = pathlib.Path(__file__).resolve().parents[2]
MOST = 150  # rows of one accelerator, type and stack that a fit looks at
STREAMED = 0.7
LAUNCH, TINY = 4e-6, 25e-6  # seconds
WIDTHS = (64, 128, 256)
GENERATIONS = {"8.0": ("A100-SXM-80GB",), "8.6": ("A40",), "8.9": ("L40S",), "9.0": ("H100-SXM", "H200-SXM", "GH200"),
               "10.0": ("B200", "B300", "GB200", "GB300"), "12.0": ("RTX-PRO-6000-Server",)}
IN_SWITCH = {"9.0": 0.61, "10.0": 0.54}  # share of the line rate, 8 to 16 GiB in nccl-tests (FINDINGS)
# Of 16 bits from long benchmarks; of 8 bits learned from step times of Hopper and Blackwell (docs/kernels.md).
# MI300X under load: 45 % of its peak in 16 and in 8 bits where its best shapes reach 55 and 42 (docs/kernels.md).
# RTX 4090 draws 400 of its 450 W when it trains (AnswerDotAI/fsdp_qlora, benchmarks_03_2024.md): its clocks do not fall.
SETTLED = {"RTX-4090": 1.0, "H100-SXM": 0.9, "H200-SXM": 0.9, "GH200": 0.9, "B200": 0.75, "GB200": 0.75, "B300": 0.78, "GB300": 0.78, "MI300X": 0.82}
SETTLED_NARROW = {"RTX-4090": 1.0, "H100-SXM": 0.9, "H200-SXM": 0.9, "B200": 1.0, "GB200": 1.0, "B300": 1.0, "GB300": 1.0, "MI300X": 1.0}
# Cards with GDDR have less bandwidth for the same number of cores, so that norms, rotations and activations wait for the memory: on A40
# and L4 they reach 0.61 to 0.78 of it where A100 and H100 reach 0.33 to 0.57 (vidur, NeuSight); backward in proportion.
# FlashAttention 2 on B200, width 128: 315 to 362 TFLOP/s forward at 1k to 8k tokens, as far as is told without a mask (meta-pytorch/
# tritonbench pull request 171), 0.3 of what its own kernels reach; at width 64 it has 307 to 381 (Dao-AILab/flash-attention issue 1589).
HAND = {"streamed": {"8.0": [0.75, 0.35], "8.6": [0.8, 0.55], "8.9": [0.8, 0.55], "9.0": [0.78, 0.35], "10.0": [0.62, 0.3],
                     "12.0": [0.8, 0.55]},
        "flash": {"8.0": [1, 0.45, 1, 1], "9.0": [1, 0.3, 0.55, 1], "10.0": [1, 0.25, 0.3, 0.6]}}
# Large products alone, no table: the best of many shapes, of which kernels that were timed reach 0.95 on average (A100, H100, B200,
# RTX PRO 6000); cards that boost beyond their rated clocks reach all of it. stas00/ml-engineering compute/accelerator/README.md at
# 744d01e (MI300X, MI325X, MI355X, Gaudi; A100 PCIe), zzc0721/torch-performance-test-data database.md at 9d82827 (others, medians);
# AMD in 8 bits: ROCm/hipBLASLt issue 1721, 72 % of the peak at a fixed clock, at the clocks that bf16 settles at.
LARGE = {"MI300X": {"bf16": 0.55, "fp8": 0.42}, "MI325X": {"bf16": 0.6}, "MI355X": {"bf16": 0.62, "fp8": 0.65},
         "A100-PCIe-80GB": {"bf16": 0.74}, "A100-PCIe-40GB": {"bf16": 0.73}, "H100-PCIe": {"bf16": 0.62}, "H20": {"bf16": 0.91},
         "L4": {"bf16": 0.56}, "RTX-3090": {"bf16": 0.99}, "RTX-4090": {"bf16": 0.95}, "RTX-5090": {"bf16": 0.99},
         "RTX-A6000": {"bf16": 0.76}, "L20": {"bf16": 0.91},
         "T4": {"bf16": 0.61}, "V100-SXM2-16GB": {"bf16": 0.72}, "V100-SXM2-32GB": {"bf16": 0.72},
         "Gaudi-2": {"bf16": 0.92, "fp8": 0.91}, "Gaudi-3": {"bf16": 0.64, "fp8": 0.67}}
# Kernels of AMD's as HazyResearch/HipKittens timed them on MI355X (f09e9685 analysis/attn, fp8_gemm): Composable Kernel forward with a
# mask 603 to 889 TFLOP/s at 1k to 16k tokens (64 heads of 128, 8 of them keys) and without one 788 to 896, backward 0.58 of that; width
# 64 by AITER. PyTorch's own (flash 2), which is AOTriton, takes twice the time of both passes. hipBLASLt in 8 bits: 3,293 of 5,033.
AMD_ATTENTION = {"heads": [{"width": 64, "reached": 0.27, "half": 1170}, {"width": 128, "reached": 0.365, "half": 534}], "start": 10,
                 "full_half": 151, "backward": 0.58, "unfused": 0.25, "flash": [1, 0.5, 0.5, 1]}
# FlashAttention 2 where no table has a card of that kind. GeForce cards sum in fp32 at half the rate of the same chip's other cards, and
# products of that rate hide the exponentials: RTX 4090 at 2,048 tokens with a mask 142, 151 and 144 TFLOP/s (width 64, 128, 256), backward
# 97 and 99, without one 169, 169 and 156 of a peak of 165 (apache/tvm tl_doc/flash_perf.md); RTX 5090 187 to 191 of 209.5 without a mask
# at 8,192 keys (gau-nernst/learn-cuda 07_attention/README.md). RTX 3090 as RTX 4090. Other cards of 8.6 as RTX A5000, width 64 without a
# mask, 2k to 8k tokens: 82 TFLOP/s forward and 70 to 77 backward of 111 (gpu-mode/ring-attention issue 10); `half` with a mask as on L40S.
def by_hand(reached, halves, backward):
    widths = [(width, reached, half) for width, half in zip(WIDTHS, halves)]
    return {"heads": [dict(zip(("width", "reached", "half"), head)) for head in widths], "start": 10, "full_half": 0.0,
            "backward": backward, "unfused": 0.25, "flash": [1, 0.5, 1, 1]}


GEFORCE_HALVES = (331, 190, 300)
ATTENTION = {"RTX-3090": by_hand(1.0, GEFORCE_HALVES, 0.67), "RTX-4090": by_hand(1.0, GEFORCE_HALVES, 0.67),
             "RTX-5090": by_hand(0.91, GEFORCE_HALVES, 0.67)}
# Cards whose tensor units are slower than the rest of the chip: what H100 and L40S reach, times the number of multiprocessors (78 of 132,
# 92 of 142), but no more than 0.88 of the peak, which their products hardly pass either.
SLOW_UNITS = {"start": 10, "backward": 0.82, "unfused": 0.25}
ATTENTION["H20"] = dict(SLOW_UNITS, heads=[{"width": 64, "reached": 0.8, "half": 1110.0}, {"width": 128, "reached": 0.88, "half": 863.0},
                                           {"width": 256, "reached": 0.88, "half": 863.0}], full_half=265.0, flash=[1, 0.8, 0.95, 1])
ATTENTION["L20"] = dict(SLOW_UNITS, heads=[{"width": 64, "reached": 0.85, "half": 547.0}, {"width": 128, "reached": 0.88, "half": 413.0},
                                           {"width": 256, "reached": 0.88, "half": 500.0}], full_half=0.0, flash=[1, 0.5, 1, 1])
# What an operator takes the host that such accelerators usually have, over that of an H100's Xeon: regressions of 489 step times of
# Megatron-LM's functional tests, toys that keep the device busy for a fifth of the step (113 us on H100, 165 us on A100's EPYC, 206 us on
# GB200's Grace; 1.6 is taken there, since vendors pin processes). Microseconds between kernels that wait in a queue: traces of
# facebookresearch/HolisticTraceAnalysis tests/data, median 0.75 on V100 (4,350 kernels) and 1.2 on A100 (381), 90 % below 1.5 and 6.7.
HOST = {"8.0": 1.45, "GH200": 1.6, "GB200": 1.6, "GB300": 1.6}
GAP = 1.5
ATTENTION_OF_GENERATION = {"8.6": by_hand(0.735, (547, 413, 500), 0.91)}
# Cards of less power than the one that was timed: clocks as its root, power going with frequency and voltage, which fall together.
CAPPED = {"H100-SXM-96GB": ("H100-SXM", (500 / 700) ** 0.5)}  # watts: pytorch/torchtitan, benchmarks/llama3_h100_202412_torchtitan.md
NETWORK = [0.93, 0.85, 0.85, 0.8, 0.9, 0.9]
BACKWARD = 0.82


def generation_of(name):
    return next((key for key, names in GENERATIONS.items() if name in names), None)


def accelerator_files():
    files = {}
    for folder in (ROOT / "data/accelerators", ROOT / "tests/kernels/accelerators"):
        for path in folder.glob("*.json"):
            text = "\n".join(line for line in path.read_text().splitlines() if not line.strip().startswith("//"))
            entry = json.loads(text)
            files[entry["name"]] = entry
    return files


def number(text):
    """ "3.35TB/s" -> 3.35e12"""
    digits = text.rstrip("/sOPLFB")
    return float(digits[:-1]) * {"T": 1e12, "G": 1e9, "P": 1e15}[digits[-1]]


def robust(residuals, start, least, most):
    least, most = np.array(least, float), np.array(most, float)
    start = np.clip(start, least + 1e-9, most - 1e-9)
    return least_squares(residuals, start, bounds=(least, most), loss="soft_l1", f_scale=0.05, max_nfev=40).x


def thinned(timings):
    """At most MOST rows of every stack, always the same ones."""
    groups = collections.defaultdict(list)
    for timing in timings:
        groups[timing.stack].append(timing)
    kept = []
    for rows in groups.values():
        picks = np.random.default_rng(1).permutation(len(rows))[:MOST]
        kept += [rows[i] for i in picks]
    return kept


def fit_products(rows, hardware, stacks):
    """reached, start, heat, and a log factor per stack (and rounding per stack in fp8), unless given."""
    rows = thinned(rows)
    type_ = rows[0].shape[0]
    size = 1 if type_ == "fp8" else 2
    peak, bandwidth = number(hardware["peak"][type_]), number(hardware["memory_bandwidth"])
    m, n, k, count = (np.array([row.shape[i] for row in rows], float) for i in (1, 2, 3, 4))
    seconds = np.array([row.seconds for row in rows])
    names = sorted({row.stack for row in rows})
    which = np.array([names.index(row.stack) for row in rows])
    ideal = 2 * m * n * k * count / peak
    moving = count * ((m * k + k * n) * size + 2 * m * n) / bandwidth / STREAMED
    rounding = count * m * k * (2 + size) / bandwidth * (type_ == "fp8")

    def model(x, factors, rounds):
        computing = ideal / x[0] / factors[which]
        computing = computing * (1 + x[2] * computing / (computing + 3e-3))
        work, start = np.maximum(computing, moving), x[1] * 1e-6
        if size > 1 and start > LAUNCH:  # cost/products.cc, starting
            start = LAUNCH + (start - LAUNCH) * work / (work + start)
        return start + work + rounding * rounds[which]

    if stacks:
        kind = "fp8" if type_ == "fp8" else "products"
        factors = np.array([stacks[name][kind] for name in names])
        rounds = np.array([1 / stacks[name]["rounding"] for name in names])
        x = robust(lambda x: np.log(model(x, factors, rounds) / seconds), [0.7, 5, 0.05], [0.1, 0, 0], [1, 60, 1])
        return {"reached": x[0], "streamed": STREAMED, "start": x[1], "heat": x[2]}
    s = len(names)

    def free(x):
        level = 10 * x[3:3 + s].mean()
        return np.append(np.log(model(x, np.exp(x[3:3 + s]), x[3 + s:]) / seconds), level)

    x = robust(free, [0.7, 5, 0.05] + [0] * s + [2] * s, [0.1, 0, 0] + [-0.7] * s + [1] * s,
               [1, 60, 1] + [0.7] * s + [10] * s)
    return {name: (x[3 + i], x[3 + s + i]) for i, name in enumerate(names)}


def fit_attention(rows, hardware, stacks):
    """One start, and reached and half by head width; log factors of the stacks unless given."""
    rows = thinned([row for row in rows if row.shape[1] == 128]) + thinned(
        [row for row in rows if row.shape[1] == 64]) + thinned([row for row in rows if row.shape[1] == 256])
    widths = [width for width in WIDTHS if sum(row.shape[1] == width for row in rows) > 40]
    rows = [row for row in rows if row.shape[1] in widths]
    peak = number(hardware["peak"]["bf16"])
    flops, keys, causal = (np.array([row.shape[i] for row in rows], float) for i in (0, 2, 3))
    seconds = np.array([row.seconds for row in rows])
    width = np.array([widths.index(row.shape[1]) for row in rows])
    names = sorted({row.stack for row in rows})
    which = np.array([names.index(row.stack) for row in rows])
    w, s = len(widths), len(names)

    def model(x, factors):
        half = np.where(causal > 0, x[2 + w:][width], np.minimum(x[1], x[2 + w:][width]))
        return x[0] * 1e-6 + flops / peak / x[2:2 + w][width] / factors[which] * (1 + half / keys)

    start, least, most = [15, 300] + [0.5] * w + [600] * w, [0, 0] + [0.05] * w + [0] * w, [60, 3000] + [1] * w + [4000] * w
    if not stacks:
        x = robust(lambda x: np.append(np.log(model(x[s:], np.exp(x[:s])) / seconds), 10 * x[:s].mean()),
                   [0] * s + start, [-1] * s + least, [1] * s + most)
        return {name: x[i] for i, name in enumerate(names)}
    factors = np.array([stacks[name]["attention"] for name in names])
    x = robust(lambda x: np.log(model(x, factors) / seconds), start, least, most)
    heads = [{"width": widths[i], "reached": x[2 + i], "half": x[2 + w + i]} for i in range(w)]
    return {"heads": heads, "start": x[0], "full_half": x[1]}


def fit_links(rows, hardware, generation):
    tier = hardware["scale_up"][0]
    line, efficiency = number(tier["bandwidth"]), tier["efficiency"]
    rows = [row for row in rows if row.shape[3] == 1 and row.shape[0] != "transfer"]
    kinds = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
    kind = np.array([kinds.index(row.shape[0]) for row in rows])
    size, ranks = (np.array([row.shape[i] for row in rows], float) for i in (1, 2))
    seconds = np.array([row.seconds for row in rows])
    passes = np.where(kind == 0, 2, 1)
    sent = passes * (ranks - 1) / ranks * size
    switch = IN_SWITCH.get(generation, 0)

    def model(x):
        rate = line * x[:4][kind] * np.where(ranks == 2, x[7], 1)
        time = x[4] * 1e-6 + passes * (ranks - 1) * x[5] * 1e-6 + sent / rate + np.sqrt(sent * x[6] * 1e-6 / line)
        if not switch:
            return time
        added = (x[4] + 2 * x[5]) * 1e-6 + size / line / switch + np.sqrt(size * x[6] * 1e-6 / line)
        return np.where((kind == 0) & (ranks > 2), np.minimum(time, added), time)

    x = robust(lambda x: np.log(model(x) / seconds), [0.8, 0.8, 0.8, 0.75, 7, 0.8, 20, 0.8], [0.3] * 4 + [0, 0, 0, 0.3],
               [1] * 4 + [30, 5, 200, 1])
    return {"scale_up": [x[i] / efficiency for i in range(4)] + [1 / efficiency * x[1], 0.95], "network": NETWORK,
            "pair": x[7], "in_switch": switch / efficiency, "start": x[4], "hop": x[5], "ramp": x[6], "network_ramp": 30}


def stack_factors(groups, files):
    """One factor per software stack, the median over accelerators."""
    logs = collections.defaultdict(list)
    for (what, name, type_), rows in groups.items():
        if what == "product" and len({row.stack for row in rows}) > 1:
            for stack, (factor, rounding) in fit_products(rows, files[name], None).items():
                logs[stack, "fp8" if type_ == "fp8" else "products"].append(factor)
                if type_ == "fp8":
                    logs[stack, "rounding"].append(rounding)
        if what == "attention" and len(rows) > 400 and len({row.stack for row in rows}) > 1:
            for stack, factor in fit_attention(rows, files[name], None).items():
                logs[stack, "attention"].append(factor)
    stacks = {}
    for stack in tables.STACKS:
        middle = {kind: float(np.median(logs[stack, kind])) for kind in ("products", "fp8", "attention", "rounding")
                  if logs[stack, kind]}
        stacks[stack] = {kind: float(np.exp(middle.get(kind, 0))) for kind in ("products", "fp8", "attention")}
        stacks[stack]["rounding"] = 1 / middle.get("rounding", 1 / 0.75)
    return stacks


def grouped(timings, files):
    groups = collections.defaultdict(list)
    for timing in timings:
        type_ = timing.shape[0] if timing.what == "product" else ""
        if timing.accelerator in files:
            groups[timing.what, timing.accelerator, type_].append(timing)
    return {key: rows for key, rows in groups.items() if len(rows) > 60}


def fit(timings, files):
    """Facts by accelerator, and the factors of stacks."""
    groups = grouped(timings, files)
    stacks = stack_factors(groups, files)
    facts = collections.defaultdict(dict)
    for (what, name, type_), rows in groups.items():
        if what == "product":
            facts[name].setdefault("products", {})[type_] = fit_products(rows, files[name], stacks)
        # The rows of GH200 ran a kernel of the generation before.
        elif what == "attention" and name != "GH200" and len(rows) > 400:
            facts[name]["attention"] = fit_attention(rows, files[name], stacks)
        elif what == "collective" and generation_of(name) in ("8.0", "9.0", "10.0"):
            if sum(row.shape[3] == 1 for row in rows) > 60:
                facts[name]["links"] = fit_links(rows, files[name], generation_of(name))
    return facts, stacks


def middle(entries):
    """The median, number by number, of equal structures."""
    first = entries[0]
    if isinstance(first, dict):
        return {key: middle([entry[key] for entry in entries if key in entry]) for key in first}
    if isinstance(first, list) and first and isinstance(first[0], dict):
        widths = sorted({head["width"] for entry in entries for head in entry})
        return [dict(middle([head for entry in entries for head in entry if head["width"] == width]), width=width)
                for width in widths]
    if isinstance(first, list):
        return [middle(list(values)) for values in zip(*entries)]
    return float(np.median(entries))


def combined(facts, names):
    """What several accelerators have in common."""
    parts = {}
    for part in ("attention", "links"):
        found = [facts[name][part] for name in names if part in facts.get(name, {})]
        if found:
            parts[part] = middle(found)
    types = {type_ for name in names for type_ in facts.get(name, {}).get("products", {})}
    parts["products"] = {type_: middle([facts[name]["products"][type_] for name in names
                                        if type_ in facts.get(name, {}).get("products", {})]) for type_ in sorted(types)}
    return parts


def whole_attention(attention, generation):
    # What starting a call takes in the tables includes writing a paged cache.
    return dict(attention, start=min(attention["start"], 10), backward=BACKWARD, unfused=0.25, flash=HAND["flash"].get(generation, [1, 0.5, 1, 1]))


def settled_of(name, products):
    """Long calls of a burst bound it from above; measured on H100, whose class GH200 shares, B200 and GB200, whose class B300 and GB300 do."""
    wide = SETTLED.get(name, 1 / (1 + products.get("bf16", {}).get("heat", 0)))
    return [wide, SETTLED_NARROW.get(name, wide)]


def document(facts, stacks, spreads, rows):
    accelerators = {}
    for name, parts in sorted(facts.items()):
        entry = dict(parts)
        if "attention" in entry:
            entry["attention"] = whole_attention(entry["attention"], generation_of(name))
        if "products" in entry and "bf16" in entry["products"]:
            entry["settled"] = settled_of(name, entry["products"])
        accelerators[name] = entry
    for name, (timed, clocks) in CAPPED.items():
        if timed not in accelerators:  # left out
            continue
        attention = accelerators[timed]["attention"]
        heads = [dict(head, reached=head["reached"] * clocks) for head in attention["heads"]]
        accelerators[name] = {"attention": dict(attention, heads=heads), "settled": [of * clocks for of in accelerators[timed]["settled"]]}
    everyone = combined(facts, list(facts))
    generations = {}
    for key, names in GENERATIONS.items():
        entry = combined(facts, names)
        if not entry["products"]:
            continue
        if "attention" in entry:
            entry["attention"] = whole_attention(entry["attention"], key)
        elif key in ATTENTION_OF_GENERATION:
            entry["attention"] = ATTENTION_OF_GENERATION[key]
        known = [accelerators[name]["settled"] for name in names if "settled" in accelerators.get(name, {})]
        entry["settled"] = [float(of) for of in np.median(known, axis=0)] if known else [1.0, 1.0]
        if key in HAND["streamed"]:
            entry["streamed"] = HAND["streamed"][key]
        if key in HOST:
            entry["host"] = HOST[key]
        generations[key] = entry
    large = lambda reached: {"reached": reached, "streamed": STREAMED, "start": 5, "heat": 0}
    for name, types in LARGE.items():
        accelerators.setdefault(name, {}).setdefault("products", {}).update({key: large(of) for key, of in types.items()})
        if name in SETTLED:
            accelerators[name]["settled"] = [SETTLED[name], SETTLED_NARROW[name]]
    for name, attention in ATTENTION.items():
        accelerators[name]["attention"] = attention
    for name in HOST.keys() & accelerators.keys():
        accelerators[name]["host"] = HOST[name]
    others = dict(everyone, settled=[1.0, 1.0], streamed=[0.75, 0.35], host=1.0, gap=GAP)
    others["attention"] = whole_attention(others["attention"], None)
    others["links"] = dict(others["links"], scale_up=[1] * 6, in_switch=0, start=8, hop=1.5, ramp=25)
    plain = {"reached": 0.85, "streamed": STREAMED, "start": 5, "heat": 0}
    others["products"] = dict(others["products"], fp32=plain, fp64=plain)
    amd = {"products": {"bf16": large(0.56), "fp8": large(0.42)}, "attention": AMD_ATTENTION}
    return {"source": "fitted by tools/fit/fit_kernels.py to published timings (docs/time.md)",
            "constants": constants_in(facts) + 4 * len(stacks), "rows": rows, "stacks": stacks,
            "spreads": spreads, "accelerators": accelerators, "generations": generations, "vendors": {"AMD": amd},
            "others": others}


def constants_in(value):
    if isinstance(value, dict):
        return sum(constants_in(v) for key, v in value.items() if key not in ("network", "width", "streamed"))
    return sum(map(constants_in, value)) if isinstance(value, list) else 1


def rounded(value):
    if isinstance(value, dict):
        return {key: rounded(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [rounded(entry) for entry in value]
    return float(f"{round(value, 6):.3g}") if isinstance(value, float) else value


def pretty(value, indent="", depth=3):
    """JSON with one part of an accelerator on a line."""
    if depth == 0 or not isinstance(value, dict) or not value:
        return json.dumps(value)
    inner = indent + "  "
    lines = [f"{inner}{json.dumps(key)}: {pretty(entry, inner, depth - 1)}" for key, entry in value.items()]
    return "{\n" + ",\n".join(lines) + "\n" + indent + "}"


def errors_of(timings, seconds):
    errors = collections.defaultdict(list)
    for timing, guess in zip(timings, seconds):
        error = guess / timing.seconds - 1
        name = timing.accelerator
        if timing.what == "product":
            errors["product", timing.shape[0], name].append(error)
            errors["product", "all", name].append(error)
        elif timing.what == "collective":
            where = "one node" if timing.shape[3] == 1 else "several nodes"
            if timing.shape[1] >= 1e6:
                errors["collective", where, name].append(error)
        else:
            errors[timing.what, f"head width {timing.shape[1]}", name].append(error)
    return errors


def print_errors(title, errors):
    print(f"{title}: median / 90th percentile of |predicted / measured - 1| in %, rows, bias")
    pooled = collections.defaultdict(list)
    for (what, kind, name), values in sorted(errors.items()):
        pooled[what, kind].extend(values)
        show(f"  {what}, {kind}, {name}", values)
    for (what, kind), values in sorted(pooled.items()):
        show(f"  {what}, {kind}, pooled", values)


def show(label, values):
    size = np.abs(values)
    print(f"{label:60} {100 * np.median(size):6.1f} {100 * np.quantile(size, 0.9):6.1f} {len(values):8} "
          f"{100 * np.median(values):+6.1f}")


def scored(timings, facts, stacks, options, spreads):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(rounded(document(facts, stacks, spreads, 0)), file)
        file.flush()
        return tables.predicted(options.program, ROOT, timings, file.name)


def held_out(timings, files, options, spreads):
    rows, seconds = [], []
    for fold in range(options.folds):
        test = [timing for timing in timings if timing.fold % options.folds == fold]
        facts, stacks = fit([timing for timing in timings if timing.fold % options.folds != fold], files)
        rows += test
        seconds += scored(test, facts, stacks, options, spreads)
    return errors_of(rows, seconds)


def without_each(timings, facts, stacks, options, spreads):
    """Every accelerator by what the others of its architecture, or all others, know."""
    errors = {}
    for name in facts:
        own = [timing for timing in timings if timing.accelerator == name]
        others = {key: value for key, value in facts.items() if key != name}
        errors.update(errors_of(own, scored(own, others, stacks, options, spreads)))
    return errors


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shared", type=pathlib.Path, default=ROOT / "../shared")
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/release/kernel_times")
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "data/calibrations/kernels.json")
    parser.add_argument("--write", action="store_true", help="write the constants of all rows")
    parser.add_argument("--all-rows", action="store_true", help="of small tables, not every so-many-th row")
    options = parser.parse_args()
    source = options.shared / "kernels"
    files = accelerator_files()
    timings = [timing for read in (tables.products, tables.attention, tables.collectives)
               for timing in read(source, thin=not options.all_rows)
               if timing.accelerator in files and (timing.what != "attention" or timing.shape[1] in WIDTHS)]
    spreads = {"products": [0.15, 0.25, 0.4], "attention": [0.25, 0.3, 0.5], "streamed": [0.2, 0.3, 0.4],
               "links": [0.2, 0.25, 0.4], "settled": [0.05, 0.1, 0.2]}
    facts, stacks = fit(timings, files)
    if options.write:
        text = pretty(rounded(document(facts, stacks, spreads, len(timings))))
        options.out.write_text("// What kernels and collectives reach of what an accelerator promises "
                               "(trainwright/cost/cost.h).\n// Shares of peak, memory bandwidth and line rate; "
                               "start, hop and ramp in microseconds.\n" + text + "\n")
    print_errors("held out", held_out(timings, files, options, spreads))
    smaller = [timing for timing in tables.products(source, training=False, thin=not options.all_rows)
               if timing.accelerator in files and min(timing.shape[1:4]) < tables.TRAINING]
    for title, rows in (("tiny, measured below 25 us", [timing for timing in smaller if timing.seconds < TINY]),
                        ("other small products", [timing for timing in smaller if timing.seconds >= TINY])):
        print_errors(f"{title}, a side below 1,024, constants of all rows", errors_of(rows, scored(rows, facts, stacks, options, spreads)))
    left_out = without_each(timings, facts, stacks, options, spreads)
    print_errors("left out", left_out)
    medians = [np.median(np.abs(values)) for (what, kind, _), values in left_out.items() if (what, kind) == ("product", "all")]
    if medians:
        print(f"products of an accelerator left out, median over {len(medians)}: {100 * np.median(medians):.1f} %")
    return 0


if __name__ == "__main__":
    sys.exit(main())
