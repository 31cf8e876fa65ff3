"""Adapters beside weights in 4 and 8 bits: what transformers, bitsandbytes and peft hold on this machine's CPU is what is
estimated, to the byte. Weights with their scales and tables, kept storages of every layer, trained parameters, FLOPs.

Of int8, bitsandbytes runs another function on CPUs than on GPUs (MatMul8bitFp); both hold the product's input.
"""
import dataclasses
import tempfile

import pytest
import torch

from adapted_models import Job, build, flops, kept_by, tokens, trained_numbers
from estimates import estimated
from kept_storages import Layer, configuration, layers_of
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
    get_peft_model(model, LoraConfig(r=job.rank, target_modules=targets))
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
