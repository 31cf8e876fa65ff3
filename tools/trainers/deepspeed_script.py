"""A training script for exported DeepSpeed plans: a tiny Llama on CPU processes, the same weights and batches for every layout.

    bash launch.sh --steps 10     with SCRIPT naming this file; a pipeline's shape comes from pipeline.py beside ds_config.json
"""
import argparse
import json
import os
import pathlib
import sys

import deepspeed
import torch
from deepspeed.utils.logging import set_log_level_from_string
from tiny_llama import CONFIG
from torch import nn

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[2] / "python"), os.getcwd()]

from trainwright.engine.llama_stages import LlamaStage, llama_config, token_loss  # noqa: E402

SEQUENCE = 64


def layers() -> list[nn.Module]:
    torch.manual_seed(0)
    count = CONFIG["num_hidden_layers"]
    config = llama_config(CONFIG["hidden_size"], CONFIG["num_attention_heads"], CONFIG["vocab_size"], count)
    return [LlamaStage(config, 1, at == 0, at == count - 1, None) for at in range(count)]


def batches(size: int, micro: int, rank: int, ranks: int):
    """Micro-batches of this data-parallel rank; all ranks together see the same step whatever their number."""
    chance, per_rank = torch.Generator().manual_seed(1), size // ranks
    while True:
        tokens = torch.randint(0, CONFIG["vocab_size"] // 8, (size, SEQUENCE + 1), generator=chance)
        for first in range(rank * per_rank, (rank + 1) * per_rank, micro):
            part = tokens[first:first + micro]
            yield part[:, :-1], part[:, 1:]


def train_pipeline(engine, source, steps: int):
    for _ in range(steps):
        yield engine.train_batch(source).item()


def train(engine, source, steps: int):
    for _ in range(steps):
        total = torch.zeros(())
        for _ in range(engine.gradient_accumulation_steps()):
            inputs, targets = next(source)
            loss = token_loss(engine(inputs), targets)
            engine.backward(loss)
            engine.step()
            total += loss.detach() / engine.gradient_accumulation_steps()
        deepspeed.comm.all_reduce(total)
        yield total.item() / deepspeed.comm.get_world_size()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", type=int)
    parser.add_argument("--steps", type=int, default=10)
    deepspeed.add_config_arguments(parser)
    arguments = parser.parse_args()
    settings = json.loads(pathlib.Path(arguments.deepspeed_config).read_text())
    # What a plan leaves to the script: the optimizer's numbers, clipping (here so high that it only measures), printing.
    settings["optimizer"]["params"] = {"lr": 1e-3, "torch_adam": True}
    settings |= {"gradient_clipping": 1e6, "steps_per_print": 1}
    settings["zero_optimization"]["reduce_bucket_size"] = 1_000_000
    set_log_level_from_string("info")  # 0.19.8 else tells no throughput
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # a compiled transport that needs a compiler
    deepspeed.init_distributed(dist_backend="gloo")
    if os.path.exists("pipeline.py"):
        from pipeline import PIPELINE
        model = deepspeed.pipe.PipelineModule(layers=layers(), loss_fn=token_loss, **PIPELINE)
    else:
        model = nn.Sequential(*layers())
    engine, *_ = deepspeed.initialize(model=model, config=settings, model_parameters=model.parameters())
    group = engine.mpu.get_data_parallel_group() if engine.mpu else None
    rank, ranks = deepspeed.comm.get_rank(group), deepspeed.comm.get_world_size(group)
    source = batches(settings["train_batch_size"], settings["train_micro_batch_size_per_gpu"], rank, ranks)
    trained = (train_pipeline if os.path.exists("pipeline.py") else train)(engine, source, arguments.steps)
    for step, loss in enumerate(trained, 1):
        norm = engine.get_global_grad_norm()
        if deepspeed.comm.get_rank() == 0:
            print(f"trained step: {step} loss: {loss:.5f} grad_norm: {float(norm) if norm is not None else -1:.4f}", flush=True)


if __name__ == "__main__":
    main()
