#!/usr/bin/env python3
"""Published pairs of runs that differ in one switch: what it gained, and what is predicted.

    tools/plot/switch_pairs.py build/release/trainwright

prints the table of docs/dev/step-time.md. Throughputs and steps are those of the source; a pair is left out
where batch or length are not printed."""
import json
import subprocess
import sys

TITAN = "torchtitan docs/performance (async TP, 2024)"
BRIDGE = "Megatron-Bridge skills/perf-techniques (Qwen3 30B-A3B, 26.04)"
LLAMA_70B = ("llama-3-70b", "256xH100-SXM-96GB", "torchtitan@0.0.2",
             "tp=8,sp,fsdp,mbs=16,gbs=512,seq=8192,recompute=full,on=compile")
LLAMA_8B = ("llama-3-8b", "64xH100-SXM-96GB", "torchtitan@0.0.2",
            "tp=8,sp,fsdp,mbs=12,gbs=96,seq=8192,recompute=op-selective,on=compile")
LLAMA_405B = ("llama-3.1-405b", "128xH100-SXM-96GB", "torchtitan@0.0.2",
              "tp=8,sp,fsdp,mbs=2,gbs=32,seq=8192,recompute=full,on=compile,precision=fp8-tensorwise")
QWEN = ("qwen3-30b-a3b", "16xH100", "megatron-bridge",
        "ep=16,zero=1,mbs=1,gbs=1024,seq=4096,gradients=bf16,dispatcher=hybridep,on=grouped-gemm")
QWEN_A2A = QWEN[:3] + (QWEN[3].replace("hybridep", "all-to-all"),)


def with_(question, entries):
    model, on, trainer, layout = question
    key = entries.split("=")[0]
    if key == "on":
        layout = "".join(part + "," for part in layout.split(",") if not part.startswith("on=")) + "on=" + "+".join(
            [part[3:] for part in layout.split(",") if part.startswith("on=")] + [entries[3:]])
    elif entries:
        layout += "," + entries
    return model, on, trainer, layout


def newer(question):
    """The first version that is known to round row by row."""
    return question[:2] + ("torchtitan@0.2",) + question[3:]


# What, the question without it, the switch, measured without and with (of these, whether more is faster), source.
PAIRS = [
    ("overlap-tp", LLAMA_70B, "on=overlap-tp", 597.3, 652.4, True, TITAN),
    ("overlap-tp", with_(LLAMA_70B, "precision=fp8-tensorwise"), "on=overlap-tp", 809.8, 942.4, True, TITAN),
    ("overlap-tp", with_(newer(LLAMA_70B), "precision=fp8-rowwise"), "on=overlap-tp", 599.6, 624.8, True, TITAN),
    ("overlap-tp", LLAMA_8B, "on=overlap-tp", 4378, 4809.4, True, TITAN),
    ("overlap-tp", with_(LLAMA_8B, "precision=fp8-tensorwise"), "on=overlap-tp", 5078.1, 5570.1, True, TITAN),
    ("overlap-tp", with_(newer(LLAMA_8B), "precision=fp8-rowwise"), "on=overlap-tp", 3708.5, 3914.9, True, TITAN),
    ("overlap-tp", LLAMA_405B, "on=overlap-tp", 177, 185, True, TITAN),
    ("overlap-ep", QWEN, "on=overlap-ep", 24.7138, 21.0725, False, BRIDGE),
    ("part-graphs", QWEN_A2A, "on=part-graphs", 41.36, 42.00, False, BRIDGE),
]


def step(program, question):
    model, on, trainer, layout = question
    words = [program, "estimate", model, "--on", on, "--trainer", trainer, "--layout", layout, "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    time = json.loads(done.stdout).get("time")
    if time is None:
        sys.exit(f"{' '.join(words)}\n{done.stdout[:1000]}")
    return time["step"], time["low"], time["high"]


def main():
    program = sys.argv[1]
    print("| switch | question | measured gain | predicted gain | predicted steps, s |")
    print("|---|---|--:|--:|---|")
    for name, question, switch, without, with_it, rate, _ in PAIRS:
        before, after = step(program, question), step(program, with_(question, switch))
        gain = with_it / without - 1 if rate else without / with_it - 1
        print(f"| `{name}` | {question[0]}, {question[1]}, `{question[3]}` | {gain:+.1%} | {before[0] / after[0] - 1:+.1%} "
              f"| {before[0]:.3g} to {after[0]:.3g} |")


if __name__ == "__main__":
    main()
