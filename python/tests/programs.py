"""Small language models, and PyTorch's MemTracker on them."""
import contextlib
import gc
import json
import os
import subprocess
import tempfile

import torch
from torch.distributed._tools.mem_tracker import MemTracker
from torch._guards import detect_fake_mode

from trainwright.engine.causal_lm import OPTIMIZERS, CausalLm, build
from trainwright.engine.record import Recording, record, train_step

_DENSE = {"vocab_size": 96, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
          "num_attention_heads": 4, "max_position_embeddings": 64}
_GROUPED = {**_DENSE, "num_key_value_heads": 2, "head_dim": 8}
SIZES = {
    "llama": _GROUPED,
    "qwen3": _GROUPED,
    "gpt2": {"vocab_size": 96, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64},
    "gpt_neox": _DENSE,
    "mixtral": {**_GROUPED, "num_local_experts": 4, "num_experts_per_tok": 2},
    "deepseek_v3": {**_DENSE, "num_key_value_heads": 4, "moe_intermediate_size": 16, "n_routed_experts": 4, "num_experts_per_tok": 2,
                    "n_shared_experts": 1, "n_group": 2, "topk_group": 1, "first_k_dense_replace": 1, "kv_lora_rank": 8,
                    "q_lora_rank": 12, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8, "v_head_dim": 8},
    "gemma2": _GROUPED,
    "mamba2": {"vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8, "num_heads": 8, "head_dim": 8,
               "expand": 2, "n_groups": 2, "chunk_size": 8},
}
# MemTracker's names of our kinds.
CATEGORIES = {"parameter": "Parameter", "buffer": "Buffer", "gradient": "Gradient", "optimizer": "Optstate",
              "activation": "Activation", "temporary": "Temp", "input": "Other"}


def small(kind: str, checkpointing: str = "none", **fields) -> CausalLm:
    sizes = dict(SIZES[kind])
    if kind in ("mixtral", "deepseek_v3"):
        sizes["experts_implementation"] = fields.pop("experts", "batched_mm")
    return CausalLm(kind, sizes, checkpointing=checkpointing, **fields)


def memtracker(spec: CausalLm, optimizer: str, steps: int, fake: bool) -> dict[str, int]:
    """Peak by MemTracker, in total and by our kinds, and its live bytes after each step."""
    model, inputs = build(spec, fake)
    made = OPTIMIZERS[optimizer]
    chosen = made(list(model.parameters())) if made else None
    tracker = MemTracker()
    tracker.track_external(model, chosen, *inputs.values())
    live = []
    with detect_fake_mode(list(model.parameters())) or contextlib.nullcontext(), tracker:
        for _ in range(steps):
            tracker.reset_mod_stats()
            train_step(model, inputs, chosen)
            live.append(tracker.get_tracker_snapshot()[torch.device("cpu")]["Total"])
    peak = tracker.get_tracker_snapshot("peak")[torch.device("cpu")]
    return {"peak": peak["Total"], **{ours: peak[theirs] for ours, theirs in _named(peak).items()}, "live": live}


def _named(snapshot: dict) -> dict:
    by_name = {getattr(key, "value", key): key for key in snapshot}
    return {ours: by_name[theirs] for ours, theirs in CATEGORIES.items()}


def recorded(spec: CausalLm, optimizer: str, steps: int, fake: bool, path: str | None = None) -> Recording:
    model, inputs = build(spec, fake)
    return record(model, inputs, OPTIMIZERS[optimizer], steps, path=path)


def counted(recording: Recording) -> dict[str, int]:
    """In the form of `memtracker`."""
    assert recording.by_kind["other"] == 0
    return {"peak": recording.peak, **{kind: recording.by_kind[kind] for kind in CATEGORIES}, "live": recording.live_after_step}
