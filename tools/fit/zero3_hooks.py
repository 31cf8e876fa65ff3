#!/usr/bin/env python3
"""What the host takes for each module under DeepSpeed's ZeRO-3, beside what the module computes: `host_per_module` of its trainer file.

    tools/fit/zero3_hooks.py --python build/deepspeed/bin/python

Blocks of tiny modules are trained on one CPU process with stages 1 and 3, where next to nothing is computed. The difference, by
module and pass, is time of Python's hooks: they run before any kernel of the module is launched. Weights that ZeRO-3 keeps whole
(stage3_param_persistence_threshold) take as long.
"""
import argparse
import os
import subprocess
import sys
import time

BLOCKS, PRODUCTS, WIDTH = 24, 7, 64
MODULES = BLOCKS * (PRODUCTS + 1)  # with a norm each
WARM_UP, STEPS = 8, 30


def blocks():
    import torch

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = torch.nn.LayerNorm(WIDTH)
            self.products = torch.nn.ModuleList(torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(PRODUCTS))

        def forward(self, x):
            y = self.norm(x)
            for product in self.products:
                y = product(y)
            return x + y

    return torch.nn.Sequential(*(Block() for _ in range(BLOCKS)))


def train(stage: int, kept: int) -> tuple[float, float]:
    """Seconds of the shortest forward and backward pass of micro-batches within one step."""
    import deepspeed
    import torch
    torch.set_num_threads(1)
    model = blocks()
    settings = {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1000, "bf16": {"enabled": True},
                "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "torch_adam": True}}, "steps_per_print": 10**9,
                "zero_optimization": {"stage": stage, "stage3_param_persistence_threshold": kept}}
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=settings)
    batch, passes = torch.randn(4, WIDTH, dtype=torch.bfloat16), []
    for _ in range(WARM_UP + STEPS):
        start = time.perf_counter()
        loss = engine(batch).float().square().mean()
        between = time.perf_counter()
        engine.backward(loss)
        passes.append((between - start, time.perf_counter() - between))
        engine.step()
    return tuple(min(column) for column in zip(*passes[WARM_UP:]))


def measured(python: str, stage: int, kept: int = 0) -> tuple[float, float]:
    alone = {"DS_ACCELERATOR": "cpu", "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29613"}
    run = subprocess.run([python, __file__, "--stage", str(stage), "--kept", str(kept)], env={**os.environ, **alone},
                         capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(run.stderr[-2000:])
    forward, backward = run.stdout.split("passes:")[1].split()[:2]
    return float(forward), float(backward)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default="build/deepspeed/bin/python", help="with PyTorch and DeepSpeed")
    parser.add_argument("--stage", type=int, help=argparse.SUPPRESS)  # what the processes are told
    parser.add_argument("--kept", type=int, default=0, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.stage is not None:
        print("passes:", *train(asked.stage, asked.kept))
        return
    plain = measured(asked.python, 1)
    for title, kept in (("sharded", 0), ("kept whole", 10**6)):
        forward, backward = (1e3 * (a - b) / MODULES for a, b in zip(measured(asked.python, 3, kept), plain))
        print(f"ZeRO-3, weights {title}: {forward:.2f} ms forward and {backward:.2f} ms backward for each of {MODULES} modules")


if __name__ == "__main__":
    main()
