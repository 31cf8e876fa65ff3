#!/usr/bin/env python3
"""Figures 1 and 7 of Korthikanti et al. (arXiv:2205.05198), of what the program answers.

  figures.py [PROGRAM] [--svg FOLDER]
"""
import json
import pathlib
import subprocess
import sys

WORDS = [word for word in sys.argv[1:] if not word.startswith("--")]
SVG = pathlib.Path(WORDS.pop()) if "--svg" in sys.argv else None
PROGRAM = WORDS[0] if WORDS else "trainwright"
GIB = 2**30

# Tables 1 and 3: layers, hidden, heads, GPUs, layout. Activations of the first stage in figure 1 with
# both techniques, in GiB, as calculon's calculon/llm/validation.py reads them.
MODELS = {
    "22B": (48, 6144, 64, 8, "tp=8,mbs=4,gbs=4", 9.5625),
    "175B": (96, 12288, 96, 64, "tp=8,pp=8,vpp=3,mbs=1,gbs=64", 12.3516),
    "530B": (105, 20480, 128, 280, "tp=8,pp=35,vpp=3,mbs=1,gbs=280", 23.0762),
    "1T": (128, 25600, 160, 512, "tp=8,pp=64,mbs=1,gbs=512", 26.5625),
}
WAYS = {
    "tensor parallelism": "",
    "+ sequence parallelism": ",sp",
    "+ selective recompute": ",recompute=selective",
    "+ both": ",sp,recompute=selective",
    "full recompute": ",recompute=full",
}


def ask(command, name, way, *more):
    layers, hidden, heads, gpus, layout, _ = MODELS[name]
    model = {"model_type": "megatron", "num_layers": layers, "hidden_size": hidden, "num_attention_heads": heads,
             "max_position_embeddings": 2048, "padded_vocab_size": 51200, "hidden_dropout": 0.1, "attention_dropout": 0.1}
    words = [PROGRAM, *command, json.dumps(model), "--on", f"{gpus}xselene", "--trainer", "megatron-lm-2022",
             "--layout", f"{layout},seq=2048,precision=fp16{WAYS[way]}", "--json", *more]
    answer = subprocess.run(words, stdout=subprocess.PIPE, text=True)  # 1: it does not fit, which is an answer
    return json.loads(answer.stdout)


def memory(name, way):
    """GiB of the first stage: model states, activations."""
    parts = ask(["estimate"], name, way)["memory"]["classes"][0]["bytes"]
    states = sum(parts[part] for part in ("weights", "main_weights", "gradients", "optimizer_states"))
    return states / GIB, parts["activations"] / GIB


def of_a_layer(name, way):
    layer = ask(["show", "work"], name, way, "--formula")["formulas"]["layers"][0]
    return layer["formula"], layer["formula_bytes"]


def main():
    print("GiB of the first stage   model states  activations  with both  published")
    sizes = []
    for name, (*_, published) in MODELS.items():
        states, plain = memory(name, "tensor parallelism")
        both = memory(name, "+ both")[1]
        print(f"{name:24} {states:12.1f} {plain:12.1f} {both:10.2f} {published:10.2f}")
        sizes += [name, ("tensor parallelism alone", [states, plain], f"{states + plain:.0f} GiB"),
                  ("+ sequence parallelism, selective recompute", [states, both], f"{states + both:.0f} GiB")]
    print("\na layer's activations   " + "".join(f"{name:>8}" for name in MODELS))
    shares = {way: [] for way in WAYS}
    base = {name: of_a_layer(name, "tensor parallelism")[1] for name in MODELS}
    for way in WAYS:
        for name in MODELS:
            formula, kept = of_a_layer(name, way)
            shares[way].append(100 * kept / base[name])
        print(f"{way:24}" + "".join(f"{share:6.1f} %" for share in shares[way]) + f"  {formula}")
    if SVG:
        sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
        from bars import bars
        (SVG / "memory.svg").write_text(bars("Memory of a GPU of the first stage, 8-way tensor parallel (the paper's figure 1)",
                                             ["weights, gradients and optimizer states", "activations"], sizes, 200, "GiB", (80e9 / GIB, "80 GB")))
        rows = []
        for i, name in enumerate(MODELS):
            rows += [name] + [(way, [shares[way][i]], f"{shares[way][i]:.0f} %") for way in list(WAYS)[1:]]
        (SVG / "savings.svg").write_text(bars("Activations of a layer, of what tensor parallelism alone keeps (the paper's figure 7)",
                                              [], rows, 100, "%"))


main()
