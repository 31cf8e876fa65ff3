"""Configurations of every model family: the defaults of transformers and seeded variations."""
import random

from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

KNOWN = """llama llama4_text mistral mixtral qwen2 qwen2_moe qwen3 qwen3_moe qwen3_next gemma
gemma2 gemma3_text phi3 gpt2 gpt_neox gptj falcon bloom opt mpt starcoder2 cohere2 granite
granitemoe olmo2 olmo3 olmoe arcee ernie4_5 deepseek_v2 deepseek_v3 gpt_oss glm4 glm4_moe nemotron dbrx seed_oss
ernie4_5_moe minimax smollm3 phi phimoe stablelm glm bamba falcon_h1 nemotron_h codegen cohere cwm exaone4
glm4_moe_lite granitemoeshared hunyuan_v1_dense hyperclovax jais2 minimax_m2 ministral3 olmo qwen3_5_moe_text qwen3_5_text
solar_open vaultgemma internlm3 iquestcoder""".split()
# Those whose variations are the class's own sizes made small.
SHRUNK = """afmoe apertus aria_text axk1 bailing_hybrid bitnet cohere2_moe deepseek_v32 glm_moe_dsa deepseek_v4 dots1 exaone_moe
flex_olmo gemma4_text gemma4_unified_text gemma3n_text granite_swa granitemoe_swa granitemoehybrid helium hunyuan_v1_moe hy_v3 mamba
falcon_mamba mamba2 jamba kimi_linear laguna lfm2 lfm2_moe lfm3 mellum mimo_v2_flash minicpm3 youtu minimax_m3_vl_text ministral
nanochat olmo_hybrid persimmon doge gpt_bigcode gpt_neo gpt_neox_japanese openai-gpt xglm biogpt ctrl bert roberta camembert xlm-roberta
data2vec-text ernie megatron-bert roberta-prelayernorm xlm-roberta-xl bert-generation roformer xmod""".split()
FAMILIES = [family for family in KNOWN if family in CONFIG_MAPPING_NAMES]  # of the transformers that is installed
SMALL = [family for family in SHRUNK if family in CONFIG_MAPPING_NAMES]

# What the class default leaves out and the class cannot do without.
EXPLICIT = {
    "nemotron": {"num_key_value_heads": 8},
    "dbrx": {"attn_config": {"kv_n_heads": 4, "rope_theta": 10000.0}},
    "hunyuan_v1_dense": {"head_dim": 128},
    "hunyuan_v1_moe": {"head_dim": 128},
    "ministral": {"head_dim": 128},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"] * 16},
    "dots1": {"n_routed_experts": 128, "n_shared_experts": 2, "num_experts_per_tok": 6, "num_key_value_heads": 8},
}


def heads(r):
    """Query heads, key-value heads that divide them, and a head width."""
    kv = r.choice([1, 2, 3, 4])
    return kv * r.choice([1, 2, 4]), kv, r.choice([8, 16, 32])


def llama_like(r, kv_field="num_key_value_heads", head_dim=True):
    query, kv, width = heads(r)
    config = {
        "vocab_size": r.choice([97, 512, 1000]),
        "num_hidden_layers": r.randint(1, 7),
        "num_attention_heads": query,
        kv_field: kv,
        "hidden_size": query * width,
        "intermediate_size": r.choice([24, 40, 96, 130]),
        "tie_word_embeddings": r.random() < 0.5,
        "max_position_embeddings": r.choice([32, 64, 256]),
        "pad_token_id": 0,
    }
    if head_dim and r.random() < 0.5:
        config["head_dim"] = r.choice([8, 16, 24])
    return config


def flag(r, *names):
    return {name: r.random() < 0.5 for name in names}


def window(r, *, switch=False, layers=False):
    config = {"sliding_window": r.choice([None, 4, 16])}
    if switch:
        config["use_sliding_window"] = r.random() < 0.5
    if layers:
        config["max_window_layers"] = r.randint(0, 6)
    return config


def layer_types(r, config, kinds):
    """Half of the time an explicit list, which overrides the family's pattern."""
    if r.random() < 0.5:
        return {}
    return {"layer_types": [r.choice(kinds) for _ in range(config["num_hidden_layers"])]}


SLIDING = ["full_attention", "sliding_attention"]
LINEAR = ["full_attention", "linear_attention"]


def qwen_experts(r, config):
    experts = r.choice([2, 4, 6])
    listed = [i for i in range(config["num_hidden_layers"]) if r.random() < 0.2]
    return {
        "num_experts": experts,
        "num_experts_per_tok": r.randint(1, experts),
        "moe_intermediate_size": r.choice([8, 20, 36]),
        "decoder_sparse_step": r.choice([1, 1, 2, 3]),
        "mlp_only_layers": listed,
    }


def deepseek(r):
    experts = r.choice([4, 8, 12])
    config = llama_like(r, head_dim=False)
    config["num_key_value_heads"] = config["num_attention_heads"]
    return config | flag(r, "attention_bias") | {
        "q_lora_rank": r.choice([None, 12, 24]),
        "kv_lora_rank": r.choice([8, 20]),
        "qk_rope_head_dim": r.choice([4, 8]),
        "qk_nope_head_dim": r.choice([8, 12]),
        "v_head_dim": r.choice([6, 10, 16]),
        "n_routed_experts": experts,
        "num_experts_per_tok": r.randint(1, experts // 2),
        "n_shared_experts": r.choice([1, 2, 3]),
        "moe_intermediate_size": r.choice([12, 28]),
        "first_k_dense_replace": r.randint(0, 3),
        "n_group": 2,
        "topk_group": 1,
    }


def local_experts(r, name="num_local_experts"):
    experts = r.choice([2, 4, 7])
    return {name: experts, "num_experts_per_tok": r.randint(1, experts)}


def gpt(r, names):
    query, _, width = heads(r)
    config = {
        "vocab_size": r.choice([97, 512, 1000]),
        names["layers"]: r.randint(1, 6),
        names["heads"]: query,
        names["hidden"]: query * width,
        "tie_word_embeddings": r.random() < 0.5,
    }
    if "width" in names:
        config[names["width"]] = r.choice([40, 96] + ([None] if names.get("derived") else []))
    if "sequence" in names:
        config[names["sequence"]] = r.choice([32, 64, 128])
    return config


def variation(family, r):
    """One random configuration of the family, small enough to build in milliseconds."""
    both = ("attention_bias", "mlp_bias")
    if family in ("llama", "granite", "smollm3"):
        config = llama_like(r) | flag(r, *both)
        if family == "llama":
            config["hidden_size"] = config["num_attention_heads"] * r.choice([8, 16])
        if family == "smollm3":
            config |= window(r, switch=True) | {"no_rope_layer_interval": r.choice([1, 2, 4])}
            config |= layer_types(r, config, SLIDING)
        return config
    if family in ("mistral", "phi3"):
        return llama_like(r, head_dim=family == "mistral") | window(r)
    if family == "starcoder2":
        return llama_like(r) | window(r) | flag(r, "use_bias")
    if family in ("qwen2", "qwen3"):
        config = llama_like(r) | window(r, switch=True, layers=True)
        if family == "qwen3":
            config |= flag(r, "attention_bias")
        return config | layer_types(r, config, SLIDING)
    if family in ("gemma", "gemma2", "gemma3_text", "cohere2"):
        config = llama_like(r, head_dim=family != "cohere2") | flag(r, "attention_bias")
        if family != "gemma":
            config |= {"sliding_window": r.choice([4, 16])}
            config |= layer_types(r, config, SLIDING)
        return config
    if family == "olmo2":
        return llama_like(r) | flag(r, "attention_bias")
    if family == "olmo3":
        config = llama_like(r) | flag(r, "attention_bias") | {"sliding_window": r.choice([4, 16])}
        return config | layer_types(r, config, SLIDING)
    if family == "arcee":
        return llama_like(r) | flag(r, *both)
    if family == "ernie4_5":
        return llama_like(r) | flag(r, "use_bias")
    if family == "phi":
        return llama_like(r, head_dim=False) | flag(r, "qk_layernorm")
    if family == "stablelm":
        return llama_like(r, head_dim=False) | flag(r, "use_qkv_bias", "qk_layernorm", "use_parallel_residual")
    if family in ("glm", "glm4", "nemotron"):
        config = llama_like(r) | flag(r, "attention_bias")
        return config | (flag(r, "mlp_bias") if family == "nemotron" else {})
    if family == "seed_oss":
        return llama_like(r) | flag(r, "attention_bias", "attention_out_bias", "mlp_bias")
    if family in ("mixtral", "granitemoe", "minimax", "gpt_oss", "olmoe", "phimoe"):
        return variation_experts(family, r)
    if family in ("qwen2_moe", "qwen3_moe", "qwen3_next"):
        return variation_qwen(family, r)
    if family == "deepseek_v2":
        return deepseek(r) | flag(r, "mlp_bias")
    if family == "deepseek_v3":
        return deepseek(r) | {"num_nextn_predict_layers": r.choice([0, 1])}
    if family == "llama4_text":
        return variation_llama4(r)
    if family == "glm4_moe":
        config = llama_like(r) | flag(r, "attention_bias", "use_qk_norm")
        return config | {
            "n_routed_experts": 8, "num_experts_per_tok": r.choice([1, 2, 4]),
            "n_shared_experts": r.choice([1, 2]), "moe_intermediate_size": r.choice([8, 20]),
            "first_k_dense_replace": r.randint(0, 3)}
    if family in ("bamba", "falcon_h1", "nemotron_h"):
        return variation_hybrid(family, r)
    if family == "ernie4_5_moe":
        return llama_like(r) | flag(r, "use_bias") | {
            "moe_num_experts": r.choice([4, 6]), "moe_k": r.choice([1, 2, 3]),
            "moe_num_shared_experts": r.choice([0, 1, 2]),
            "moe_intermediate_size": r.choice([8, 20]),
            "moe_layer_start_index": r.randint(0, 3), "moe_layer_end_index": r.choice([-1, 2, 5]),
            "moe_layer_interval": r.choice([1, 2])}
    related = variation_related(family, r)
    return variation_classic(family, r) if related is None else related


def variation_related(family, r):
    """Of the families that are another one but for a few things; None of any other."""
    if family in ("ministral3", "cwm", "exaone4"):
        config = llama_like(r) | window(r)
        if family != "ministral3":
            config["sliding_window"] = r.choice([4, 16])
        if family == "exaone4":
            config["sliding_window_pattern"] = r.choice([2, 4])
        if family == "cwm":
            config |= flag(r, "mlp_bias")
        return config if family == "ministral3" else config | layer_types(r, config, SLIDING)
    if family in ("internlm3", "iquestcoder", "hyperclovax", "hunyuan_v1_dense", "olmo", "jais2"):
        config = llama_like(r, head_dim=family not in ("olmo", "hunyuan_v1_dense")) | flag(r, "attention_bias")
        config["hidden_size"] = config["num_attention_heads"] * r.choice([8, 16])
        if family in ("iquestcoder", "hyperclovax", "jais2"):
            config |= flag(r, "mlp_bias")
        if family == "internlm3":
            config["mlp_bias"] = config["attention_bias"]
        if family == "hunyuan_v1_dense":
            config["head_dim"] = r.choice([8, 16, 24])
        return config | (flag(r, "use_post_norm") if family == "hyperclovax" else {})
    if family == "cohere":
        return llama_like(r, head_dim=False) | flag(r, "attention_bias", "use_qk_norm")
    if family == "vaultgemma":
        config = llama_like(r) | flag(r, "attention_bias") | {"sliding_window": r.choice([4, 16])}
        return config | layer_types(r, config, SLIDING)
    if family == "granitemoeshared":
        return llama_like(r) | local_experts(r) | flag(r, "attention_bias") | {
            "shared_intermediate_size": r.choice([0, 12, 44])}
    if family == "minimax_m2":
        return llama_like(r) | local_experts(r)
    if family == "solar_open":
        config = llama_like(r) | flag(r, "attention_bias")
        del config["intermediate_size"]
        return config | {"n_routed_experts": 8, "num_experts_per_tok": r.choice([1, 2, 4]),
                         "n_shared_experts": r.choice([1, 2]), "moe_intermediate_size": r.choice([8, 20])}
    if family == "glm4_moe_lite":
        config = deepseek(r)
        del config["first_k_dense_replace"]
        types = {"mlp_layer_types": [r.choice(["dense", "sparse"]) for _ in range(config["num_hidden_layers"])]}
        return config | r.choice([{}, types])
    if family in ("qwen3_5_text", "qwen3_5_moe_text"):
        config = variation_qwen("qwen3_next", r)
        for name in ("decoder_sparse_step", "mlp_only_layers"):
            del config[name]
        if family == "qwen3_5_moe_text":
            del config["intermediate_size"]
            return config
        return {name: value for name, value in config.items() if "expert" not in name and "moe" not in name}
    return None


def variation_experts(family, r):
    if family == "olmoe":
        return llama_like(r, head_dim=False) | flag(r, "attention_bias") | local_experts(
            r, "num_experts")
    config = llama_like(r, head_dim=family != "phimoe") | local_experts(r)
    if family == "phimoe":
        config |= flag(r, "attention_bias", "lm_head_bias") | window(r)
    if family in ("granitemoe", "gpt_oss"):
        config |= flag(r, "attention_bias")
    if family in ("mixtral", "minimax"):
        config |= window(r)
    if family == "gpt_oss":
        config |= {"sliding_window": r.choice([4, 16])} | layer_types(r, config, SLIDING)
    if family == "minimax":
        config |= layer_types(r, config, LINEAR) | {"block_size": r.choice([16, 256])}
    return config


def variation_qwen(family, r):
    config = llama_like(r)
    config |= qwen_experts(r, config)
    if family == "qwen2_moe":
        config |= flag(r, "qkv_bias") | window(r, layers=True)
        config["use_sliding_window"] = config["sliding_window"] is not None
    if family == "qwen3_moe":
        config |= flag(r, "attention_bias") | window(r, switch=True)
    if family != "qwen3_moe":
        config["shared_expert_intermediate_size"] = r.choice([12, 44])
    if family == "qwen3_next":
        key = r.choice([1, 2, 4])
        config |= flag(r, "attention_bias") | {
            "linear_num_key_heads": key, "linear_num_value_heads": key * r.choice([1, 2]),
            "linear_key_head_dim": r.choice([8, 16]), "linear_value_head_dim": r.choice([8, 12]),
            "linear_conv_kernel_dim": r.choice([2, 4])}
        config |= layer_types(r, config, LINEAR)
    return config


def variation_hybrid(family, r):
    groups = r.choice([1, 2])
    heads = groups * r.choice([1, 2, 4])
    width = r.choice([8, 16])
    chunk = r.choice([16, 24, 256])
    config = llama_like(r)
    if family == "nemotron_h":
        del config["num_hidden_layers"]
        experts = r.choice([4, 6])
        letters = "".join(r.choice("M*-E") for _ in range(r.randint(1, 8)))
        names = {"M": r.choice(["mamba", "linear_attention"]), "*": "full_attention", "-": "mlp",
                 "E": "moe"}
        return config | flag(r, "mlp_bias", "use_bias", "use_conv_bias") | {
            "head_dim": width,
            "mamba_num_heads": heads, "mamba_head_dim": width, "n_groups": groups,
            "ssm_state_size": r.choice([8, 12]), "conv_kernel": r.choice([2, 4]),
            "chunk_size": chunk, "n_routed_experts": experts,
            "num_experts_per_tok": r.randint(1, experts // 2),
            "moe_intermediate_size": r.choice([12, 20]),
            "moe_shared_expert_intermediate_size": r.choice([16, 28]),
            "moe_latent_size": r.choice([None, None, 10]),
        } | r.choice([{"hybrid_override_pattern": letters},
                      {"layers_block_type": [names[letter] for letter in letters]}])
    config |= flag(r, "attention_bias", "mlp_bias", "mamba_proj_bias", "mamba_conv_bias") | {
        "mamba_n_heads": heads, "mamba_n_groups": groups, "mamba_d_state": r.choice([8, 12]),
        "mamba_d_conv": r.choice([2, 4]), "mamba_chunk_size": chunk, "mamba_expand": 2}
    if family == "bamba":
        listed = [i for i in range(config["num_hidden_layers"]) if r.random() < 0.4]
        return config | {"attn_layer_indices": r.choice([None, listed])}
    config |= flag(r, "projectors_bias", "mamba_rms_norm")
    if r.random() < 0.5:
        config |= {"mamba_d_ssm": heads * width, "mamba_d_head": width}
    else:
        config["mamba_d_ssm"] = None
    return config


def variation_llama4(r):
    config = llama_like(r) | flag(r, "attention_bias", "use_qk_norm") | local_experts(r)
    config |= {"intermediate_size_mlp": r.choice([20, 60]),
               "interleave_moe_layer_step": r.choice([1, 2]),
               "no_rope_layer_interval": r.choice([2, 4]),
               "attention_chunk_size": r.choice([8, 16])}
    if r.random() < 0.3:
        config["moe_layers"] = [i for i in range(config["num_hidden_layers"]) if r.random() < 0.5]
    return config


def variation_classic(family, r):
    if family in ("gpt2", "gptj", "codegen"):
        names = {"layers": "n_layer", "heads": "n_head", "hidden": "n_embd", "width": "n_inner",
                 "derived": True, "sequence": "n_positions"}
        config = gpt(r, names)
        return config | ({"rotary_dim": 8} if family in ("gptj", "codegen") else {})
    hugging = {"layers": "num_hidden_layers", "heads": "num_attention_heads",
               "hidden": "hidden_size"}
    if family == "gpt_neox":
        return gpt(r, hugging | {"width": "intermediate_size"}) | flag(
            r, "attention_bias", "use_parallel_residual")
    if family == "falcon":
        config = gpt(r, hugging | {"width": "ffn_hidden_size", "derived": True})
        kv = r.choice([n for n in (1, 2, 4) if config["num_attention_heads"] % n == 0])
        return config | flag(r, "bias", "new_decoder_architecture", "multi_query",
                             "parallel_attn", "alibi") | {
            "num_kv_heads": kv, "num_ln_in_parallel_attn": r.choice([None, 1, 2])}
    if family == "bloom":
        return gpt(r, {"layers": "n_layer", "heads": "n_head", "hidden": "hidden_size"})
    if family == "opt":
        config = gpt(r, hugging | {"width": "ffn_dim", "sequence": "max_position_embeddings"})
        return config | flag(r, "enable_bias", "layer_norm_elementwise_affine",
                             "do_layer_norm_before", "_remove_final_layer_norm") | {
            "word_embed_proj_dim": r.choice([None, 20])}
    if family == "mpt":
        return gpt(r, {"layers": "n_layers", "heads": "n_heads", "hidden": "d_model",
                       "sequence": "max_seq_len"})
    if family == "dbrx":
        query, kv, width = heads(r)
        experts = r.choice([2, 4, 6])
        return {"vocab_size": r.choice([97, 512]), "n_layers": r.randint(1, 6), "n_heads": query,
                "d_model": query * width, "pad_token_id": 0,
                "attn_config": {"kv_n_heads": kv, "rope_theta": 10000.0},
                "ffn_config": {"ffn_hidden_size": r.choice([16, 40]), "moe_num_experts": experts,
                               "moe_top_k": r.randint(1, experts)}}
    raise KeyError(family)


def _has(config, name):
    try:
        return getattr(config, name, None) is not None and name not in config.attribute_map
    except Exception:  # a size that differs by layer
        return False


def shrunk(family, r):
    """The class's own config with small sizes for whatever of them it has."""
    from transformers import AutoConfig

    own = AutoConfig.for_model(family, **EXPLICIT.get(family, {}))
    query, kv, width = heads(r)
    layers, experts = r.randint(2, 7), 8
    hidden = query * width
    sizes = {
        "vocab_size": r.choice([97, 512]), "hidden_size": hidden, "d_model": hidden, "n_embd": hidden, "num_hidden_layers": layers,
        "num_layers": layers, "n_layer": layers, "num_attention_heads": query, "attention_heads": query, "n_head": query,
        "num_key_value_heads": kv, "intermediate_size": r.choice([24, 40]), "ffn_dim": 40, "dff": 40, "head_dim": r.choice([8, 16]),
        "moe_intermediate_size": r.choice([8, 20]), "shared_intermediate_size": 12, "shared_expert_intermediate_size": 12,
        "dense_intermediate_size": 28, "num_experts": experts, "n_routed_experts": experts, "num_local_experts": experts,
        "moe_num_experts": experts, "num_experts_per_tok": 2, "num_experts_per_token": 2, "moe_topk": 2, "q_lora_rank": 12,
        "kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8, "v_head_dim": 6, "n_group": 1, "topk_group": 1,
        "num_expert_group": 1, "qk_head_dim": 12, "index_n_heads": 2, "index_head_dim": 8, "index_topk": 4, "max_position_embeddings": 64, "n_positions": 64,
        "sliding_window": 8, "o_groups": query, "o_lora_rank": 8, "linear_head_dim": 8, "linear_num_heads": 2, "linear_num_key_heads": 2,
        "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 12, "mamba_n_heads": 2, "mamba_d_head": hidden,
        "mamba_d_state": 8, "state_size": 8, "time_step_rank": 5, "mamba_dt_rank": 5, "hidden_size_per_layer_input": 8,
        "vocab_size_per_layer_input": 64, "num_kv_shared_layers": 0, "laurel_rank": 4, "num_dense_layers": 1, "first_k_dense_replace": 1,
        "layer_group_size": 2, "swa_num_key_value_heads": kv,
    }
    config = {name: value for name, value in sizes.items() if _has(own, name)}
    config |= {"pad_token_id": 0} | SHRUNK_ALSO.get(family, lambda config, layers: {})(config, layers)
    return config


def _typed(*kinds):
    return lambda config, layers: {"layer_types": [kinds[i % len(kinds)] for i in range(layers)]}


SHRUNK_ALSO = {
    "lfm2": _typed("conv", "full_attention"), "lfm2_moe": _typed("conv", "full_attention"), "lfm3": _typed("conv", "sliding_attention"),
    "granitemoehybrid": _typed("linear_attention", "full_attention"), "minimax_m3_vl_text": _typed("full_attention", "minimax_m3_sparse"),
    "laguna": _typed("full_attention", "sliding_attention"),
    "helium": lambda config, layers: {"head_dim": config["hidden_size"] // config["num_attention_heads"]},
    "mamba": lambda config, layers: {"intermediate_size": 2 * config["hidden_size"]},
    "falcon_mamba": lambda config, layers: {"intermediate_size": 2 * config["hidden_size"]},
    "mamba2": lambda config, layers: {"num_heads": 2, "head_dim": config["hidden_size"], "n_groups": 1},
    "gpt_neo": lambda config, layers: {"num_heads": 4, "hidden_size": 32, "num_layers": 2, "attention_types": [[["global", "local"], 1]]},
    "gemma3n_text": lambda config, layers: {"intermediate_size": [40] * layers, "activation_sparsity_pattern": [0.0] * layers},
    "deepseek_v4": lambda config, layers: {"num_key_value_heads": 1, "compress_rates": {
        "heavily_compressed_attention": 16, "compressed_sparse_attention": 4}},
}


def variations(family, count, seed=20260):
    if family == "mimo_v2_flash":  # its layers with a window have sizes under names that small configs do not show
        return []
    r = random.Random(f"{family} {seed}")
    return [(shrunk if family in SHRUNK else variation)(family, r) for _ in range(count)]
