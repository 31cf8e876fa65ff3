"""Small language models, and PyTorch's MemTracker on them."""
import contextlib
import gc
import json
import os
import subprocess

import torch
from torch.distributed._tools.mem_tracker import MemTracker
from torch._guards import detect_fake_mode

from trainwright.engine.causal_lm import OPTIMIZERS, CausalLm, build, checkpoint
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


def memtracker(spec: CausalLm, optimizer: str, steps: int, fake: bool) -> list[dict[str, int]]:
    """After each step: live bytes, peak so far in total and by our kinds, all by MemTracker."""
    model, inputs = build(spec, fake)
    made = OPTIMIZERS[optimizer]
    chosen = made(list(model.parameters())) if made else None
    tracker = MemTracker()
    tracker.track_external(model, chosen, *inputs.values())
    answer = []
    with detect_fake_mode(list(model.parameters())) or contextlib.nullcontext(), tracker:
        for _ in range(steps):
            tracker.reset_mod_stats()
            train_step(model, inputs, chosen)
            peak = tracker.get_tracker_snapshot("peak")[torch.device("cpu")]
            named = {getattr(key, "value", key): size for key, size in peak.items()}
            answer.append({"live": tracker.get_tracker_snapshot()[torch.device("cpu")]["Total"], "peak": named["Total"],
                           **{ours: named[theirs] for ours, theirs in CATEGORIES.items()}})
    return answer


def recorded(spec: CausalLm, optimizer: str, steps: int, fake: bool, path: str | None = None) -> Recording:
    model, inputs = build(spec, fake)
    return record(model, inputs, OPTIMIZERS[optimizer], steps, path=path)


def counted(recording: Recording) -> list[dict[str, int]]:
    """In the form of `memtracker`."""
    return [{"live": step.live, "peak": step.peak, **{kind: step.by_kind[kind] for kind in CATEGORIES}}
            for step in recording.after_step]


def memtracker_faults(theirs: list[dict[str, int]], ours: list[dict[str, int]], reentrant: bool) -> list[str]:
    """Where the two differ, step by step; [] when byte for byte equal. With reentrant checkpointing
    MemTracker's hooks keep activations of every step alive (`allocator_live` shows it): its peak may be
    higher by exactly what it held after the step before (the peak lies in backward) or holds after
    this one (in the optimizer), all of it activations."""
    faults, held = [], 0
    for step, (their, our) in enumerate(zip(theirs, ours, strict=True), 1):
        before, held = held, their["live"] - our["live"]
        if held and not (reentrant and held > 0):
            faults.append(f"step {step}: {their['live']} bytes live by MemTracker, {our['live']} by us")
        over = {name: their[name] - our[name] for name in their if name != "live" and their[name] != our[name]}
        explained = set(over) == {"peak", "activation"} and over["peak"] == over["activation"] in (before, held)
        if over and not explained:
            faults.append(f"step {step}: MemTracker has more by {over}, and holds {held} bytes")
    return faults


def allocator_live(spec: CausalLm, optimizer: str, steps: int, watched: bool) -> list[int]:
    """Bytes that PyTorch's CPU allocator itself has given out and not taken back, after each step,
    counted from before the model is built; with MemTracker watching, or with nobody. Real tensors.
    States of the random generator that checkpoints save are made by no op, so here they are not saved."""
    train_step(*build(spec, fake=False), None)  # What is made once per process is made here.
    gc.collect()
    with torch.autograd.profiler.profile(profile_memory=True) as profile:
        model, inputs = build(spec, fake=False)
        checkpoint(model, spec.checkpointing, preserve_rng_state=False)
        chosen = OPTIMIZERS[optimizer](list(model.parameters()))
        tracker = MemTracker() if watched else contextlib.nullcontext()
        with tracker:
            for _ in range(steps):
                if watched:
                    tracker.reset_mod_stats()
                train_step(model, inputs, chosen)
                with torch.profiler.record_function("step ends"):
                    pass
    events = sorted((event.start_ns(), event.name(), event.nbytes()) for event in profile.kineto_results.events()
                    if event.name() in ("[memory]", "step ends"))
    live, answer = 0, []
    for _, name, size in events:
        live += size if name == "[memory]" else 0
        if name == "step ends":
            answer.append(live)
    return answer


def replayed(path: str) -> dict:
    """What `trainwright replay` says of a trace."""
    run = subprocess.run([os.environ["TRAINWRIGHT_BINARY"], "replay", path, "--json"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def replay_faults(recording: Recording, replay: dict) -> list[str]:
    """Where the program's replay of the written trace and the recorder's own count differ."""
    pairs = {"peak": (recording.peak, replay["peak"]), "ops": (recording.ops, replay["ops"]),
             "storages": (recording.storages, replay["storages"]), "begin": (recording.live_begin, replay["begin"]),
             "end": (recording.after_step[-1].live, replay["end"]),
             "peak_op": (recording.peak_op, replay["peak_op"]["index"] if replay["peak_op"] else -1)}
    pairs |= {kind: (size, replay["by_kind"][kind]) for kind, size in recording.by_kind.items()}
    return [f"{name}: recorded {ours}, replayed {theirs}" for name, (ours, theirs) in pairs.items() if ours != theirs]


def program() -> str | None:
    """The built program, if it has the command that replays."""
    binary = os.environ.get("TRAINWRIGHT_BINARY", "")
    if not os.access(binary, os.X_OK):
        return None
    return binary if subprocess.run([binary, "replay", "--help"], capture_output=True).returncode == 0 else None
