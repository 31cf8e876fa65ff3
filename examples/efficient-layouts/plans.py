#!/usr/bin/env python3
"""The plan for LLaMA 13B to 65B on the cluster of Hagemann et al., beside the best layout that they measured.

  plans.py [PROGRAM]
"""
from sweep import SPACES, TOKENS, ask, estimate, flops, mfu


def short(layout):
    words = [word for word in layout.split(",") if word.startswith(("tp=", "pp=", "mbs=", "sp", "recompute="))]
    return " ".join(word.replace("=", "") for word in words)


print(f"{'':20}{'plan':20}{'step':>8}{'MFU':>8}   {'best measured':20}{'predicted':>9}{'measured':>10}{'MFU':>8}")
for space in SPACES:
    plan = ask("plan", space, "--batch", str(TOKENS // space.seq), "--seq", str(space.seq), "--top", "1")["best"][0]
    step, palm = plan["time"]["step"], flops(space)[0]["palm"]
    theirs, fits = estimate(space, space.layout)
    print(f"{str(space):20}{short(plan['layout']):20}{step:6.1f} s{mfu(space, palm, step):6.1f} %   "
          f"{short(space.layout):20}{theirs:7.1f} s{space.step:8.1f} s{space.mfu:6.1f} %{'' if fits else '  tight'}")
