#!/usr/bin/env python3
"""MFU of one run by three counts of FLOPs: the 70.5 % of Hagemann et al. (LLaMA 13B on 64 A100, 26.54 s a step).

  mfu.py [PROGRAM]
"""
from sweep import PEAK, SPACES, TOKENS, flops, mfu

space = SPACES[0]
counts, parameters = flops(space)
print(f"N = {parameters / 1e9:.3f} B; {TOKENS:,} tokens in {space.step} s on {space.gpus} GPUs of {PEAK / 1e12:.0f} TFLOP/s\n")
print("FLOPs per token                   GFLOP      MFU")
for name, count in [
    ("PaLM's 6N + 12LHQT", counts["palm"]),
    ("Megatron-LM's formula", counts["megatron"]),
    ("exact, all pairs of tokens", counts["full"]["train"]),
    ("exact, causal pairs", counts["causal"]["train"]),
]:
    print(f"{name:30} {count / 1e9:8.2f} {mfu(space, count, space.step):6.1f} %")
