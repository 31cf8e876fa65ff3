"""Published kernel timings as calls of trainwright/cost: what tests/kernels and tools/fit/fit_kernels.py read."""

import csv
import gzip
import subprocess
from dataclasses import dataclass

TRAINING = 1024  # products with every side at least this are those of training
KINDS = {"all_reduce": "all-reduce", "all_gather": "all-gather", "reduce_scatter": "reduce-scatter",
         "alltoall": "all-to-all", "sendrecv": "transfer"}
TYPES = {"bf16": "bf16", "fp16": "bf16", "fp8": "fp8"}
OWN = "trainwright-bench"  # python -m trainwright.engine bench
STACKS = ("vllm", "trtllm", "sglang", "vidur", "estimate-train-time", "SimuMax", OWN)


@dataclass
class Timing:
    what: str  # product, attention, backward attention, collective
    accelerator: str
    stack: str  # software, or "-"
    fold: int  # rows of one (n, k), (head width, sequence) or size are in one fold
    seconds: float
    call: str  # a line for kernel_times
    shape: tuple  # product: type, m, n, k, count, rounds; attention: flops, width, keys, causal, backward
    #               collective: kind, bytes, ranks, nodes


def stack_of(source):
    name = source.removeprefix("aiconfigurator:")
    return next((stack for stack in STACKS if name.startswith(stack)), "-")


def fold_of(*numbers, folds=60):
    mixed = 0
    for number in numbers:
        mixed = (mixed * 0x9E3779B97F4A7C15 + int(number) * 0xC2B2AE3D27D4EB4F) % 2**64
    return (mixed >> 40) % folds


def rows_of(path, every=1):
    """Every so many rows: half a million of products say no more than fifty thousand."""
    with gzip.open(path, "rt", newline="") as table:
        yield from csv.DictReader(line for number, line in enumerate(table) if number % every == 0)


def products(tables, training=True, thin=True):
    for row in rows_of(tables / "gemm.csv.gz", every=13 if thin else 1):
        stack = stack_of(row["source"])
        if row["dtype"] not in TYPES or stack == "-":
            continue
        m, n, k = (int(float(row[side])) for side in "mnk")
        if training and min(m, n, k) < TRAINING:
            continue
        both = 2 if "bwd" in row["notes"] else 1  # two products in one figure
        count = int(float(row["batch"] or 1)) * both
        type_ = TYPES[row["dtype"]]
        rounds = int(type_ == "fp8" and stack != OWN)  # these stacks round activations inside the timed call
        shape = (type_, m, n, k, count, rounds)
        name = row["accelerator"]
        yield Timing("product", name, stack, fold_of(n, k), float(row["seconds"]),
                     f"product {name} {stack} {type_} {m} {n} {k} {count} {rounds}", shape)


def attention(tables, thin=True):
    for row in rows_of(tables / "attention.csv.gz", every=23 if thin else 1):
        stack = stack_of(row["source"])
        if row["dtype"] not in ("bf16", "fp16") or stack == "-" or row["direction"] == "both":
            continue
        keys, width = int(float(row["seq"])), int(float(row["head_dim"]))
        if keys < TRAINING:
            continue
        causal, backward = int(float(row["causal"])), int(row["direction"] == "bwd")
        flops = 4.0 * float(row["batch"]) * float(row["heads"]) * keys**2 * width
        flops *= (0.5 if causal else 1) * (2.5 if backward else 1)
        name = row["accelerator"]
        shape = (flops, width, keys, causal, backward)
        yield Timing("backward attention" if backward else "attention", name, stack,
                     fold_of(keys, float(row["heads"])), float(row["seconds"]),
                     f"attention {name} {stack} {flops:.9g} {width} {keys} {causal} {backward}", shape)


def collectives(tables, thin=True):
    for row in rows_of(tables / "collectives.csv.gz", every=3 if thin else 1):
        if row["kind"] not in KINDS or "Perlmutter" in row["source"] or not row["seconds"] or not row["bytes"]:
            continue
        ranks, nodes = int(float(row["gpus"])), int(float(row["nodes"] or 1))
        size = int(float(row["bytes"]))
        if size < 65536 or (nodes == 1 and not row["source"].startswith(("aiconfigurator:nccl", OWN))):
            continue
        name, kind = row["accelerator"], KINDS[row["kind"]]
        yield Timing("collective", name, "-", fold_of(size), float(row["seconds"]),
                     f"collective {name} {kind} {size} {ranks} {nodes}", (kind, size, ranks, nodes))


def predicted(program, root, timings, kernels):
    """Seconds of every timing by the functions that ship."""
    more = sorted((root / "tests/kernels/accelerators").glob("*.json"))
    command = [str(word) for word in (program, root / "data", kernels, *more)]
    calls = "\n".join(timing.call for timing in timings) + "\n"
    done = subprocess.run(command, input=calls, capture_output=True, text=True, check=True)
    return [float(line) for line in done.stdout.split()]
