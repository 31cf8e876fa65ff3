"""Parameter counts of Megatron-LM's own configs equal those of the GPTModel that Megatron-Core builds, whole and by
pipeline rank."""
import itertools
import json
import os
import pathlib
import random
import re
import sys
import warnings

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(os.environ.get("TRAINWRIGHT_MEGATRON", str(ROOT / "build/megatron")))

torch = pytest.importorskip("torch")
warnings.filterwarnings("ignore")  # of kernels that only accelerators have
pytest.importorskip("megatron.core", reason="no Megatron-Core: tools/make/make_venv.sh brings it")

from megatron.core import parallel_state
from megatron.core.activations import quick_gelu, squared_relu
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec, get_gpt_mtp_block_spec
from megatron.core.transformer import multi_latent_attention
from megatron.core.transformer.transformer_config import MLATransformerConfig, TransformerConfig

from program import answered, show_models

VARIATIONS = 150


@pytest.fixture(autouse=True)
def one_process(monkeypatch):
    # Modules ask for the accelerator and its streams when they are made.
    monkeypatch.setattr(torch.cuda, "current_device", lambda: "cpu")
    monkeypatch.setattr(torch.cuda, "Stream", lambda *_, **__: None)
    # Said to be there without Transformer Engine too.
    monkeypatch.setattr(multi_latent_attention, "HAVE_TE", False)
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    parallel_state.initialize_model_parallel()
    yield
    parallel_state.destroy_model_parallel()
    torch.distributed.destroy_process_group()


def variation(seed):
    """Arguments of pretrain_gpt.py; what is left out is left to their defaults."""
    pick = random.Random(seed)
    heads = pick.choice([2, 4, 8])
    config = {
        "num_layers": pick.choice([2, 4, 6]),
        "hidden_size": heads * pick.choice([8, 24, 32]),
        "num_attention_heads": heads,
        "vocab_size": pick.choice([128, 640]),
        "max_position_embeddings": pick.choice([16, 64]),
        "position_embedding_type": pick.choice(["learned_absolute", "rope", "none"]),
        "normalization": pick.choice(["LayerNorm", "RMSNorm"]),
        "disable_bias_linear": pick.random() < 0.5,
        "untie_embeddings_and_output_weights": pick.random() < 0.5,
        "qk_layernorm": pick.random() < 0.4,
        pick.choice(["swiglu", "squared_relu", "quick_geglu", "untouched"]): True,
    }
    config.pop("untouched", None)
    if pick.random() < 0.5:
        config["ffn_hidden_size"] = pick.choice([48, 96])
    if pick.random() < 0.3:
        config |= {"multi_latent_attention": True, "kv_lora_rank": pick.choice([16, 24]), "v_head_dim": 24}
        if pick.random() < 0.6:
            config |= {"q_lora_rank": 40, "qk_head_dim": 16, "qk_pos_emb_head_dim": 8}
    else:
        config["kv_channels"] = pick.choice([None, 16])
        config["add_qkv_bias"] = pick.random() < 0.3
        if pick.random() < 0.5:
            config |= {"group_query_attention": True, "num_query_groups": pick.choice([1, 2])}
        if config["position_embedding_type"] == "rope" and pick.random() < 0.3:
            config["no_rope_freq"] = 2
    if pick.random() < 0.5:
        experts(config, pick)
    if config["position_embedding_type"] != "learned_absolute" and pick.random() < 0.4:
        config["mtp_num_layers"] = pick.choice([1, 2])
    return config


def experts(config, pick):
    layers = config["num_layers"]
    config |= {"num_experts": pick.choice([4, 8]), "moe_router_topk": pick.choice([2, 3])}
    config["moe_layer_freq"] = pick.choice([1, 2, f"([0]*1+[1]*{layers - 1})", [0, 1] * (layers // 2)])
    if pick.random() < 0.5:
        config["moe_ffn_hidden_size"] = 40
    if config["disable_bias_linear"] and pick.random() < 0.5:
        config |= {"moe_shared_expert_intermediate_size": 56, "moe_shared_expert_gate": pick.random() < 0.5}


def as_arguments_do(config):
    """What arguments.py of core_v0.16.1 makes of them on the way to TransformerConfig."""
    given = dict(config)
    for name in ("vocab_size", "max_position_embeddings", "position_embedding_type",
                 "untie_embeddings_and_output_weights", "multi_latent_attention"):
        given.pop(name, None)
    swiglu, squared, quick = (given.pop(name, False) for name in ("swiglu", "squared_relu", "quick_geglu"))
    hidden = given["hidden_size"]
    given.setdefault("ffn_hidden_size", int((4 * hidden * 2 / 3) / 64) * 64 if swiglu else 4 * hidden)
    given["add_bias_linear"] = not given.pop("disable_bias_linear")
    given["gated_linear_unit"] = swiglu or quick
    if swiglu or squared or quick:
        given["activation_func"] = torch.nn.functional.silu if swiglu else squared_relu if squared else quick_gelu
    if not given.pop("group_query_attention", False):
        given["num_query_groups"] = None
    given["num_moe_experts"] = given.pop("num_experts", None)
    if isinstance(given.get("moe_layer_freq"), str):
        given["moe_layer_freq"] = eval(given["moe_layer_freq"])
    if config.get("multi_latent_attention"):
        given.setdefault("q_lora_rank", None)
    return given


class NoCore(torch.nn.Module):
    """The core of attention has no weights, and without kernels of accelerators none that takes latents."""

    def __init__(self, *_, **__):
        super().__init__()


def build(config, rank=0, ranks=1):
    kind = MLATransformerConfig if config.get("multi_latent_attention") else TransformerConfig
    made = kind(**as_arguments_do(config), use_cpu_initialization=True, perform_initialization=False,
                moe_token_dispatcher_type="alltoall", hidden_dropout=0.0, pipeline_model_parallel_size=ranks,
                pipeline_dtype=torch.bfloat16)
    spec = get_gpt_decoder_block_spec(made, use_transformer_engine=False, normalization=made.normalization)
    if config.get("multi_latent_attention"):
        for layer in spec.layer_specs:
            layer.submodules.self_attention.submodules.core_attention = NoCore
    mtp = get_gpt_mtp_block_spec(made, spec, use_transformer_engine=False) if made.mtp_num_layers else None
    return GPTModel(made, spec, vocab_size=config["vocab_size"],
                    max_sequence_length=config["max_position_embeddings"],
                    position_embedding_type=config["position_embedding_type"],
                    share_embeddings_and_output_weights=not config["untie_embeddings_and_output_weights"],
                    mtp_block_spec=mtp, pre_process=rank == 0, post_process=rank == ranks - 1)


def counted(model):
    parts = dict.fromkeys(("embedding", "attention", "feed_forward", "norm", "head", "mtp"), 0)
    for name, parameter in model.named_parameters():
        part = ("mtp" if name.startswith("mtp.") else
                "embedding" if name.startswith("embedding.") else
                "head" if name.startswith("output_layer.") else
                "attention" if ".self_attention." in name else
                "feed_forward" if re.search(r"\.mlp\.", name) else "norm")
        parts[part] += parameter.numel()
    return parts


def ours(report):
    parts = report["parameters"]["parts"]
    together = parts["feed_forward"] + parts["routed_experts"] + parts["shared_experts"] + parts["router"]
    return {name: parts[name] for name in ("embedding", "attention", "norm", "head")} | {
        "feed_forward": together, "mtp": report["parameters"]["mtp"]}


def test_gpt_models_of_many_arguments(tmp_path):
    configs = [variation(seed) for seed in range(VARIATIONS)]
    paths = []
    for index, config in enumerate(configs):
        paths.append(tmp_path / f"{index:03}.json")
        paths[-1].write_text(json.dumps(config | {"model_type": "megatron"}))
    mismatches = []
    for path, config, report in zip(paths, configs, show_models(paths)):
        theirs, mine = counted(build(config)), ours(report)
        if theirs != mine:
            mismatches.append(f"{config}: {mine}, not {theirs}")
    print(f"{len(configs)} configs, {len(mismatches)} mismatches")
    assert not mismatches, "\n".join(mismatches[:10])


@pytest.mark.parametrize("untied, mtp", itertools.product((True, False), (0, 1)))
def test_stages_of_a_pipeline(tmp_path, monkeypatch, untied, mtp):
    """Tables are copied to the last of two ranks for a tied head, and for prediction of more tokens."""
    config = {"num_layers": 4, "hidden_size": 64, "num_attention_heads": 4, "ffn_hidden_size": 96, "vocab_size": 640,
              "max_position_embeddings": 64, "position_embedding_type": "rope", "normalization": "RMSNorm",
              "disable_bias_linear": True, "swiglu": True, "untie_embeddings_and_output_weights": untied}
    config |= {"mtp_num_layers": mtp} if mtp else {}
    # Copies are made equal by an all-reduce, which there is nobody for.
    monkeypatch.setattr(GPTModel, "setup_embeddings_and_output_layer", lambda _: None)
    parallel_state.set_pipeline_model_parallel_world_size(2)
    theirs = []
    for rank in range(2):
        parallel_state.set_pipeline_model_parallel_rank(rank)
        theirs.append(sum(parameter.numel() for parameter in build(config, rank, 2).parameters()))
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config | {"model_type": "megatron"}))
    [[code, output, error]] = answered([[
        "show", "work", str(path), "--on", "2xH100", "--trainer", "megatron@0.16", "--stage", "all", "--json",
        "--layout", "pp=2,dp=1,mbs=1,gbs=2,seq=64,precision=bf16"]])
    assert code == 0, error
    held = [stage["totals"]["parameters"] for stage in json.loads(output)["stages"]]
    mine = [one["dense"] + one["expert"] for one in held]
    # The decoder's last norm: beside MTP 0.16.1 makes it where a layer has the last number (transformer_block.py:406), which
    # stages that are built by themselves here do not know.
    assert mine == [theirs[0], theirs[1] + (config["hidden_size"] if mtp else 0)]
