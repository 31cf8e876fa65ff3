"""Adapters beside weights in 4 and 8 bits: what transformers, bitsandbytes and peft hold on this machine's CPU is what is
estimated, to the byte. Weights with their scales and tables, kept storages of every layer, trained parameters, FLOPs.
Likewise of models that prepare_model_for_kbit_training has prepared, under autocast as transformers' Trainer runs them.

Of int8, bitsandbytes runs another function on CPUs than on GPUs (MatMul8bitFp); both hold the product's input. Under autocast
two things of this host are translated (`autocast_as_on_a_gpu`): that function's product is cast, where the GPU's kernel gives
the dtype of its input; and peft asks whether the GPU's autocast is on.
"""
import contextlib
import dataclasses
import tempfile

import pytest
import torch

from adapted_models import Job, build, flops, kept_by, tokens, trained_numbers
from estimates import estimated
from kept_storages import Kept, Layer, Watch, configuration, layers_of
from test_kept_storages import _SMALL, differences
from work_lists import one_list, request, whole_model

# One matrix with a remainder of a block of 64 and scales beyond one block of 256.
LLAMA = Layer({"model_type": "llama", **_SMALL, "hidden_size": 64, "head_dim": 16, "intermediate_size": 290}, batch=2, sequence=16)
JOBS = {"nf4": Job("qlora=4", "all-linear"), "int8": Job("lora=4:q_proj+down_proj,base=int8", ("q_proj", "down_proj"))}


def quantised(spec: Layer, kind: str) -> torch.nn.Module:
    """Saved and loaded again, as transformers quantises."""
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig

    four = {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True,
            "bnb_4bit_compute_dtype": spec.dtype}
    config = BitsAndBytesConfig(**four) if kind == "nf4" else BitsAndBytesConfig(load_in_8bit=True)
    with tempfile.TemporaryDirectory() as folder:
        AutoModelForCausalLM.from_config(configuration(spec)).to(spec.dtype).save_pretrained(folder)
        return AutoModelForCausalLM.from_pretrained(folder, quantization_config=config, dtype=spec.dtype,
                                                    attn_implementation=spec.attention).train()


def with_adapters(model: torch.nn.Module, job: Job) -> torch.nn.Module:
    from peft import LoraConfig, get_peft_model

    targets = job.lora if isinstance(job.lora, str) else list(job.lora)
    get_peft_model(model, LoraConfig(r=job.rank, target_modules=targets, lora_dropout=job.dropout))
    return model


def scales_of(parameter: torch.nn.Parameter) -> list[torch.Tensor]:
    state = getattr(parameter, "quant_state", None)
    nested = [] if state is None else [state.absmax, state.code, state.offset, state.state2.absmax, state.state2.code]
    row = getattr(parameter, "SCB", None)
    return nested + ([] if row is None else [row])


def weight_storages(model: torch.nn.Module) -> dict[int, int]:
    """Address and bytes of every storage that weights are in, scales and tables included."""
    tensors = [tensor for parameter in model.parameters() for tensor in (parameter.data, *scales_of(parameter))]
    return {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors}


@pytest.mark.parametrize("kind", JOBS)
def test_weights_scales_adapters_and_flops_are_as_estimated(kind):
    job = JOBS[kind]
    model = with_adapters(quantised(LLAMA, kind), job)
    assert estimated(LLAMA, job.text)["weights"] == sum(weight_storages(model).values())
    totals = whole_model(request(LLAMA, job=job.text))
    assert totals["parameters"]["adapter_dense"] == trained_numbers(model)
    ours = (totals["forward"]["matmul_flops"],
            totals["input_gradient"]["matmul_flops"] + totals["weight_gradient"]["matmul_flops"])
    assert ours == flops(LLAMA, build(LLAMA, job))
    assert ours[1] == flops(LLAMA, model)[1]  # forward, a kernel of CPUs multiplies nf4 unseen


EXPERTS = dataclasses.replace(LLAMA, attention="eager", config=LLAMA.config | {"model_type": "gpt_oss", "num_local_experts": 4,
                                                            "num_experts_per_tok": 2, "layer_types": ["full_attention"] * 2})


@pytest.mark.parametrize("kind", JOBS)
def test_experts_are_parameters_that_stay_in_16_bits_and_have_no_adapters(kind):
    """transformers 5 keeps the experts of a layer as two parameters; all-linear finds modules alone."""
    job = JOBS[kind] if kind == "nf4" else Job("lora=4:q_proj,base=int8", ("q_proj",))
    model = with_adapters(quantised(EXPERTS, kind), job)
    assert estimated(EXPERTS, job.text)["weights"] == sum(weight_storages(model).values())
    parameters = whole_model(request(EXPERTS, job=job.text))["parameters"]
    assert parameters["adapter_dense"] + parameters["adapter_expert"] == trained_numbers(model)


def test_copies_of_embedding_and_head_are_held_beside_the_frozen_ones():
    job = Job("lora=4:q_proj,trained=embedding+head", ("q_proj",), copies=("embed_tokens", "lm_head"))
    for spec in (LLAMA, TIED):
        model = build(spec, job)
        assert estimated(spec, job.text)["weights"] == sum(weight_storages(model).values())


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("kind", JOBS)
def test_layers_keep_what_the_list_says(kind, attention):
    spec, job = dataclasses.replace(LLAMA, attention=attention), JOBS[kind]
    model = with_adapters(quantised(spec, kind), job)
    layers = layers_of(model.base_model)
    scales = [tensor for parameter in model.parameters() for tensor in scales_of(parameter)]  # int8's move when it runs
    caught: list[tuple] = []
    hooks = [layer.register_forward_pre_hook(lambda _, args, kwargs: caught.append((args, kwargs)), with_kwargs=True)
             for layer in layers]
    model(tokens(spec, model))
    for hook in hooks:
        hook.remove()
    for index, (layer, (args, kwargs)) in enumerate(zip(layers, caught)):
        real = kept_by(spec, layer, args, kwargs, there=scales)
        ours = one_list(request(dataclasses.replace(spec, index=index), job=job.text))["kept"]
        assert not differences(ours, real)


PREPARED = {"nf4": Job("qlora=4,prepared=peft", "all-linear"),
            "nf4, dropout": Job("qlora=4:q_proj+o_proj+down_proj,prepared=peft,lora_dropout", ("q_proj", "o_proj", "down_proj"), dropout=0.1),
            "nf4, narrow adapters": Job("qlora=4:v_proj+up_proj,prepared=peft,lora_dtype=as-weight", ("v_proj", "up_proj"), widened=False),
            "int8": Job("lora=4:q_proj+down_proj,base=int8,prepared=peft", ("q_proj", "down_proj")),
            "nf4, as TRL": Job("qlora=4,prepared=trl", "all-linear")}
ONE_HEAD = dataclasses.replace(LLAMA, config=LLAMA.config | {"num_key_value_heads": 1}, batch=1)
ALL_HEADS = dataclasses.replace(LLAMA, config=LLAMA.config | {"num_key_value_heads": 4})
QWEN3 = dataclasses.replace(LLAMA, config=LLAMA.config | {"model_type": "qwen3"})
TIED = dataclasses.replace(LLAMA, config=LLAMA.config | {"tie_word_embeddings": True})


def prepared(spec: Layer, job: Job) -> torch.nn.Module:
    """Layers that are run again: of int8 in the reentrant way, without which bitsandbytes' products hold their inputs all the same."""
    from peft import prepare_model_for_kbit_training

    model = quantised(spec, "int8" if "int8" in job.text else "nf4")
    prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)
    if spec.recompute == "full":
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": "int8" in job.text})
    model = with_adapters(model, job)
    for name, parameter in model.named_parameters():
        if not job.widened and "lora_" in name:
            parameter.data = parameter.data.to(spec.dtype)
        # trl 0.13.0 trainer/utils.py peft_module_casting_to_bf16
        if "trl" in job.text and any(end in name for end in ("embed_tokens", "lm_head")):
            parameter.data = parameter.data.to(spec.dtype)
    return model


@contextlib.contextmanager
def autocast_as_on_a_gpu():
    from bitsandbytes.autograd._functions import MatMul8bitFp

    asked, product = torch.is_autocast_enabled, MatMul8bitFp.forward

    def uncast(*arguments):
        with torch.autocast("cpu", enabled=False):
            return product(*arguments)

    torch.is_autocast_enabled = lambda *device: asked(*device) if device else asked("cpu")
    MatMul8bitFp.forward = staticmethod(uncast)
    try:
        with torch.autocast("cpu", torch.bfloat16):
            yield
    finally:
        torch.is_autocast_enabled, MatMul8bitFp.forward = asked, product


def kept_by_prepared_layers(spec: Layer, model: torch.nn.Module) -> list[list[Kept]]:
    layers = layers_of(model.base_model)
    scales = [tensor for parameter in model.parameters() for tensor in scales_of(parameter)]
    caught: list[tuple] = []
    hooks = [layer.register_forward_pre_hook(lambda _, args, kwargs: caught.append((args, kwargs)), with_kwargs=True)
             for layer in layers]
    with autocast_as_on_a_gpu():
        model(tokens(spec, model))
    for hook in hooks:
        hook.remove()
    return [kept_by(spec, layer, *call, there=scales, precision=autocast_as_on_a_gpu) for layer, call in zip(layers, caught)]


def kept_by_prepared_head(spec: Layer, model: torch.nn.Module) -> list[Kept]:
    ids = tokens(spec, model)
    norm, head = model.base_model.norm, model.get_output_embeddings()
    x = torch.randn(spec.batch, spec.sequence, model.config.hidden_size)
    with Watch(model, x, ids) as watch, autocast_as_on_a_gpu():
        def run() -> list:
            return [model.loss_function(logits=head(norm(watch.input(x))), labels=ids, vocab_size=model.config.vocab_size)]
        return watch.kept(run().pop())


@pytest.mark.parametrize("job", PREPARED.values(), ids=PREPARED)
@pytest.mark.parametrize("spec", [LLAMA, TIED], ids=["own head", "tied"])
def test_weights_of_prepared_models_are_as_estimated(spec, job):
    model = prepared(spec, job)
    assert estimated(spec, job.text, trainer="accelerate")["weights"] == sum(weight_storages(model).values())


@pytest.mark.parametrize("recompute", ["none", "full"])
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("job", PREPARED.values(), ids=PREPARED)
def test_layers_of_prepared_models_keep_what_the_list_says(job, attention, recompute):
    """The first layer after TRL has a narrow input, of which it keeps fp32 copies; the list has that of the others."""
    for spec in (LLAMA, ONE_HEAD, ALL_HEADS, QWEN3):
        spec = dataclasses.replace(spec, attention=attention, recompute=recompute)
        for index, real in enumerate(kept_by_prepared_layers(spec, prepared(spec, job))):
            if index == 0 and "trl" in job.text:
                continue
            ours = one_list(request(dataclasses.replace(spec, index=index), job=job.text, trainer="accelerate"))["kept"]
            assert not differences(ours, real), (index, spec.config["model_type"], spec.config["num_key_value_heads"])


@pytest.mark.parametrize("job", PREPARED.values(), ids=PREPARED)
def test_the_head_of_prepared_models_keeps_what_the_list_says(job):
    real = kept_by_prepared_head(LLAMA, prepared(LLAMA, job))
    ours = one_list(request(dataclasses.replace(LLAMA, attention="eager"), "head", job=job.text, trainer="accelerate"))["kept"]
    assert not differences(ours, real)


@pytest.mark.parametrize("shape", [(64, 290), (300, 128), (4096, 11008)])
def test_fp8_weights_have_a_scale_for_every_block(shape):
    from transformers.integrations.finegrained_fp8 import FP8Linear

    spec = Layer({"model_type": "llama", **_SMALL, "hidden_size": 64, "head_dim": 16, "intermediate_size": 290})
    if shape != (64, 290):
        inner, outer = shape
        spec = dataclasses.replace(spec, config={**spec.config, "hidden_size": inner, "intermediate_size": outer})
    with torch.device("meta"):
        module = FP8Linear(*shape, block_size=(128, 128))
    real = sum(parameter.numel() * parameter.element_size() for parameter in module.parameters() if parameter is not None and parameter.dim() > 1)
    operators = one_list(request(spec, job="lora=4,base=fp8"))["operators"]
    assert [one["stored"] for one in operators if one["name"] == "up"] == [real]
