#!/usr/bin/env python3
"""From GPT's layer to Llama's, one change at a time: what each does to the formula.

  terms.py [PROGRAM]
"""
import json
import subprocess
import sys

PROGRAM = sys.argv[1] if len(sys.argv) > 1 else "trainwright"
GPT = {"model_type": "megatron", "num_layers": 3, "hidden_size": 4096, "num_attention_heads": 32, "max_position_embeddings": 4096,
       "padded_vocab_size": 32000, "hidden_dropout": 0.1, "attention_dropout": 0.1}
STEPS = [  # what, which of the model's arguments, which attention, what else of the layout
    ("GPT", {}, "fused-softmax", ""),
    ("no dropout", {"hidden_dropout": 0, "attention_dropout": 0}, "fused-softmax", ""),
    ("RMSNorm", {"normalization": "RMSNorm"}, "fused-softmax", ""),
    ("SwiGLU, f = 11,008", {"swiglu": True, "ffn_hidden_size": 11008}, "fused-softmax", ""),
    ("rotary positions", {"position_embedding_type": "rope"}, "fused-softmax", ""),
    ("FlashAttention", {}, "flash", ""),
    ("GQA, 8 heads for keys", {"group_query_attention": True, "num_query_groups": 8}, "flash", ""),
    ("t = 8, sequence parallel", {}, "flash", ",tp=8,sp"),
]

model = dict(GPT)
print(f"{'':26}{'formula':26}{'statistics':16}{'MiB':>8}")
for what, change, attention, layout in STEPS:
    model |= change
    words = [PROGRAM, "show", "work", json.dumps(model), "--on", "24xA100-80GB" if layout else "3xA100-80GB", "--trainer", "megatron@0.12",
             "--attention", attention, "--layout", f"pp=3,mbs=1,gbs=96,seq=4096{layout}", "--stage", "1", "--formula", "--json"]
    layer = json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout)["formulas"]["layers"][0]
    print(f"{what:26}{layer['formula']:26}{layer['statistics']:16}{layer['bytes'] / 2**20:8.1f}")
