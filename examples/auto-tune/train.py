#!/usr/bin/env python3
"""A real small training: a Llama of transformers on two CPU processes, each with a limit on its memory that really runs out.

    train.py tp=1,dp=2,zero=3,sharding=fsdp,mbs=2,gbs=8,seq=64,recompute=full --model llama.json --limit-mib 160 --steps 8

The layout is taken as `trainwright` writes it: DDP, FSDP2 that shards all (zero=3) or all but gathered weights (zero=2), tensor
parallelism of the layers, full recompute, micro-batches. The limit counts what a process allocates once PyTorch is loaded and
its group is made, as an accelerator's memory counts without the host's.
"""
import argparse
import ctypes
import json
import os
import resource
import signal
import sys
import time

os.environ["OMP_NUM_THREADS"] = "1"
# Every tensor is a mapping of its own, which is gone when it is freed: the limit then counts tensors, not a heap with holes.
M_MMAP_THRESHOLD, M_ARENA_MAX = -3, -8  # malloc.h
ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 65536)
ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.distributed.device_mesh import DeviceMesh  # noqa: E402
from torch.distributed.fsdp import fully_shard  # noqa: E402
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module  # noqa: E402
from transformers import AutoConfig, AutoModelForCausalLM  # noqa: E402

RANKS = 2
SPLIT = {"self_attn.q_proj": ColwiseParallel, "self_attn.k_proj": ColwiseParallel, "self_attn.v_proj": ColwiseParallel,
         "self_attn.o_proj": RowwiseParallel, "mlp.gate_proj": ColwiseParallel, "mlp.up_proj": ColwiseParallel, "mlp.down_proj": RowwiseParallel}
PR_SET_PDEATHSIG = 1  # linux/prctl.h


def data_bytes(key):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(key))


def limited(mib):
    """Above what the process has by now: what it allocated, its threads' stacks. Says where its memory began."""
    room = data_bytes("VmData") + int(mib * 2**20)
    resource.setrlimit(resource.RLIMIT_DATA, (room, room))
    return data_bytes("VmSize")


def wrapped(layout, config):
    """(the model, what is called)"""
    model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa").train()
    if layout.get("recompute", "none") != "none":
        model.gradient_checkpointing_enable({"use_reentrant": False})
    mesh = DeviceMesh("cpu", torch.arange(RANKS))
    if int(layout.get("tp", 1)) > 1:
        for layer in model.model.layers:
            parallelize_module(layer, mesh, {name: how() for name, how in SPLIT.items()})
        return model, model
    zero = int(layout.get("zero", 0))
    if zero == 0:
        return model, torch.nn.parallel.DistributedDataParallel(model)
    for unit in [*model.model.layers, model]:
        fully_shard(unit, mesh=mesh, **({} if unit is model else {"reshard_after_forward": zero == 3}))
    return model, model


def train(rank, layout, options):
    config = AutoConfig.for_model(**json.load(open(options.model)))
    torch.manual_seed(1)
    began = limited(options.limit_mib)
    model, called = wrapped(layout, config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
    copies, mbs = RANKS // int(layout.get("tp", 1)), int(layout["mbs"])
    micro_batches = int(layout["gbs"]) // (mbs * copies)
    for step in range(1, options.steps + 1):
        start = time.monotonic()
        for _ in range(micro_batches):
            ids = torch.randint(0, config.vocab_size, (mbs, int(layout["seq"])))
            loss = called(input_ids=ids, labels=ids, use_cache=False).loss
            (loss / micro_batches).backward()
            del loss
        optimizer.step()
        optimizer.zero_grad()
        dist.barrier()
        if rank == 0:
            peak = (data_bytes("VmPeak") - began) / 2**20
            print(f"step {step} step time: {time.monotonic() - start:.4f} s, peak {peak:.1f} MiB", flush=True)


def run_rank(rank, layout, options, port):
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # no rank outlives the launcher
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=RANKS)
    warm = torch.ones(8, requires_grad=True)
    (warm * 2).sum().backward()  # starts the threads that backward passes use
    dist.all_reduce(torch.ones(8))
    try:
        train(rank, layout, options)
    except RuntimeError as error:
        if "can't allocate memory" not in str(error):
            raise
        asked = int(str(error).partition("tried to allocate ")[2].split()[0])
        # As PyTorch says it of an accelerator, which this limit stands for.
        print(f"[rank{rank}]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {asked / 2**20:.2f} MiB. GPU {rank} has a total "
              f"capacity of {options.limit_mib:.2f} MiB", flush=True)
        os._exit(1)
    os._exit(0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("layout")
    parser.add_argument("--model", required=True)
    parser.add_argument("--limit-mib", type=float, required=True)
    parser.add_argument("--steps", type=int, default=8)
    options = parser.parse_args()
    layout = {key: value or "1" for key, _, value in (part.partition("=") for part in options.layout.split(","))}
    with __import__("socket").socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = torch.multiprocessing.get_context("fork")  # PyTorch is loaded once
    ranks = [context.Process(target=run_rank, args=(rank, layout, options, port)) for rank in range(RANKS)]
    for process in ranks:
        process.start()
    while any(process.is_alive() for process in ranks):
        failed = next((process for process in ranks if process.exitcode), None)
        if failed is not None:
            for process in ranks:
                process.kill()
            sys.exit(1)
        time.sleep(0.02)
    sys.exit(max(process.exitcode for process in ranks))


if __name__ == "__main__":
    main()
