"""What random layouts of each trainer are made of."""
from layouts import BATCH, DEGREES, Space

SOME = {"tp": 1.0, "pp": 1.0, "seq": 1.0, "mbs": 1.0, "gbs": 1.0}
PIPELINE = {"vpp": 0.3, "layers": 0.08}


def with_states(layout):
    """A sharding has a stage, a list of layers replaces vpp."""
    layout = {key: value for key, value in layout.items() if value not in ("ddp", "zero") or key != "sharding"}
    if layout.get("sharding"):
        layout["zero"] = 3
    else:
        layout["sharding"] = "zero" if layout.get("zero", 0) else "ddp"
    if "layers" in layout:
        layout.pop("vpp", None)
    return layout


def megatron(version):
    values = DEGREES | BATCH | {
        "zero": [0, 1, 1],
        "recompute": ["none", "selective", "full", "full:2", "block:2", "modules:norm", "modules:mlp", "modules:moe",
                      "modules:moe-activation", "modules:core-attention+shared-experts", "modules:mla-up-projection+norm",
                      "modules:norm+moe-activation"],
        "precision": ["bf16", "bf16", "fp16", "fp32", "fp8-delayed", "fp8-tensorwise", "fp8-blockwise", "mxfp8", "nvfp4"],
        "gradients": ["bf16", "fp32"],
        "sharding": [None, None, "fsdp", "megatron-fsdp"],
        "optimizer": ["adamw", "adamw", "sgd", "muon", "adamw-precision-aware"],
        "offload": [None, None, ["optimizer"]], "dispatcher": ["all-to-all", "all-to-all", "all-gather", "flex"],
        "cp_kind": ["ring", "all-gather", "ulysses"], "max_connections": [None, 1, 8],
        "on": [None, ["overlap-gradient-reduce"], ["overlap-gradient-reduce", "overlap-parameter-gather"], ["overlap-tp"],
               ["overlap-ep"], ["overlap-shared-experts"], ["overlap-ep", "delay-weight-gradient"], ["grouped-gemm"],
               ["overlap-ep", "grouped-gemm"], ["fp8-parameter-gather"], ["distribute-saved"], ["overlap-parameter-gather"],
               ["delay-weight-gradient"], ["overlap-gradient-reduce", "overlap-parameter-gather", "overlap-gather-with-step"]],
        "off": [None, ["overlap-p2p"]], "count_embedding": [None, True], "count_loss": [None, True]}
    chances = SOME | PIPELINE | {
        "zero": 1.0, "ep": 1.0, "etp": 0.4, "cp": 0.3, "sp": 0.6, "recompute": 0.4, "precision": 0.25, "gradients": 0.15, "sharding": 0.15,
        "optimizer": 0.2, "offload": 0.1, "dispatcher": 0.2, "cp_kind": 0.2, "max_connections": 0.15, "on": 0.4, "off": 0.1,
        "first_layers": 0.1, "last_layers": 0.1, "count_embedding": 0.08, "count_loss": 0.08, "micro_batch_group": 0.1}
    return Space(f"megatron-core@{version}", values, chances, settle=with_states)


def for_schedule(layout):
    """A schedule of several stages a rank has two of them; HSDP has copies."""
    looped = layout.get("schedule") in ("interleaved-1f1b", "looped-bfs", "interleaved-zb", "zb-v", "dualpipe-v")
    if looped and "layers" not in layout and layout.get("vpp", 1) == 1:
        layout["vpp"] = 2
    if "layers" in layout:
        layout.pop("vpp", None)
        layout.pop("schedule", None)
    if layout.get("sharding") in ("fsdp", "hsdp"):
        layout.setdefault("zero", 3)
    else:
        layout.pop("zero", None)
    return layout


SCHEDULES = [None, None, "1f1b", "gpipe", "interleaved-1f1b", "looped-bfs", "interleaved-zb", "zb-v", "dualpipe-v"]
SHARDED = {"sharding": ["fsdp", "fsdp", "fsdp", "hsdp", "ddp"], "dp_replicate": [None, 2, 2, 4], "zero": [None, 2, 3]}


def torchtitan(version):
    old = version.startswith("0.2")
    values = DEGREES | BATCH | SHARDED | {
        "sp": [True] * (9 if old else 2) + [None], "schedule": SCHEDULES, "etp": [1, 1, 1, 2],
        "recompute": ["none", "full", "op-selective"] + ["every-nth:2"] * old,
        "precision": ["bf16", "bf16", "fp32"] + ["fp8-tensorwise", "fp8-rowwise", "mxfp8"] * old,
        "cp_kind": ["all-gather"] + ["ring"] * old, "offload": [None, None, ["optimizer", "parameters"]],
        "on": [None, ["compile"], ["compile", "overlap-tp"], ["overlap-tp"]]}
    chances = SOME | PIPELINE | {
        "cp": 0.3, "sp": 0.8, "ep": 0.8, "etp": 1.0, "sharding": 1.0, "dp_replicate": 0.25, "zero": 0.2, "recompute": 0.6,
        "precision": 0.3, "cp_kind": 1.0, "offload": 0.1, "on": 0.25, "schedule": 0.5}
    models = ("llama-3.1-8b", "deepseek-v3") if old else ("llama-3.1-8b", "qwen3-30b-a3b", "deepseek-v2-lite", "deepseek-v3")
    return Space(f"torchtitan@{version}", values, chances, models=models, settle=for_schedule)


def deepspeed(version):
    values = DEGREES | BATCH | {
        "tp": [1, 1, 1, 2, 4, 3], "pp": [1, 1, 1, 2, 4, 3], "cp": [1, 1, 2, 4, 3], "zero": [0, 1, 2, 3, 3],
        "recompute": ["none", "full", "full:2"], "precision": ["bf16", "bf16", "fp16", "fp32"], "cp_kind": ["ulysses"],
        "optimizer": ["adamw", "adamw", "sgd", "muon"], "gradients": ["bf16", "fp32"],
        "offload": [None, ["optimizer"], ["parameters"], ["optimizer", "parameters"]]}
    chances = SOME | {"zero": 1.0, "cp": 0.3, "cp_kind": 1.0, "recompute": 0.5, "precision": 0.4, "optimizer": 0.2, "gradients": 0.2,
                      "offload": 0.3}
    models = ("llama-3.1-8b", "llama-3.2-1b", "qwen2.5-7b")
    return Space(f"deepspeed@{version}", values, chances, models=models, settle=with_states)


def automodel(version):
    values = DEGREES | BATCH | SHARDED | {
        "sharding": ["fsdp", "fsdp", "fsdp", "hsdp", "ddp", "megatron-fsdp"], "schedule": SCHEDULES, "etp": [1],
        "recompute": ["none", "full", "op-selective"], "precision": ["bf16", "bf16", "fp32"], "cp_kind": ["all-gather", "ring"],
        "optimizer": ["adamw", "adamw-fused", "sgd", "adafactor"], "on": [None, ["compile"], ["overlap-tp"]]}
    chances = SOME | PIPELINE | {
        "cp": 0.3, "sp": 0.5, "ep": 0.8, "etp": 1.0, "sharding": 1.0, "dp_replicate": 0.25, "zero": 0.2, "recompute": 0.5,
        "precision": 0.3, "cp_kind": 0.5, "optimizer": 0.3, "on": 0.2, "schedule": 0.5}
    return Space(f"nemo-automodel@{version}", values, chances, settle=for_schedule)


def accelerate(version):
    values = DEGREES | BATCH | SHARDED | {
        "tp": [1, 1, 2, 4, 3], "pp": [1] * 6 + [2], "recompute": ["none", "full"], "precision": ["bf16", "bf16", "fp16", "fp32"],
        "cp_kind": ["ring", "all-gather"], "optimizer": ["adamw", "adamw-fused", "adamw-8bit", "adafactor"],
        "offload": [None, None, ["optimizer", "parameters"]], "on": [None, ["compile"]]}
    chances = SOME | {"cp": 0.3, "sharding": 1.0, "dp_replicate": 0.35, "zero": 0.2, "recompute": 0.5, "precision": 0.4,
                      "cp_kind": 0.5, "optimizer": 0.3, "offload": 0.1, "on": 0.1}
    models = ("llama-3.1-8b", "llama-3.2-1b", "qwen2.5-7b", "mixtral-8x7b")
    return Space(f"accelerate@{version}", values, chances, models=models, settle=for_schedule)
