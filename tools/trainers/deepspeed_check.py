#!/usr/bin/env python3
"""Bytes of weights, main weights, gradients and states on each rank of DeepSpeed ZeRO 0 to 3, counted from its own
storages on CPU processes, against `trainwright estimate --trainer deepspeed@0.19`.

    tools/trainers/deepspeed_check.py --program build/release/trainwright --python build/deepspeed/bin/python

The interpreter has PyTorch, transformers and DeepSpeed (tools/make/make_venv.sh). Prints a table; exit code 1 where bytes
differ and nobody knows why."""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

CONFIG = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 512, "hidden_size": 64,
          "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 8,
          "max_position_embeddings": 64, "tie_word_embeddings": False}
RANKS, BATCH, SEQUENCE, MICRO_BATCHES = 2, 2, 16, 2
BUCKET = 1_000_000  # parameters; DeepSpeed's own 5e8 would be 2 GB on each process
PARTS = ("weights", "main_weights", "gradients", "optimizer_states")


def storage_bytes(tensors) -> int:
    """Of distinct storages that have memory."""
    return sum({one.untyped_storage()._cdata: one.untyped_storage().nbytes()
                for one in tensors if one is not None and one.device.type != "meta"}.values())


def held(engine, stage: int) -> dict[str, int]:
    """The engine's own storages between two micro-batches of a step."""
    optimizer = engine.optimizer
    parameters = list(engine.module.parameters())
    if stage == 3:
        weights, main = [optimizer.lp_param_buffer], optimizer.fp32_partitioned_groups_flat
        gradients = [optimizer.grad_partitions_flat_buffer]
    elif stage > 0:
        weights, main = parameters, optimizer.single_partition_of_fp32_groups
        sums = [one for group in optimizer.all_grad_tensors.values() if group for one in group]
        gradients = sums + [one.grad for one in parameters]
    else:
        weights, gradients = parameters, [one.grad for one in parameters]
        main = [one for group in getattr(optimizer, "fp32_groups", []) for one in group]
    states = getattr(optimizer, "optimizer", optimizer).state.values()
    return {"weights": storage_bytes(weights), "main_weights": storage_bytes(main), "gradients": storage_bytes(gradients),
            "optimizer_states": storage_bytes(value for state in states for value in state.values()
                                              if hasattr(value, "dim") and value.dim() > 0)}


def settings(stage: int, precision: str) -> dict:
    return {"train_micro_batch_size_per_gpu": BATCH, "gradient_accumulation_steps": MICRO_BATCHES,
            "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}},
            "bf16": {"enabled": precision == "bf16"},
            "zero_optimization": {"stage": stage, "reduce_bucket_size": BUCKET, "stage3_param_persistence_threshold": 0}}


def train(stage: int, precision: str) -> dict[str, int]:
    """One whole step, then a micro-batch of the next."""
    import deepspeed
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    sizes = {key: value for key, value in CONFIG.items() if key not in ("model_type", "architectures")}
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model("llama", use_cache=False, **sizes))
    if precision == "bf16":
        model = model.bfloat16()
    engine, *_ = deepspeed.initialize(model=model, config=settings(stage, precision), model_parameters=model.parameters())
    ids = torch.randint(0, CONFIG["vocab_size"], (BATCH, SEQUENCE))
    for done in range(MICRO_BATCHES + 1):
        engine.backward(engine(input_ids=ids, labels=ids).loss)
        if done < MICRO_BATCHES:
            engine.step()
    return held(engine, stage)


def work(output: str, cases: list[tuple[int, str]]) -> None:
    import deepspeed
    import torch

    # A compiled transport over shared memory that a few bytes do not need.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    deepspeed.init_distributed(dist_backend="gloo")
    torch.manual_seed(1)
    found = [train(stage, precision) for stage, precision in cases]
    pathlib.Path(output, f"{torch.distributed.get_rank()}.json").write_text(json.dumps(found))


def measured(python: str, cases: list[tuple[int, str]]) -> list[list[dict]]:
    """By rank, then by case."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"DS_ACCELERATOR": "cpu", "OMP_NUM_THREADS": "1",
                                    "TORCH_EXTENSIONS_DIR": os.path.join(folder, "extensions")}
        command = [python, "-W", "ignore", "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(RANKS),
                   __file__, "--work", folder, "--cases", json.dumps(cases)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
        if done.returncode != 0:
            sys.exit(done.stdout[-2000:] + done.stderr[-4000:])
        return [json.loads(pathlib.Path(folder, f"{rank}.json").read_text()) for rank in range(RANKS)]


def predicted(program: str, stage: int, precision: str) -> dict[str, int]:
    layout = f"dp={RANKS},mbs={BATCH},gbs={BATCH * RANKS * MICRO_BATCHES},seq={SEQUENCE},precision={precision},zero={stage}"
    with tempfile.NamedTemporaryFile("w", suffix=".json") as config:
        json.dump(CONFIG, config)
        config.flush()
        command = [program, "estimate", config.name, "--on", f"{RANKS}xH100", "--trainer", "deepspeed@0.19", "--layout",
                   layout + (",sharding=zero" if stage else ""), "--json"]
        done = subprocess.run(command, capture_output=True, text=True)
    answer = json.loads(done.stdout) if done.stdout.startswith("{") else {}
    if "memory" not in answer:
        sys.exit(done.stdout + done.stderr)
    [only] = answer["memory"]["classes"]
    return {part: only["bytes"][part] for part in PARTS}


def compare(program: str, python: str, cases: list[tuple[int, str]]) -> list[dict]:
    """One row for each case, rank and part."""
    ranks = measured(python, cases)
    rows = []
    for place, (stage, precision) in enumerate(cases):
        expected = predicted(program, stage, precision)
        rows += [{"zero": stage, "precision": precision, "rank": rank, "part": part, "predicted": expected[part],
                  "measured": ranks[rank][place][part]} for rank in range(RANKS) for part in PARTS]
    return rows


def explained(row: dict) -> str:
    """Why bytes differ, where that is known (docs/dev/memory.md)."""
    missing = row["measured"] - row["predicted"]
    if row["part"] == "main_weights" and row["precision"] == "fp32" and row["zero"] > 0:
        return "ZeRO keeps a second copy of fp32 weights" if missing == row["measured"] else ""
    largest = CONFIG["vocab_size"] * CONFIG["hidden_size"] * (2 if row["precision"] == "bf16" else 4)
    if row["part"] == "gradients" and row["zero"] == 2 and 0 <= missing < largest:
        return "whole gradient of the weight that the ranks' boundary cuts"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/trainwright")
    parser.add_argument("--python", default="build/deepspeed/bin/python")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--cases", type=json.loads, default=[[stage, precision] for precision in ("bf16", "fp32")
                                                            for stage in range(4)], help="[[stage, precision], ...]")
    arguments = parser.parse_args()
    if arguments.work:
        work(arguments.work, arguments.cases)
        return 0
    rows = compare(arguments.program, arguments.python, arguments.cases)
    print("zero precision rank part              predicted  measured")
    for row in rows:
        mark = "" if row["predicted"] == row["measured"] else f"  {row['predicted'] - row['measured']:+} {explained(row)}"
        print(f"{row['zero']:<4} {row['precision']:<9} {row['rank']:<4} {row['part']:<16} "
              f"{row['predicted']:>10} {row['measured']:>9}{mark}")
    return int(any(row["predicted"] != row["measured"] and not explained(row) for row in rows))


if __name__ == "__main__":
    sys.exit(main())
