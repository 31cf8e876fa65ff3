"""Parameter counts equal those of the models that transformers builds on the meta device."""
import collections
import json
import re

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from model_configs import EXPLICIT, FAMILIES, SMALL, variations
from program import show_models

VARIATIONS = 30
transformers.logging.set_verbosity_error()


def build(family, config):
    """The config as a user would have saved it, and the model, without memory for its weights."""
    hf_config = transformers.AutoConfig.for_model(family, **config)
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(hf_config)
    return hf_config, model


def part_of(name):
    """The part a parameter belongs to, as far as module names tell, or None."""
    if re.search(r"(embed_tokens|embed_positions|wte|wpe|embed_in|word_embeddings|project_in|model\.embeddings)\.", name):
        return "embedding"
    if re.search(r"(lm_head|embed_out|project_out)\.", name):
        return "head"
    if re.search(r"\.(self_attn|attn|attention|self_attention|linear_attn|mamba)\.", name):
        return "attention"
    if re.search(r"\.(mlp|shared_mlp|ffn|feed_forward|block_sparse_moe|fc1|fc2)\.", name):
        return "feed_forward"
    return "norm"


def counted(model):
    parts = collections.Counter()
    for name, parameter in model.named_parameters():
        parts[part_of(name) if ".mixer." not in name else part_of_mixer(model, name)] += (
            parameter.numel())
    return parts


def part_of_mixer(model, name):
    """Layers that are one branch each call it the mixer, whatever it is."""
    layer = int(re.search(r"layers\.(\d+)\.", name).group(1))
    kind = model.config.layer_types[layer]
    return "attention" if kind.endswith("attention") else "feed_forward"


def ours(report):
    parts = report["parameters"]["parts"]
    return {
        "embedding": parts["embedding"],
        "head": parts["head"],
        "attention": parts["attention"],
        "feed_forward": parts["feed_forward"] + parts["routed_experts"]
        + parts["shared_experts"] + parts["router"],
        "norm": parts["norm"],
    }


def configs_of(family):
    yield EXPLICIT.get(family, {})
    yield from variations(family, VARIATIONS)


def saved(hf_config, config, family, tmp_path, index):
    """Every other variation is saved sparsely, as hand-written configs are."""
    path = tmp_path / f"{family}-{index:02}.json"
    text = json.dumps(config | {"model_type": family}) if index % 2 else hf_config.to_json_string(
        use_diff=False)
    path.write_text(text)
    return path


def test_further_families_have_the_parameters_of_their_classes(tmp_path):
    """By totals: their modules have names of their own. The class's sizes, and small ones, which some classes refuse."""
    cases, refused = [], []
    for family in SMALL:
        for index, config in enumerate([EXPLICIT.get(family, {}), *variations(family, 4)]):
            try:
                hf_config, model = build(family, config)
            except Exception as fault:  # sizes that do not go together in that class
                refused.append(f"{family}: {fault}")
                continue
            path = saved(hf_config, config, family, tmp_path, 2 * index)
            cases.append((path, sum(p.numel() for p in model.parameters())))
    reports = show_models([path for path, _ in cases])
    mismatches = [f"{path.name}: total {report['parameters']['total']}, not {total}"
                  for (path, total), report in zip(cases, reports) if report["parameters"]["total"] != total]
    print(f"{len(cases)} configs of {len(SMALL)} families, {len(refused)} refused by their class, {len(mismatches)} mismatches")
    assert not mismatches, "\n".join(mismatches[:40])
    assert len(cases) >= 3 * len(SMALL)


def test_every_family_and_its_variations(tmp_path):
    cases = []
    for family in FAMILIES:
        for index, config in enumerate(configs_of(family)):
            hf_config, model = build(family, config)
            path = saved(hf_config, config, family, tmp_path, index)
            cases.append((path, sum(p.numel() for p in model.parameters()), counted(model)))
    reports = show_models([path for path, _, _ in cases])
    mismatches = []
    for (path, total, parts), report in zip(cases, reports):
        mine = ours(report)
        if report["parameters"]["total"] != total:
            mismatches.append(f"{path.name}: total {report['parameters']['total']}, not {total}")
        for part, count in mine.items():
            if count != parts[part]:
                mismatches.append(f"{path.name}: {part} {count}, not {parts[part]}")
    print(f"{len(cases)} configs of {len(FAMILIES)} families, {len(mismatches)} mismatches")
    assert not mismatches, "\n".join(mismatches[:40])
    assert len(cases) >= 1000
