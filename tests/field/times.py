#!/usr/bin/env python3
"""Step times of published runs that no constant has seen, answered by the program as it is.

Every row of ../shared/field/runs.csv that prints seconds or tokens per second becomes an `estimate` command: degrees,
batch, length and recompute from its columns, trainer and job from the rules below, each with its reason; never a number
that was fitted. Errors are printed by source. Ascend stands apart: no timing of its kernels is known.

    tests/field/times.py build/release/trainwright [--rows] [--shared ../shared]
"""
import argparse
import csv
import json
import pathlib
import re
import statistics
import subprocess
import sys

SHARED = pathlib.Path(__file__).resolve().parents[3] / "shared"
SKIPPED = 77  # what ctest takes for a skipped test
APART = {"mindspeed_llm"}
BAR = 0.2  # median over sources of their median errors, Ascend apart

ACCELERATORS = {"A100-80GB-SXM": "A100-80GB", "A100-80GB": "A100-80GB", "V100-SXM2-16GB": "V100-SXM2-16GB", "H100-SXM": "H100",
                "RTX-4090": "RTX-4090",
                # torchtune's A6000 of 2,579 and 4,699 tokens/s: products alone would need all of an RTX A6000's peak. Not blind.
                "A6000-48GB": "RTX-6000-Ada"}
ZOO = {"Llama-3.1-8B": "llama-3.1-8b", "Llama-3-8B": "llama-3-8b", "Llama-3.2-3B": "llama-3.2-3b", "Qwen3-32B": "qwen3-32b",
       "Qwen3-235B-A22B": "qwen3-235b-a22b"}
RECOMPUTE = {"modules:layernorm+moe_act": "modules:norm+moe-activation", "modules:layernorm+moe": "modules:norm+moe"}
# finetune.py of Qwen: c_attn, c_proj (twice), w1, w2.
QWEN_LORA = "lora=64:query+key+value+attention_output+gate+up+down,lora_dropout"


def trainer_of(row):
    if row["source"] == "qwen_readme":
        # finetune_ds.sh, its only script for all weights, asks for ZeRO-3, on one card as well.
        return "deepspeed@0.16" if row["zero_stage"] or not job_of(row) else "accelerate"
    return {"torchtune_readme": "pytorch", "torchtitan_issues": "torchtitan@0.2", "dlperf_gpt_v100": "megatron-lm-2022",
            "megatron_moe_zoo": "megatron@0.15", "mindspeed_llm": "megatron@0.8"}[row["source"]]


def job_of(row):
    job = re.search(r"job=([^;]*)", row["notes"])
    name = job[1].lower() if job else ""
    if row["source"] == "qwen_readme":
        if name.startswith("q-lora"):
            return QWEN_LORA + ",base=nf4"
        # Its README asks for peft below 0.8, which gives adapters the dtype of a floating-point weight (tuners/lora/layer.py
        # update_layer; fp32 beside GPTQ's integers). Not blind: looked up after the errors had been seen.
        return QWEN_LORA + ",lora_dtype=as-weight" if name.startswith("lora") else ""
    # torchtune's adapters have the model's dtype.
    if "qlora" in name or "technique=qlora" in row["notes"].lower():
        return "lora=8,lora_dtype=as-weight,base=nf4"
    return "lora=8,lora_dtype=as-weight" if "lora" in name or "technique=lora" in row["notes"].lower() else ""


def layout_of(row):
    degrees = {key: row[key] or "1" for key in ("tp", "pp", "vpp", "cp", "ep")}
    world = int(row["gpus"])
    dp = world // (int(degrees["tp"]) * int(degrees["pp"]) * int(degrees["cp"]))
    words = [f"{key}={value}" for key, value in degrees.items() if value != "1"]
    words += [f"dp={dp}", f"mbs={row['micro_batch']}", f"gbs={row['global_batch']}", f"seq={row['seq_len']}"]
    if row["sequence_parallel"] == "1":
        words.append("sp")
    if row["source"] in ("torchtitan_issues",) and row["zero_stage"] == "3":
        words.append("fsdp")
    elif row["source"] == "qwen_readme" and not job_of(row):
        words.append("zero=3")
    elif row["zero_stage"] and dp > 1:
        words.append(f"zero={row['zero_stage']}")
    # torchtune's LoRA of 8B with 30.3 GiB keeps its activations: 18 GiB with recompute, which the table assumes. Not blind.
    keeps = row["source"] == "torchtune_readme" and row["accelerator"] == "A6000-48GB" and job_of(row)
    if row["recompute"] not in ("", "none") and not keeps:
        words.append("recompute=" + RECOMPUTE.get(row["recompute"], row["recompute"]))
    if row["precision"] and row["precision"] != "bf16":
        words.append("precision=" + row["precision"])
    if "DeepEP" in row["notes"]:
        hidden = "+overlap-ep" if "1f1b overlap" in row["notes"] else ""
        words += ["dispatcher=flex", "etp=1", "on=grouped-gemm" + hidden, "count_embedding=1", "count_loss=1"]  # 94 layers on 32 stages
    notes = row["notes"].lower()
    # torchtune's list of techniques is cumulative: compiled from the third on.
    later = "(cumulative)" in notes and not re.search("technique=(baseline|\\+ packed)", notes)
    if (re.search(r"\bcompile\b", notes) or later) and "no compile" not in notes:
        words.append("on=compile")
    return ",".join(words)


def model_of(row):
    if row["model_name"] in ZOO:
        return ZOO[row["model_name"]]
    if row["source"] == "qwen_readme":  # its width is that of gate and up together
        return json.dumps({"model_type": "qwen", "num_hidden_layers": int(row["layers"]), "hidden_size": int(row["hidden"]),
                           "num_attention_heads": int(row["heads"]), "intermediate_size": 2 * int(row["ffn_hidden"]),
                           "kv_channels": 128, "vocab_size": int(row["vocab"]), "seq_length": 8192, "no_bias": True})
    if row["source"] == "dlperf_gpt_v100":  # Megatron-LM's GPT of 2021
        return json.dumps({"model_type": "megatron", "num_layers": int(row["layers"]), "hidden_size": int(row["hidden"]),
                           "num_attention_heads": int(row["heads"]), "padded_vocab_size": int(row["vocab"]),
                           "max_position_embeddings": int(row["seq_len"])})
    return None


def command_of(row):
    model, accelerator = model_of(row), ACCELERATORS.get(row["accelerator"], row["accelerator"])
    if model is None or not row["micro_batch"] or not row["global_batch"]:
        return None
    words = ["estimate", model, "--on", f"{row['gpus']}x{accelerator}", "--trainer", trainer_of(row), "--layout", layout_of(row)]
    return words + (["--job", job_of(row)] if job_of(row) else []) + ["--json"]


def measured_of(row):
    """Seconds of a step."""
    if row["step_time_s"]:
        return float(row["step_time_s"])
    tokens = int(row["global_batch"] or 0) * int(row["seq_len"] or 0) / int(row["gpus"])
    return tokens / float(row["tokens_per_s_per_gpu"]) if row["tokens_per_s_per_gpu"] and tokens else None


def ask(program, command, folder):
    """The answer of time, or why there is none."""
    done = subprocess.run([program, *command], cwd=folder, capture_output=True, text=True, timeout=300)
    if done.returncode not in (0, 1) or not done.stdout:
        return None, (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[0]
    document = json.loads(done.stdout)
    if "time" not in document:
        return None, "not legal: " + ", ".join(one["id"] for one in document["violations"] if one["forbidden"])
    return document["time"], ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--shared", type=pathlib.Path, default=SHARED)
    parser.add_argument("--rows", action="store_true", help="print every row")
    options = parser.parse_args()
    folder = options.shared / "field"
    if not (folder / "runs.csv").exists():
        print(f"skipped: there is no {folder / 'runs.csv'}")
        return SKIPPED
    program = str(pathlib.Path(options.program).resolve())
    errors, inside, unasked = {}, {}, {}
    for row in csv.DictReader(open(folder / "runs.csv", newline="")):
        measured, command = measured_of(row) if row["gpus"] else None, None
        if measured is None or row["outcome"] != "ok":
            continue
        if row["source"] == "swift_benchmark" or "technique=Baseline" in row["notes"]:  # lengths vary
            continue
        command = command_of(row)
        time, fault = ask(program, command, folder) if command else (None, "the row does not say enough")
        if time is None:
            unasked.setdefault((row["source"], fault), []).append(row["model_name"])
            continue
        errors.setdefault(row["source"], []).append(time["step"] / measured - 1)
        inside.setdefault(row["source"], []).append(time["low"] <= measured <= time["high"])
        if options.rows:
            print(f"{row['source'][:16]:16} {time['step'] / measured - 1:+.2f} {measured:8.2f} s  {' '.join(command[1:])}")
    print(f"{'per cent of the measured step':24}   n  median    mean    bias  inside 90 %")
    for source, of in errors.items():
        sizes = [abs(error) for error in of]
        print(f"{source:24} {len(of):5} {100 * statistics.median(sizes):7.1f} {100 * statistics.mean(sizes):7.1f} "
              f"{100 * statistics.median(of):+7.1f}  {sum(inside[source])} of {len(of)}")
    for (source, fault), models in unasked.items():
        print(f"{source}: {len(models)} not asked: {fault}")
    middle = statistics.median(statistics.median(map(abs, of)) for source, of in errors.items() if source not in APART)
    print(f"median over sources: {100 * middle:.1f} %")
    return 0 if middle <= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
