"""What the operator list of the plain-PyTorch trainer says a layer keeps for backward is what real layers of
transformers keep, storage by storage, 0 bytes of difference.

Three things of this host are translated into what an accelerator does, each in one place:
* dropout keeps a bool mask (`kept_storages.dropout_as_on_a_gpu`); a CPU keeps noise of the input's dtype;
* the two statistics of torch.nn.LayerNorm are fp32 (`as_on_a_gpu`); on a CPU they have the input's dtype;
* states of the random generator that a checkpoint saves, 5,056 bytes on a CPU and 16 for a GPU, are host memory.
"""
import dataclasses

import pytest
import torch

from kept_storages import Kept, Layer, kept_by_embedding, kept_by_head, kept_by_layer
from work_lists import lists, one_list, request

BF16, FP32 = torch.bfloat16, torch.float32
_SMALL = {"vocab_size": 96, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
          "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 64}
_WIDE = _SMALL | {"hidden_size": 48, "intermediate_size": 80, "num_attention_heads": 6, "num_key_value_heads": 6, "head_dim": 16}
_ONE_KEY = _SMALL | {"num_key_value_heads": 1, "intermediate_size": 56}
_NEOX = {"vocab_size": 96, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
         "max_position_embeddings": 64}
_GPT2 = {"vocab_size": 96, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "bos_token_id": 0, "eos_token_id": 0}
_LATENT = {"vocab_size": 96, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
           "num_key_value_heads": 4, "moe_intermediate_size": 16, "n_routed_experts": 4, "num_experts_per_tok": 2,
           "n_shared_experts": 1, "n_group": 2, "topk_group": 1, "first_k_dense_replace": 1, "kv_lora_rank": 8,
           "q_lora_rank": 12, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8, "v_head_dim": 8, "max_position_embeddings": 64,
           "experts_implementation": "grouped_mm"}
_EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2, "experts_implementation": "grouped_mm"}


def _layers(kind: str, *shapes) -> list[Layer]:
    return [Layer({"model_type": kind, **sizes}, index, batch, sequence, dtype) for sizes, index, batch, sequence, dtype in shapes]


FAMILIES = {
    "llama": _layers("llama", (_SMALL, 0, 2, 16, BF16), (_WIDE, 1, 1, 24, FP32), (_ONE_KEY, 0, 1, 8, BF16)),
    "qwen3": _layers("qwen3", (_SMALL, 0, 2, 16, BF16), (_WIDE, 1, 1, 24, FP32), (_ONE_KEY, 0, 3, 8, BF16)),
    "gpt2": _layers("gpt2", (_GPT2, 0, 2, 16, BF16), (_GPT2 | {"n_embd": 48, "n_inner": 100}, 1, 1, 24, FP32),
                    (_GPT2 | {"attn_pdrop": 0.0, "resid_pdrop": 0.0, "embd_pdrop": 0.0}, 0, 1, 8, BF16)),
    "gpt_neox": _layers("gpt_neox", (_NEOX, 0, 2, 16, BF16), (_NEOX | {"hidden_size": 64}, 1, 1, 24, FP32),
                        (_NEOX | {"use_parallel_residual": False}, 0, 1, 8, BF16)),
    "gemma2": _layers("gemma2", (_SMALL, 0, 2, 16, BF16), (_WIDE, 1, 1, 24, FP32), (_ONE_KEY, 0, 1, 8, BF16)),
    "deepseek_v3 dense": _layers("deepseek_v3", (_LATENT, 0, 2, 16, BF16), (_LATENT | {"q_lora_rank": None}, 0, 1, 24, FP32),
                                 (_LATENT | {"v_head_dim": 12}, 0, 1, 8, BF16)),
    "deepseek_v3 experts": _layers("deepseek_v3", (_LATENT, 1, 2, 16, BF16), (_LATENT | {"n_shared_experts": 2}, 1, 1, 24, BF16),
                                   (_LATENT | {"v_head_dim": 12, "num_experts_per_tok": 1}, 1, 1, 8, BF16)),
    "mixtral": _layers("mixtral", (_SMALL | _EXPERTS, 0, 2, 16, BF16), (_WIDE | _EXPERTS, 1, 1, 24, BF16),
                       (_ONE_KEY | _EXPERTS | {"num_experts_per_tok": 3}, 0, 3, 8, BF16)),
}
# Families beyond those: sizes where they have other names.
MORE = {"bloom": {"vocab_size": 96, "n_layer": 1, "n_head": 4, "hidden_size": 32},
        "phi3": _SMALL | {"num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 32}}
OTHERS = ("mistral", "qwen2", "gemma", "gemma3_text", "phi3", "bloom", "starcoder2", "granite", "olmo2", "olmo3", "arcee", "nemotron", "seed_oss",
          "smollm3")
# Parts that came in 2025 and 2026, each in layers that have it: sparse attention by an indexer, hyper-connections and compressed
# attention, xIELU, sinks, norms by a power, values that are keys, gates, routers of every sort, short convolutions.
_ROUTED = _SMALL | {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "pad_token_id": 0, "experts_implementation": "grouped_mm"}
_LOCAL = _SMALL | _EXPERTS | {"pad_token_id": 0}
_SPARSE = _LATENT | {"index_n_heads": 2, "index_head_dim": 8, "index_topk": 4}
_GEMMA4 = _SMALL | {"pad_token_id": 0, "global_head_dim": 16, "hidden_size_per_layer_input": 0, "sliding_window": 8, "num_kv_shared_layers": 0,
                    "layer_types": ["sliding_attention", "full_attention"]}
_STREAMS = {"vocab_size": 96, "hidden_size": 32, "moe_intermediate_size": 16, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 1,
            "head_dim": 16, "q_lora_rank": 12, "o_groups": 2, "o_lora_rank": 8, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1,
            "hc_mult": 4, "sliding_window": 8, "index_n_heads": 2, "index_head_dim": 8, "index_topk": 2, "max_position_embeddings": 64,
            "layer_types": ["sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"],
            "mlp_layer_types": ["moe"] * 3, "experts_implementation": "grouped_mm",
            "compress_rates": {"compressed_sparse_attention": 4, "heavily_compressed_attention": 8}}
NEW = {
    "deepseek_v32": (_SPARSE, 0, 1), "glm_moe_dsa": (_SPARSE | {"qk_nope_head_dim": 4, "v_head_dim": 8, "indexer_types": ["full", "shared"]}, 0, 1),
    "deepseek_v4": (_STREAMS, 0, 1, 2),
    "apertus": (_SMALL | {"pad_token_id": 0}, 0), "afmoe": (_ROUTED | {"num_dense_layers": 1, "num_shared_experts": 1}, 0, 1),
    "gemma4_text": (_GEMMA4, 0, 1), "cohere": (_SMALL | {"pad_token_id": 0}, 0),
    "gpt_oss": (_LOCAL | {"layer_types": ["full_attention", "sliding_attention"], "sliding_window": 8}, 0, 1),
    "hy_v3": (_ROUTED | {"num_shared_experts": 1}, 1), "exaone_moe": (_ROUTED | {"num_shared_experts": 1, "n_group": 1, "topk_group": 1}, 1),
    "qwen3_moe": (_ROUTED, 0), "qwen2_moe": (_ROUTED | {"shared_expert_intermediate_size": 16}, 0), "olmoe": (_LOCAL | {"num_experts": 4}, 0),
    "flex_olmo": (_LOCAL | {"num_experts": 4}, 0), "granitemoe": (_LOCAL, 0), "aria_text": (_SMALL | {"pad_token_id": 0, "moe_num_experts": 4, "moe_topk": 2,
    "moe_num_shared_experts": 1, "experts_implementation": "grouped_mm"}, 0), "minimax_m2": (_LOCAL, 0), "ministral": (_SMALL, 0), "exaone4": (_SMALL | {"pad_token_id": 0}, 0),
    "lfm2": (_SMALL | {"layer_types": ["conv", "full_attention"], "block_auto_adjust_ff_dim": False}, 0, 1),
    "lfm2_moe": (_ROUTED | {"layer_types": ["conv", "full_attention"], "num_dense_layers": 1}, 0, 1),
}
# Whose classes have no sdpa: sinks, and rows without a place of their own.
ONLY_EAGER = {"deepseek_v4", "gpt_oss"}
# Attention of the family that PyTorch's kernel cannot do: soft-capped scores.
WITHOUT_SDPA = {"gemma2"}
RECOMPUTES = ("none", "full", "selective")
# Which op makes what the list names so. "input": the layer's own.
_PRODUCT = {"mm", "addmm"}
_FUSED = {"_scaled_dot_product_flash_attention_for_cpu"}
MAKERS = {
    "activated": {"mul", "gelu"}, "attention_out": _PRODUCT, "attended": {"clone"} | _FUSED, "dropout_mask": {"native_dropout"},
    "expert_down": {"_grouped_mm"}, "expert_gate_up": {"_grouped_mm"}, "expert_input": {"index"}, "experts_chosen": {"topk"},
    "feed_forward_out": _PRODUCT, "gate": _PRODUCT, "gate_activated": {"silu", "gelu"}, "half": {"mul"},
    "hidden": {"input", "add"}, "inverse_rms": {"rsqrt"}, "key": {"mm"}, "key_joined": {"cat"}, "key_matrices": {"clone"},
    "key_rotated": {"add", "new_empty"}, "key_scaled": {"mul", "clone"}, "key_value": _PRODUCT, "kv_latent": _PRODUCT,
    "log_sum_exp": _FUSED, "window_mask": {"where"}, "norm_input": {"_to_copy"}, "norm_inverse": {"native_layer_norm"},
    "norm_mean": {"native_layer_norm"}, "normalized": {"_to_copy", "mul"}, "normed": {"mul", "native_layer_norm", "_to_copy"},
    "offsets": {"cumsum"}, "one_plus_gain": {"add"}, "one_plus_tanh": {"add"}, "order": {"sort"}, "order_restored": {"empty_like"},
    "probabilities": {"_softmax", "_safe_softmax"}, "probabilities_cast": {"_to_copy"},
    "probabilities_dropped": {"native_dropout", "mul"}, "attention_mask": {"native_dropout"},
    "probabilities_noise": {"empty_like"}, "query": _PRODUCT, "query_joined": {"cat"}, "query_key_value": _PRODUCT,
    "query_latent": _PRODUCT, "query_matrices": {"clone"}, "query_rotated": {"add", "cat"}, "query_scaled": {"mul", "clone"},
    "router_input": {"_to_copy"}, "router_scores": {"sigmoid", "_softmax"}, "router_weight": {"_to_copy"},
    "scores_chosen": {"clone"}, "scores_sorted": {"index"}, "scores_sum": {"add", "sum"}, "scores_tanh": {"tanh"},
    "shared_gate": _PRODUCT, "shared_up": _PRODUCT, "tanh": {"tanh"}, "token_of_pair": {"floor_divide"}, "up": _PRODUCT,
    "value": _PRODUCT, "value_matrices": {"clone", "_to_copy"},
}


def cases(family: str) -> list[Layer]:
    kernels = ("eager",) if family in WITHOUT_SDPA else ("eager", "sdpa")
    return [dataclasses.replace(spec, attention=attention, recompute=recompute)
            for spec in FAMILIES[family] for attention in kernels for recompute in RECOMPUTES]


def as_on_a_gpu(kept: list[Kept], rows: int = 0, taps: int = 0) -> list[Kept]:
    """The statistics of layer norms, the second and third result of the op, in fp32; short convolutions as the kernel of causal_conv1d gives
    them: PyTorch's own has taps - 1 rows more of each sequence of so many rows."""
    def converted(one: Kept) -> Kept:
        if taps and one.made_by == "aten.convolution.default":
            return dataclasses.replace(one, size=one.size // (rows + taps - 1) * rows)
        statistic = one.made_by == "aten.native_layer_norm.default" and one.result > 0
        return dataclasses.replace(one, dtype="fp32", size=one.size * 2) if statistic and one.dtype == "bf16" else one
    return [converted(one) for one in kept]


def differences(listed: list[dict], real: list[Kept], named: bool = False) -> list[str]:
    """Kinds of storages that one side has more often than the other, or, of those named, ops that make no such thing."""
    kinds = {(one["bytes"], one["dtype"]) for one in listed} | {one.kind for one in real}
    faults = []
    for kind in sorted(kinds):
        names = [one["name"] for one in listed if (one["bytes"], one["dtype"]) == kind]
        makers = [one.made_by.split(".")[-2] if "." in one.made_by else one.made_by for one in real if one.kind == kind]
        if len(names) != len(makers) or named and not can_be_paired(names, makers):
            faults.append(f"{kind}: list {names}, real {makers}")
    return faults


def can_be_paired(names: list[str], makers: list[str]) -> bool:
    """Whether every name can have an op of its own that makes such a thing (augmenting paths)."""
    name_of: dict[int, int] = {}

    def place(name: int, seen: set[int]) -> bool:
        for maker in range(len(makers)):
            if makers[maker] in MAKERS[names[name]] and maker not in seen:
                seen.add(maker)
                if maker not in name_of or place(name_of[maker], seen):
                    name_of[maker] = name
                    return True
        return False

    return all(place(name, set()) for name in range(len(names)))


def faults_of(specs: list[Layer], named: bool = True) -> str:
    """Where the lists of these layers and the layers themselves differ, in words; empty if nowhere."""
    faults = []
    for spec, one in zip(specs, lists([request(spec) for spec in specs])):
        found = differences(one["kept"], as_on_a_gpu(kept_by_layer(spec)), named)
        if found:
            name = f"{spec.config['model_type']} {spec.attention} {spec.recompute} b={spec.batch} s={spec.sequence} {spec.dtype}"
            faults.append("\n    ".join([name, *found]))
    return "\n".join(faults)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_layer_keeps_what_the_list_says(family):
    faults = faults_of(cases(family))
    assert not faults, faults


def test_other_families_keep_what_the_list_says():
    specs = [Layer({"model_type": kind, "pad_token_id": 0, **MORE.get(kind, _SMALL)}, 0, batch, 8, BF16, attention)
             for kind in OTHERS for batch in (1, 2) for attention in ("eager", "sdpa") if (kind, attention) != ("bloom", "sdpa")]
    faults = faults_of(specs, named=False)
    assert not faults, faults


@pytest.mark.parametrize("family", NEW)
def test_new_parts_keep_what_the_list_says(family):
    config, *layers = NEW[family]
    specs = [Layer({"model_type": family, **config}, index, batch, 16, BF16, attention) for index in layers for batch in (1, 2)
             for attention in (("eager",) if family in ONLY_EAGER else ("eager", "sdpa"))]
    faults = []
    for spec, one in zip(specs, lists([request(spec) for spec in specs])):
        real = as_on_a_gpu(kept_by_layer(spec), spec.sequence, 3 if family.startswith("lfm2") else 0)
        if found := differences(one["kept"], real):
            faults.append("\n    ".join([f"{family} layer {spec.index} {spec.attention} b={spec.batch}", *found]))
    assert not faults, "\n".join(faults)


def test_under_autocast_products_keep_copies_of_inputs_and_weights():
    """torch.amp over fp32 weights, as accelerate runs DDP. Biases that its cache holds until forward has ended are left out."""
    plain = {"attn_pdrop": 0.0, "resid_pdrop": 0.0, "embd_pdrop": 0.0}
    specs = [dataclasses.replace(spec, dtype=FP32, autocast=True, attention=attention)
             for spec in [*FAMILIES["llama"], *FAMILIES["qwen3"], *_layers("qwen2", (_SMALL, 0, 2, 16, FP32)),
                          *_layers("gpt2", (_GPT2 | plain, 0, 2, 16, FP32))]
             for attention in ("eager", "sdpa")]
    for spec, one in zip(specs, lists([request(spec) for spec in specs])):
        real = [kept for kept in kept_by_layer(spec) if kept.savers]
        assert not differences(one["kept"], as_on_a_gpu(real)), (spec, differences(one["kept"], as_on_a_gpu(real)))
    head = dataclasses.replace(FAMILIES["llama"][0], dtype=FP32, autocast=True, attention="eager")
    assert not differences(one_list(request(head, "head"))["kept"], as_on_a_gpu(kept_by_head(head)))


def test_torchtitans_choice_of_operators_keeps_what_the_list_says():
    specs = [dataclasses.replace(spec, attention=attention, recompute="op-selective")
             for family in ("llama", "qwen3") for spec in FAMILIES[family] for attention in ("eager", "sdpa")]
    faults = faults_of(specs, named=False)
    assert not faults, faults


def test_a_window_shorter_than_the_sequence_keeps_its_mask_and_repeated_heads():
    sizes = _SMALL | {"sliding_window": 8}
    specs = [dataclasses.replace(spec, attention=attention) for attention in ("eager", "sdpa")
             for spec in _layers("mistral", (sizes, 0, 2, 16, BF16), (sizes, 0, 1, 8, FP32), (sizes, 0, 1, 7, BF16))]
    faults = faults_of(specs)
    assert not faults, faults


def test_soft_capped_scores_have_no_fused_kernel():
    with pytest.raises(ValueError, match="scaled_dot_product_attention"):
        kept_by_layer(dataclasses.replace(FAMILIES["gemma2"][0], attention="sdpa"))


@pytest.mark.parametrize("family", ["llama", "gpt2", "gpt_neox", "gemma2"])
@pytest.mark.parametrize("part, measured", [("head", kept_by_head), ("embedding", kept_by_embedding)])
def test_head_and_embedding_keep_what_the_list_says(family, part, measured):
    specs = FAMILIES[family]
    for spec, one in zip(specs, lists([request(dataclasses.replace(spec, attention="eager"), part) for spec in specs])):
        assert not differences(one["kept"], as_on_a_gpu(measured(dataclasses.replace(spec, attention="eager"))))
