"""A trainer whose truth is known: four ranks that sleep and allocate by constants nobody is told.

    python reference_trainer.py tp=2,pp=2,mbs=1,gbs=32,seq=2048 --seed 3 --steps 12

For tests of `trainwright tune`. Every rank is a process that sleeps through its micro-batches, the
pipeline's filling, its collectives and its optimizer, and meets the others at a barrier; it holds its
weights, states and activations in memory that is really allocated under a limit (RLIMIT_DATA). Where
that fails it says so as PyTorch does. Some layouts crash and some hang, by the seed. Time and memory
are scaled: a second lasts `SCALE` seconds, a GiB is a MiB. `true_step` is what a step takes without
the noise of sleeping. Needs nothing but Python.
"""
import argparse
import ctypes
import math
import multiprocessing
import os
import random
import resource
import signal
import sys
import time
import zlib

SCALE = 0.2
RANKS = 4
LAYERS, HIDDEN, VOCABULARY, PARAMETERS = 32, 4096, 128256, 8.03e9  # Llama 3.1 8B
GIB = 2**30


def knobs_of(text):
    return {key: value or "1" for key, _, value in (part.partition("=") for part in text.split(","))}


def number(knobs, key, otherwise=1):
    return int(knobs.get(key, otherwise))


class Constants:
    """What a seed makes of a machine: rates, shares and bytes, each up to a few tenths off the usual."""

    def __init__(self, seed):
        randomly = random.Random(seed)

        def around(usual, spread=0.2):
            return usual * math.exp(randomly.gauss(0, spread))

        self.rate = around(480e12, 0.1)     # FLOP/s of products
        self.half = around(400)             # tokens at which a product is half as fast
        self.host = around(120e-6)          # seconds of a layer for the host
        self.tensor = around(250e9)         # B/s
        self.context = around(150e9)
        self.transfer = around(100e9)
        self.data = around(150e9)
        self.exposed = around(0.3, 0.4)     # share of gradients that is not hidden
        self.optimizer = around(1.5e12)
        self.chunk = around(30e-6, 0.4)     # seconds that each chunk adds to a micro-batch
        self.memory = around(1.0, 0.04)     # factor on activations
        self.crashes, self.hangs = randomly.randrange(13), randomly.randrange(17)


def share_again(knobs):
    """What of a layer's forward is run again, in layers of one stage."""
    kind, _, count = knobs.get("recompute", "none").partition(":")
    layers = LAYERS / (number(knobs, "pp") * number(knobs, "vpp"))
    if kind == "none":
        return 0.0
    if kind == "selective":
        return 0.06
    return min(1.0, int(count) / layers) if kind == "block" and count else 1.0


def true_step(text, constants):
    """Seconds of a step."""
    knobs = knobs_of(text)
    tp, pp, dp, cp, vpp, mbs = (number(knobs, key) for key in ("tp", "pp", "dp", "cp", "vpp", "mbs"))
    micro_batches = number(knobs, "gbs") // (dp * mbs)
    tokens = mbs * number(knobs, "seq") / cp
    flops = 6 * PARAMETERS / LAYERS * tokens / tp * (1 + share_again(knobs) / 3)
    layer = flops / constants.rate * (1 + constants.half * tp / tokens)
    layer = (layer**4 + (constants.host * (2 if tp > 1 else 1))**4)**0.25
    moved = tokens * HIDDEN * 2
    layer += (tp - 1) / tp * 8 * moved / constants.tensor
    layer += (cp - 1) / cp * 2 * moved / constants.context
    head = 6 * HIDDEN * VOCABULARY * tokens / tp / constants.rate
    chunks = constants.chunk * (vpp if pp > 1 else 0)
    stage = LAYERS / pp * layer + chunks
    fill = (pp - 1) / vpp * (stage + 2 * moved / constants.transfer)
    passes = micro_batches * (stage + head) + fill
    own = PARAMETERS / (tp * pp)
    reduced = (dp * cp - 1) / (dp * cp) * own * 6 / constants.data * constants.exposed
    zero = number(knobs, "zero", 0)
    gathered = 2 * micro_batches * reduced / 3 if zero == 3 else 0  # weights, for every pass
    stepped = own * 28 / (dp * cp if zero else 1) / constants.optimizer
    return passes + reduced + gathered + stepped


def true_bytes(text, constants):
    """Bytes of the fullest rank."""
    knobs = knobs_of(text)
    tp, pp, dp, cp, mbs = (number(knobs, key) for key in ("tp", "pp", "dp", "cp", "mbs"))
    own = PARAMETERS / (tp * pp)
    zero, sharers = number(knobs, "zero", 0), dp * cp
    sharded = {0: 0, 1: 12, 2: 16, 3: 18}[zero]
    states = own * (18 - sharded + sharded / sharers)
    tokens = mbs * number(knobs, "seq") / cp
    again = share_again(knobs)
    per_layer = tokens * HIDDEN * 34 / tp
    kept = LAYERS / pp * (per_layer * (1 - again) + 2 * tokens * HIDDEN * again)
    in_flight = min(pp, number(knobs, "gbs") // (dp * mbs))
    logits = tokens * VOCABULARY * 8 / tp
    return states + constants.memory * (kept * in_flight + logits) + 3 * GIB


def fate(text, constants):
    """What is wrong with a layout that no model of time or memory knows."""
    mark = zlib.crc32(text.encode())
    if mark % 13 == constants.crashes:
        return "crash"
    return "hang" if mark % 17 == constants.hangs else ""


def allocate(rank, needed, capacity):
    """Really: with no more room than the capacity above what Python itself has."""
    with open("/proc/self/status") as status:
        used = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmData"))
    room = used + int(capacity / 1024)
    resource.setrlimit(resource.RLIMIT_DATA, (room, room))
    block, held = int(needed / 1024 / 16), []
    try:
        for _ in range(16):
            held.append(bytearray(block))
    except MemoryError:
        print(f"[rank{rank}]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {block / 2**20:.2f} GiB. "
              f"GPU {rank} has a total capacity of {capacity / GIB:.2f} GiB", flush=True)
        os._exit(1)
    return held


PR_SET_PDEATHSIG = 1  # linux/prctl.h


def run_rank(rank, arguments, barrier):
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # no rank outlives the launcher
    constants = Constants(arguments.seed)
    held = allocate(rank, true_bytes(arguments.layout, constants), arguments.capacity * GIB)
    step = true_step(arguments.layout, constants)
    wrong = fate(arguments.layout, constants)
    for number_of_step in range(1, arguments.steps + 1):
        start = time.monotonic()
        if wrong == "crash" and number_of_step == 2 and rank == 2:
            print(f"[rank{rank}]: NCCL WARN unhandled system error", flush=True)
            os._exit(3)
        if wrong == "hang" and number_of_step == 2 and rank == 1:
            time.sleep(3600)
        time.sleep(step * SCALE)
        barrier.wait()
        if rank == 0:
            print(f"step {number_of_step} step time: {(time.monotonic() - start) / SCALE:.4f} s", flush=True)
    return held


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("layout")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--capacity", type=float, default=79.1, help="GiB of an accelerator")
    arguments = parser.parse_args()
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(RANKS)
    ranks = [context.Process(target=run_rank, args=(rank, arguments, barrier)) for rank in range(RANKS)]
    for process in ranks:
        process.start()
    while any(process.is_alive() for process in ranks):
        failed = next((process for process in ranks if process.exitcode), None)
        if failed is not None:
            for process in ranks:
                if process.is_alive():
                    process.kill()
            sys.exit(failed.exitcode)
        time.sleep(0.005)
    sys.exit(max(process.exitcode or 0 for process in ranks))


if __name__ == "__main__":
    main()
