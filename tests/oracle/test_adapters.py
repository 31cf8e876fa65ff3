"""What a list says of a model of which only a part is trained is what peft and transformers do: kept storages, FLOPs of
both passes and trained parameters, 0 of difference. Adapters are as peft makes them by default: fp32 beside a 16-bit base,
nothing flows below the first one, all-linear leaves the head out."""
import dataclasses

import pytest
import torch

from adapted_models import Job, build, flops, kept_by_head, kept_by_layers, trained_numbers
from kept_storages import Layer
from test_kept_storages import _GPT2, _LATENT, _NEOX, _SMALL, BF16, FP32, as_on_a_gpu, differences
from work_lists import one_list, request, whole_model

LLAMA = Layer({"model_type": "llama", **_SMALL}, batch=2, sequence=16)
JOBS = {
    "query and value": Job("lora=4:q_proj+v_proj", ("q_proj", "v_proj")),
    "all linears": Job("lora=4:all-linear", "all-linear"),
    "attention's output": Job("lora=4:o_proj", ("o_proj",)),
    "gate alone": Job("lora=8:gate_proj", ("gate_proj",), rank=8),
    "key alone": Job("lora=4:k_proj", ("k_proj",)),
    "up and down, not widened": Job("lora=4:up_proj+down_proj,lora_dtype=as-weight", ("up_proj", "down_proj"), widened=False),
    "dropout": Job("lora=4:q_proj+down_proj,lora_dropout", ("q_proj", "down_proj"), dropout=0.1),
    "the upper layer": Job("lora=4:q_proj+v_proj,frozen_layers=1", ("q_proj", "v_proj"), layers=(1,)),
    "copies of embedding and head": Job("lora=4:q_proj+v_proj,trained=embedding+head", ("q_proj", "v_proj"),
                                        copies=("embed_tokens", "lm_head")),
    "a copy of the head": Job("lora=4:o_proj,trained=head", ("o_proj",), copies=("lm_head",)),
    "everything": Job(""),
    "frozen embedding": Job("frozen=embedding", frozen=("embed_tokens",)),
    "frozen attention": Job("frozen=embedding+attention", frozen=("embed_tokens", "self_attn")),
    "frozen norms and head": Job("frozen=norm+head", frozen=("norm", "lm_head")),
    "frozen lower layer": Job("frozen=embedding,frozen_layers=1", frozen=("embed_tokens", "layers.0.")),
    "head alone": Job("frozen=embedding+norm,frozen_layers=2", frozen=("embed_tokens", "norm", "layers.")),
}
FAMILIES = {
    "gpt2": (Layer({"model_type": "gpt2", **_GPT2}, batch=2, sequence=16), Job("lora=4:c_attn", ("c_attn",))),
    "gpt_neox": (Layer({"model_type": "gpt_neox", **_NEOX}, batch=2, sequence=16),
                 Job("lora=4:query_key_value+dense_4h_to_h", ("query_key_value", "dense_4h_to_h"))),
    "qwen3": (Layer({"model_type": "qwen3", **_SMALL}, batch=1, sequence=16), Job("lora=4:q_proj+k_proj", ("q_proj", "k_proj"))),
    "phi3": (Layer({"model_type": "phi3", "pad_token_id": 0, **_SMALL, "num_attention_heads": 1, "num_key_value_heads": 1,
                    "head_dim": 32}, batch=2, sequence=16), Job("lora=4:qkv_proj+gate_up_proj", ("qkv_proj", "gate_up_proj"))),
    "deepseek_v3": (Layer({"model_type": "deepseek_v3", **_LATENT, "first_k_dense_replace": 2, "num_nextn_predict_layers": 0},
                          batch=2, sequence=16),
                    Job("lora=4:q_a_proj+kv_b_proj+o_proj", ("q_a_proj", "kv_b_proj", "o_proj"))),
}


def faults_of_layers(spec: Layer, job: Job, trainer: str = "pytorch") -> list[str]:
    faults = []
    for index, real in enumerate(kept_by_layers(spec, job)):
        wanted = request(dataclasses.replace(spec, index=index), job=job.text, trainer=trainer)
        found = differences(one_list(wanted)["kept"], as_on_a_gpu(real))
        faults += [f"layer {index}: {one}" for one in found]
    return faults


def faults_of(spec: Layer, job: Job) -> list[str]:
    faults = faults_of_layers(spec, job)
    head = one_list(request(spec, "head", job=job.text))["kept"]
    faults += [f"head: {one}" for one in differences(head, as_on_a_gpu(kept_by_head(spec, job)))]
    if spec.recompute == "none":
        totals = whole_model(request(spec, job=job.text))
        ours = (totals["forward"]["matmul_flops"],
                totals["input_gradient"]["matmul_flops"] + totals["weight_gradient"]["matmul_flops"])
        real = flops(spec, build(spec, job))
        faults += [f"FLOPs {ours}, not {real}"] if ours != real else []
        held = totals["parameters"]
        trained = held["trained_dense"] + held["adapter_dense"]
        numbers = trained_numbers(build(spec, job))
        faults += [f"{trained} are trained, not {numbers}"] if trained != numbers else []
    return faults


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("dtype", [BF16, FP32])
@pytest.mark.parametrize("job", JOBS)
def test_a_llama_of_which_a_part_is_trained(job, dtype, attention):
    faults = faults_of(dataclasses.replace(LLAMA, dtype=dtype, attention=attention), JOBS[job])
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("job", ["query and value", "all linears", "everything"])
def test_layers_that_are_run_again(job, attention):
    """peft makes the embedding's result require a gradient then, so one flows through the first layer too."""
    faults = faults_of(dataclasses.replace(LLAMA, attention=attention, recompute="full"), JOBS[job])
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("job", ["query and value", "all linears", "up and down, not widened", "dropout", "the upper layer"])
def test_fp32_adapters_under_autocast_as_transformers_trainer_runs_them(job):
    faults = faults_of_layers(LLAMA, dataclasses.replace(JOBS[job], autocast=True), trainer="accelerate")
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("family", FAMILIES)
def test_other_families(family, attention):
    spec, job = FAMILIES[family]
    faults = faults_of(dataclasses.replace(spec, attention=attention), job)
    assert not faults, "\n".join(faults)
