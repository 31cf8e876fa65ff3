#!/usr/bin/env python3
"""Published training runs, predicted beside measured, and what `plan` would run instead.

    tools/plot/production_table.py build/release/trainwright

Prints the table of docs/dev/plan.md. What a paper does not print is assumed and said so there.
"""
import json
import subprocess
import sys


def llama_step(seq, ranks, rate):
    """Seconds of the 16 M tokens of a step at so many FLOP/s per accelerator, which the paper prints
    without its formula: 6 per parameter and token, and attention in full, as Megatron counts it."""
    tokens, parameters, layers, width = 2048 * 8192, 405.85e9, 126, 16384
    return tokens * (6 * parameters + 12 * layers * width * seq) / (ranks * rate)


# name, model, cluster, trainer, layout, what was published, its value, source
RUNS = [
    ("Llama 3 405B", "llama-3.1-405b", "8192xH100", "megatron",
     "tp=8,pp=16,vpp=4,sp,zero=1,mbs=1,gbs=2048,seq=8192,count_embedding=1,count_loss=1",
     "step", llama_step(8192, 8192, 430e12), "arXiv:2407.21783, table 4"),
    ("Llama 3 405B", "llama-3.1-405b", "16384xH100", "megatron",
     "tp=8,pp=16,vpp=4,sp,zero=1,mbs=1,gbs=2048,seq=8192,count_embedding=1,count_loss=1",
     "step", llama_step(8192, 16384, 400e12), "arXiv:2407.21783, table 4"),
    ("Llama 3 405B, 128k tokens", "llama-3.1-405b", "16384xH100", "megatron",
     "tp=8,pp=16,vpp=4,cp=16,sp,zero=1,mbs=1,gbs=128,seq=131072,count_embedding=1,count_loss=1",
     "step", llama_step(131072, 16384, 380e12), "arXiv:2407.21783, table 4"),
    ("DeepSeek-V3", "deepseek-v3", "2048xH800", "megatron@0.16",
     "tp=1,pp=16,ep=64,zero=1,mbs=1,gbs=15360,seq=4096,precision=fp8-blockwise,first_layers=3,"
     "last_layers=2,recompute=modules:norm+mla-up-projection,dispatcher=flex",
     "step", 19.926, "arXiv:2412.19437; 272.8 B tokens a day, arXiv:2505.09343"),
    # Two-way pipelines that hide dispatch are no trainer's here. Megatron-Core hides it behind other micro-batches in interleaved
    # ones: two stages on a rank as in DualPipe, 120 micro-batches in groups of 20, since 16 would leave a remainder.
    ("DeepSeek-V3, dispatch hidden as Megatron-Core can", "deepseek-v3", "2048xH800", "megatron@0.16",
     "tp=1,pp=16,vpp=2,ep=64,zero=1,mbs=1,gbs=15360,seq=4096,precision=fp8-blockwise,layers=1" + "/2" * 30 + "/0,"
     "recompute=modules:norm+mla-up-projection,dispatcher=flex,on=overlap-ep,micro_batch_group=20",
     "step", 19.926, "the same"),
    ("GPT-3 175B", "megatron-175b", "1536xA100-80GB", "megatron-lm-2022",
     "tp=8,pp=12,mbs=1,gbs=1536,seq=2048,recompute=full,precision=fp16",
     "hfu", 141 / 312, "arXiv:2104.04473, table 2"),
    ("GPT 1T", "megatron-1008b", "3072xA100-80GB", "megatron-lm-2022",
     "tp=8,pp=64,mbs=1,gbs=3072,seq=2048,recompute=full,precision=fp16",
     "hfu", 163 / 312, "arXiv:2104.04473, table 1"),
    ("MT-NLG 530B", "mt-nlg-530b", "2240xA100-80GB", "megatron-lm-2022",
     "tp=8,pp=35,mbs=1,gbs=1920,seq=2048,recompute=full,precision=fp16",
     "step", 60.1, "arXiv:2201.11990, section 2.3"),
    ("MT-NLG 530B", "mt-nlg-530b", "3360xA100-80GB", "megatron-lm-2022",
     "tp=8,pp=35,mbs=1,gbs=1920,seq=2048,recompute=full,precision=fp16",
     "step", 44.4, "arXiv:2201.11990, section 2.3"),
    ("GPT 175B, Megatron-LM", "megascale-175b", "12288xA100-80GB", "megatron-lm-2022",
     "tp=8,pp=8,vpp=6,mbs=1,gbs=6144,seq=2048,recompute=selective,sp",
     "step", 8.57, "arXiv:2402.15627, table 2"),
    ("BLOOM 176B", "bloom-176b", "384xA100-80GB", "megatron-deepspeed@0.6",
     "tp=4,pp=12,mbs=2,gbs=2048,seq=2048,recompute=full,zero=1,"
     "layers=5/6/6/6/6/6/6/6/6/6/6/5",
     "step", 104.7, "bigscience-workshop's log of the 176B run"),
]


def asked(program, *words):
    done = subprocess.run([program, *words, "--json"], capture_output=True, text=True)
    if done.returncode not in (0, 1):
        sys.exit(f"{' '.join(words)}\n{done.stderr}")
    return json.loads(done.stdout)


def entries(layout):
    return dict(entry.partition("=")[::2] for entry in layout.split(","))


def plan(program, model, cluster, trainer, layout):
    words = entries(layout)
    more = ["--precision", words["precision"]] if "precision" in words else []
    if "on" in words:
        more += ["--also", "overlaps"]
    return asked(program, "plan", model, "--on", cluster, "--trainer", trainer, "--batch",
                 words["gbs"], "--seq", words["seq"], "--top", "1", *more)


def short(layout):
    skip = {"gbs", "seq", "precision", "count_embedding", "count_loss", "first_layers",
            "last_layers", "dispatcher", "layers", "micro_batch_group"}
    return " ".join(entry for entry in layout.split(",") if entry.partition("=")[0] not in skip)


def main():
    program = sys.argv[1]
    print("| run | accelerators | layout | published | predicted | 90 % interval | off by | plan | its step |")
    print("|---|---:|---|---:|---:|---:|---:|---|---:|")
    for name, model, cluster, trainer, layout, kind, value, source in RUNS:
        answer = asked(program, "estimate", model, "--on", cluster, "--trainer", trainer,
                       "--layout", layout)
        time = answer.get("time")
        if time is None:
            sys.exit(f"{name}: {answer}")
        if kind == "step":
            published, predicted = f"{value:.1f} s", f"{time['step']:.1f} s"
            off = time["step"] / value - 1
        else:
            published, predicted = f"{value:.1%} {kind.upper()}", f"{time[kind]:.1%}, {time['step']:.1f} s"
            off = value / time[kind] - 1
        best = plan(program, model, cluster, trainer, layout)["best"]
        found = short(best[0]["layout"]) if best else "nothing fits"
        step = f"{best[0]['time']['step']:.1f} s" if best else ""
        print(f"| {name} ({source}) | {cluster} | {short(layout)} | {published} | {predicted} "
              f"| {time['low']:.1f} to {time['high']:.1f} s | {off:+.0%} | {found} | {step} |",
              flush=True)


if __name__ == "__main__":
    main()
