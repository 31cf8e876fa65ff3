"""What real optimizers hold after a step of a small model on this machine's CPU is what is estimated, to the byte: PyTorch's
own, and bitsandbytes' 8-bit AdamW. Counters of steps, which PyTorch keeps on the host, are left out. Every model has a
weight that is large enough for 8 bits. And what a step makes and drops, as recorded."""
import dataclasses

import pytest
import torch

import trainwright
from adapted_models import Job, build, tokens
from estimates import estimated
from kept_storages import Layer
from test_kept_storages import _GPT2, _SMALL, BF16, FP32

MODELS = {
    "llama": Layer({"model_type": "llama", **_SMALL, "hidden_size": 64, "head_dim": 16, "intermediate_size": 290}, batch=2, sequence=16),
    "llama, tied": Layer({"model_type": "llama", **_SMALL, "hidden_size": 64, "intermediate_size": 72, "tie_word_embeddings": True}, batch=2, sequence=16),
    "gpt2": Layer({"model_type": "gpt2", **_GPT2, "n_embd": 96}, batch=2, sequence=16),
    "qwen2": Layer({"model_type": "qwen2", **_SMALL, "hidden_size": 128, "head_dim": 32}, batch=2, sequence=16),
    "mixtral": Layer({"model_type": "mixtral", **_SMALL, "num_local_experts": 4, "num_experts_per_tok": 2}, batch=2, sequence=16),
}


def hidden(name: str, parameter: torch.Tensor) -> bool:
    return parameter.dim() == 2 and not any(end in name for end in ("embed_tokens", "lm_head", "wte", "wpe"))


def muon(model: torch.nn.Module) -> list[torch.optim.Optimizer]:
    named = [(name, one) for name, one in model.named_parameters() if one.requires_grad]
    others = [one for name, one in named if not hidden(name, one)]
    return [torch.optim.Muon([one for name, one in named if hidden(name, one)])] + ([torch.optim.AdamW(others)] if others else [])


def eight_bits(model: torch.nn.Module) -> list[torch.optim.Optimizer]:
    from bitsandbytes.optim import AdamW8bit

    return [AdamW8bit(model.parameters())]


OPTIMIZERS = {
    "adamw": lambda model: [torch.optim.AdamW(model.parameters())],
    "adafactor": lambda model: [torch.optim.Adafactor(model.parameters())],
    "sgd": lambda model: [torch.optim.SGD(model.parameters(), momentum=0.9)],
    "sgd-no-momentum": lambda model: [torch.optim.SGD(model.parameters())],
    "muon": muon,
    "adamw-8bit": eight_bits,
}


def make_states(optimizers: list[torch.optim.Optimizer]) -> None:
    """By a step; of bitsandbytes' alone, whose steps need a GPU, by what it calls before."""
    for optimizer in optimizers:
        if not hasattr(optimizer, "init_state"):
            optimizer.step()
            continue
        optimizer.check_overrides()
        for at, group in enumerate(optimizer.param_groups):
            for index, parameter in enumerate(group["params"]):
                if parameter.requires_grad:
                    optimizer.init_state(group, parameter, at, index)


def held(optimizers: list[torch.optim.Optimizer]) -> int:
    """Bytes of all storages; tables are shared."""
    tensors = [value for optimizer in optimizers for state in optimizer.state.values() for key, value in state.items()
               if torch.is_tensor(value) and key != "step"]
    return sum({one.untyped_storage().data_ptr(): one.untyped_storage().nbytes() for one in tensors}.values())


def states(spec: Layer, job: Job, kind: str) -> int:
    model = build(spec, job)
    ids = tokens(spec, model)
    model(input_ids=ids, labels=ids).loss.backward()
    optimizers = OPTIMIZERS[kind](model)
    make_states(optimizers)
    return held(optimizers)


@pytest.mark.parametrize("dtype", [BF16, FP32])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_states_are_as_estimated(kind, model, dtype):
    if kind == "muon" and model == "mixtral":
        pytest.skip("torch.optim.Muon refuses tensors of three dimensions")
    spec = dataclasses.replace(MODELS[model], dtype=dtype)
    assert estimated(spec, f"optimizer={kind}")["optimizer_states"] == states(spec, Job(""), kind)


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_states_of_adapters_are_as_estimated(kind):
    job = Job("lora=16:q_proj+down_proj", ("q_proj", "down_proj"), rank=16)
    spec = MODELS["llama"]
    assert estimated(spec, f"{job.text},optimizer={kind}")["optimizer_states"] == states(spec, job, kind)


# As on a GPU, where foreach is the default.
STEPS = {
    "adamw": lambda model: torch.optim.AdamW(model.parameters(), foreach=True),
    "adamw-fused": lambda model: torch.optim.AdamW(model.parameters(), fused=True),
    "adafactor": lambda model: torch.optim.Adafactor(model.parameters(), foreach=True),
    "sgd": lambda model: torch.optim.SGD(model.parameters(), momentum=0.9, foreach=True),
}


@pytest.mark.parametrize("dtype", [BF16, FP32])
@pytest.mark.parametrize("kind", STEPS)
def test_temporaries_of_a_step_are_as_recorded(kind, dtype):
    """So few tokens that the step is the highest moment."""
    spec = dataclasses.replace(MODELS["llama"], dtype=dtype, batch=1, sequence=4)
    model = build(spec, Job(""))
    ids = tokens(spec, model)
    model(input_ids=ids, labels=ids).loss.backward()
    optimizer = STEPS[kind](model)
    optimizer.step()
    recording = trainwright.record(lambda: None, optimizer=optimizer)
    assert estimated(spec, f"optimizer={kind}")["step"] == recording.peak - recording.live_begin
