"""Matmul FLOPs of the forward and backward pass equal what PyTorch counts.

The models are small and run with eager attention, which computes all s x s scores whatever the mask,
and with experts_implementation="batched_mm", which sends every token to its experts and no others.
They run on real tensors, which are faster than fake ones. Some families do other work than the model needs; `OTHER_WORK`
states how much and why, and the count must be exact with it.
"""
import json

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
from torch.utils.flop_counter import FlopCounterMode

from model_configs import EXPLICIT, FAMILIES, variations
from program import show_models

SEQUENCE = 64
BATCH = 2
PER_FAMILY = 2
transformers.logging.set_verbosity_error()


def runnable(family, config):
    """The variation, changed where transformers could build it but not run it."""
    for name in ("max_position_embeddings", "n_positions", "max_seq_len"):
        if name in config:
            config[name] = 128
    if "layer_types" in config and "use_sliding_window" in config:
        config |= {"sliding_window": 8, "use_sliding_window": True}
    if family == "dbrx":
        config["attn_config"]["clip_qkv"] = 8.0  # the class cannot clamp without bounds
    return config


def measured(family, config):
    hf_config = transformers.AutoConfig.for_model(family, **config)
    hf_config._experts_implementation = "batched_mm"
    model = transformers.AutoModelForCausalLM.from_config(hf_config, attn_implementation="eager")
    model.eval()  # OPT draws random numbers per layer in training mode
    ids = torch.zeros(BATCH, SEQUENCE, dtype=torch.long)
    with FlopCounterMode(display=False) as forward:
        logits = model(input_ids=ids, use_cache=False).logits
    with FlopCounterMode(display=False) as backward:
        logits.sum().backward()
    return forward.get_total_flops(), backward.get_total_flops()


def layers_of(report):
    kinds = report["model"]["kinds"]
    return [kinds[index] for index in report["model"]["layers"]]


def llama4_work(report):
    """All experts are computed for all tokens, the scores of those not chosen being zero."""
    forward = 0
    for layer in layers_of(report):
        moe = layer["feed_forward"]
        if moe["kind"] == "experts":
            idle = moe["experts"] - moe["experts_per_token"]
            forward += 2 * 3 * report["model"]["hidden"] * moe["expert"]["width"] * idle
    forward *= SEQUENCE * BATCH
    return forward, 2 * forward


def lightning_work(report):
    """Within a block the scores are computed like full attention. The state before the first block
    is a constant, so no gradient flows to it, and the state after the last block is never read."""
    forward = backward = 0
    for layer in layers_of(report):
        a = layer["attention"]
        if a["kind"] == "lightning":
            blocks = [min(a["block"], SEQUENCE - start) for start in range(0, SEQUENCE, a["block"])]
            scores = sum(4 * block**2 * a["head_dim"] for block in blocks)
            unused = 2 * a["head_dim"] ** 2 * (blocks[0] + 2 * blocks[-1])
            forward += BATCH * a["heads"] * scores
            backward += BATCH * a["heads"] * (2 * scores - unused)
    return forward, backward


CHUNK = 64  # torch_chunk_gated_delta_rule


def deltanet_work(report):
    """Chunks of 64 add scores within the chunk; the gradients of the two triangular solves add two
    products; the first and last state are as above. The convolution runs over its padding too, and
    FlopCounterMode takes the weight gradient of a depthwise convolution for a dense one."""
    forward = backward = 0
    for layer in layers_of(report):
        a = layer["attention"]
        if a["kind"] == "gated_deltanet":
            assert SEQUENCE % CHUNK == 0
            chunks = SEQUENCE // CHUNK
            key, value = a["key_dim"], a["value_dim"]
            scores = chunks * CHUNK**2 * (4 * key + 2 * value)
            solves = chunks * 2 * CHUNK**2 * (key + value)
            unused = 2 * CHUNK * key * value * 4
            forward += BATCH * a["value_heads"] * scores
            backward += BATCH * a["value_heads"] * (2 * scores + solves - unused)
            channels = 2 * a["key_heads"] * key + a["value_heads"] * value
            taps = a["convolution"]
            needed = 2 * taps * channels * SEQUENCE * BATCH
            done = 2 * taps * channels * (SEQUENCE + taps - 1) * BATCH
            forward += done - needed
            backward += done + done * channels - 2 * needed
    return forward, backward


def mamba_work(report):
    """The scan runs over its padding, with keys and queries repeated for every head of a group, and
    passes states from chunk to chunk by a product with all of them; the convolution is as above."""
    forward = backward = 0
    for layer in layers_of(report):
        for a in (layer["attention"], layer.get("beside_attention")):
            if a is None or a["kind"] != "mamba2":
                continue
            chunk, heads, state = a["chunk"], a["heads"], a["state"]
            width = heads * a["head_dim"]
            chunks = -(-SEQUENCE // chunk)
            full, rest = divmod(SEQUENCE, chunk)
            squares = full * chunk**2 + rest**2
            needed = 2 * squares * (a["groups"] * state + width) + 4 * SEQUENCE * width * state
            passed = 2 * (chunks + 1) ** 2 * width * state
            done = (2 * chunks * chunk**2 * (heads * state + width)
                    + 4 * chunks * chunk * width * state + passed)
            forward += BATCH * (done - needed)
            backward += BATCH * 2 * (done - needed)
            channels = width + 2 * a["groups"] * state
            taps = a["convolution"]
            needed = 2 * taps * channels * SEQUENCE * BATCH
            done = 2 * taps * channels * (SEQUENCE + taps - 1) * BATCH
            forward += done - needed
            backward += done + done * channels - 2 * needed
    return forward, backward


OTHER_WORK = {"llama4_text": llama4_work, "minimax": lightning_work, "qwen3_next": deltanet_work,
              "qwen3_5_text": deltanet_work, "qwen3_5_moe_text": deltanet_work,
              "bamba": mamba_work, "falcon_h1": mamba_work, "nemotron_h": mamba_work}


# Of the families whose variations are small sizes of their class, those without other work: an indexer runs without gradients.
EXACT = ["afmoe", "apertus", "aria_text", "bitnet", "cohere2_moe", "deepseek_v32", "deepseek_v4", "exaone_moe", "flex_olmo", "glm_moe_dsa",
         "minimax_m3_vl_text"]


def test_sparse_attention_and_hyper_connections_are_exact_forward_and_backward(tmp_path):
    cases = []
    for family in EXACT:
        config = runnable(family, variations(family, 1, seed=7)[0])
        path = tmp_path / f"{family}.json"
        path.write_text(json.dumps(config | {"model_type": family}))
        cases.append((path, measured(family, config)))
    for (path, real), report in zip(cases, show_models([path for path, _ in cases], "--seq", str(SEQUENCE))):
        flops = report["flops_per_token"]["full"]
        assert real == (flops["forward"] * SEQUENCE * BATCH, flops["backward"] * SEQUENCE * BATCH), path.name


def test_forward_and_backward(tmp_path):
    cases = []
    for family in FAMILIES:
        for index, config in enumerate(variations(family, PER_FAMILY, seed=7)):
            config = runnable(family, config)
            path = tmp_path / f"{family}-{index}.json"
            path.write_text(json.dumps(config | {"model_type": family}))
            cases.append((family, path, measured(family, config)))
    reports = show_models([path for _, path, _ in cases], "--seq", str(SEQUENCE))
    mismatches = []
    exact = set()
    for (family, path, (forward, backward)), report in zip(cases, reports):
        flops = report["flops_per_token"]["full"]
        needed = (flops["forward"] - flops["mtp"]) * SEQUENCE * BATCH
        more_forward, more_backward = OTHER_WORK.get(family, lambda _: (0, 0))(report)
        if forward != needed + more_forward:
            mismatches.append(f"{path.name}: forward {needed} + {more_forward}, not {forward}")
        if backward != 2 * needed + more_backward:
            mismatches.append(f"{path.name}: backward {2 * needed} + {more_backward}, not {backward}")
        if more_forward == 0:
            exact.add(family)
    print(f"{len(cases)} configs of {len(FAMILIES)} families, {len(exact)} without other work, "
          f"{len(mismatches)} mismatches")
    assert not mismatches, "\n".join(mismatches)
    assert len(exact) >= 20
