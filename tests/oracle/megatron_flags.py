"""A layout as Megatron-LM's command line, by the map in data/trainers.

`settings` names the option of each key; the `setting` of an offer (precision, optimizer, sharding, recompute, kind of
context parallelism, overlap, kernel) is written as it stands. In both, `a|b|c` are the words for our kinds or numbers in
their order, N is the number of layers, `...` the list of modules.
"""
import re

MODULES = {"core-attention": "core_attn", "norm": "layernorm", "mlp": "mlp", "mla-up-projection": "mla_up_proj", "moe": "moe",
           "moe-activation": "moe_act", "shared-experts": "shared_experts"}
OVERLAPS = {"overlap-tp": "tensor-parallel", "overlap-gradient-reduce": "gradient-reduce",
            "overlap-parameter-gather": "parameter-gather", "overlap-gather-with-step": "gather-with-step",
            "overlap-p2p": "point-to-point", "overlap-ep": "expert-all-to-all",
            "overlap-shared-experts": "shared-expert"}
DISPATCHERS = ["all-gather", "all-to-all", "flex"]


def chosen(setting, place):
    """Of `--option a|b|c` the word at that place."""
    return re.sub(r"\S+\|\S+", lambda found: found[0].split("|")[place], setting)


def recompute_flags(layout, trainer):
    kind, _, what = layout.get("recompute", "none").partition(":")
    setting = trainer["recomputes"][kind].get("setting", "")
    if kind == "modules":
        return setting.replace("...", " ".join(MODULES[module] for module in what.split("+")))
    return setting.replace(" N", f" {what or 1}")


def switch_flags(layout, trainer):
    flags = []
    for name in layout.get("on", []):
        if name in OVERLAPS:
            flags.append(trainer["overlaps"][OVERLAPS[name]]["setting"])
        elif name == "grouped-gemm":
            flags.append(trainer["kernels"][name]["setting"])
        else:
            flags.append(trainer["settings"][name.replace("-", "_")])
    flags += ["--no-overlap-p2p-communication"] * ("overlap-p2p" in layout.get("off", []))
    return " ".join(flags)


def stage_string(layout, mtp_layers):
    """Megatron's letters for what each stage holds: E embedding, t layer, m prediction layer, L loss."""
    stages = ["t" * count for count in layout["layers"]]
    stages[0] = "E" + stages[0]
    stages[layout.get("mtp_stage", len(stages) - 1)] += "m" * mtp_layers
    stages[-1] += "L"
    return "|".join(stages)


def flags_of(layout, trainer, mtp_layers=0):
    settings = trainer["settings"]
    words = [trainer["precisions"][layout.get("precision", "bf16")].get("setting", "")]
    optimizer = trainer["optimizers"][layout.get("optimizer", "adamw")]["setting"]
    words.append(chosen(optimizer, min(layout.get("zero", 0), 1)))
    # An optimizer that has a word of its own for ZeRO is not told of it twice.
    if not ("|" in optimizer and layout.get("zero", 0) > 0):
        words.append(chosen(trainer["shardings"][layout["sharding"]].get("setting", ""), layout.get("zero", 0)))
    words += [recompute_flags(layout, trainer), switch_flags(layout, trainer)]
    for key in ("tp", "pp", "cp", "ep", "etp", "mbs", "gbs", "seq", "micro_batch_group"):
        if key in layout:
            words.append(f"{settings[key]} {layout[key]}")
    if layout.get("vpp", 1) > 1 and "layers" not in layout:
        words.append(f"{settings['vpp']} {layout['vpp']}")
    if layout.get("dp_replicate", 1) > 1:
        words.append(f"{settings['dp_replicate']} {layout['dp_replicate']}")
    words += [settings[key] for key in ("sp", "count_embedding", "count_loss") if layout.get(key)]
    for key, ours in (("first_stage_layers", "first_layers"), ("last_stage_layers", "last_layers")):
        if ours in layout:
            words.append(f"{settings[key]} {layout[ours]}")
    if "layers" in layout:
        words.append(f"{settings['split']} {stage_string(layout, mtp_layers)}")
    if layout.get("cp", 1) > 1:
        words.append(trainer["cp_kinds"][layout.get("cp_kind", "ring")]["setting"])
        if "cp_ulysses" in layout:
            words.append(f"{settings['cp_ulysses']} {layout['cp_ulysses']} {layout['cp'] // layout['cp_ulysses']}")
    words.append(chosen(settings["dispatcher"], DISPATCHERS.index(layout.get("dispatcher", "all-to-all"))))
    if "optimizer" in layout.get("offload", []):
        words.append(trainer["offloads"]["optimizer"]["setting"])
    return " ".join(words).split()


def layout_text(layout):
    """As `trainwright show layout` reads it; the optimizer is the job's."""
    parts = []
    for key, value in layout.items():
        if key == "optimizer":
            continue
        if isinstance(value, list):
            value = ("/" if key == "layers" else "+").join(map(str, value))
        parts.append(key if value is True else f"{key}={value}")
    return ",".join(parts)
