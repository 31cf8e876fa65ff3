#!/usr/bin/env python3
"""Llama-13B on one node of eight A100: what a fit of one divisor and one constant stands for, layout by layout.

  node.py [PROGRAM]
"""
import json
import subprocess
import sys

PROGRAM = sys.argv[1] if len(sys.argv) > 1 else "trainwright"
MIB = 2**20
S, H, L, A = 2048, 5120, 40, 40
TRAINER = {"based_on": "paddlenlp@2.6", "kernels": {"flash-attention": True, "fused-norm": True}}
LAYOUTS = ["tp=8", "tp=4,dp=2,zero=1", "tp=2,dp=4,zero=1", "tp=2,dp=4,zero=2", "dp=8,zero=1", "dp=8,zero=2", "dp=8,zero=3", "tp=4,pp=2", "tp=2,pp=4", "pp=8"]
# FlagOpen/FlagPerf, training/nvidia/llama1_7B-paddle/README.md: Paddle 2.5.1, fp16 O2, micro-batches of 2, full recompute; GiB.
MEASURED = {"dp=8,zero=2": 60.06, "tp=2,dp=4,zero=1": 52.27, "tp=2,dp=4,zero=2": 43.84}


def worst(layout, mbs, recompute):
    words = [PROGRAM, "estimate", "llama-13b", "--on", "8xA100-80GB", "--trainer", json.dumps(TRAINER),
             "--layout", f"{layout},mbs={mbs},gbs={64 * mbs},seq={S},precision=fp16,recompute={recompute}", "--json"]
    memory = json.loads(subprocess.run(words, stdout=subprocess.PIPE, text=True).stdout)["memory"]  # 1: it does not fit
    return memory["classes"][memory["worst"]]


def gpt(mbs):  # sbhL(34 + 5as/h), in MiB
    return S * mbs * H * L * (34 + 5 * A * S / H) / MIB


def line(layout, recompute):
    """Divisor and constant that two micro-batch sizes of one layout have."""
    two, four = (worst(layout, mbs, recompute)["allocated"] / MIB for mbs in (2, 4))
    return gpt(2) / (four - two), 2 * two - four


print("allocated = sbhL(34 + 5as/h) / divisor + constant, MiB")
print("layout             constant   divisor: all kept   full recompute")
for layout in LAYOUTS:
    kept, constant = line(layout, "none")
    print(f"{layout:18} {constant:8,.0f} {kept:19.1f} {line(layout, 'full')[0]:16.1f}")
print(f"\nGiB, b = 2, full recompute   measured   /20 + 34000   estimate")
for layout, measured in MEASURED.items():
    print(f"{layout:27} {measured:9.2f} {(gpt(2) / 20 + 34000) / 1024:13.2f} {worst(layout, 2, 'full')['driver'] / 2**30:10.2f}")
