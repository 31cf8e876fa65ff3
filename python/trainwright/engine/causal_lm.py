"""Language models of `transformers` as programs to record: a model, a batch, checkpointing, an
optimizer. Sizes are those of the configuration class unless they are given."""
import contextlib
import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

CHECKPOINTING = ("none", "reentrant", "non-reentrant", "selective")
OPTIMIZERS: dict[str, Callable | None] = {
    "none": None,
    "sgd": functools.partial(torch.optim.SGD, lr=1e-3),
    "adamw": functools.partial(torch.optim.AdamW, lr=1e-3, foreach=False),
    "adamw-foreach": functools.partial(torch.optim.AdamW, lr=1e-3, foreach=True),
    "adamw-fused": functools.partial(torch.optim.AdamW, lr=1e-3, fused=True),
}
# What selective checkpointing keeps: the results of matrix products, which cost most to make again.
KEPT_OPS = tuple(getattr(torch.ops.aten, name).default for name in ("mm", "addmm", "bmm"))


@dataclasses.dataclass(frozen=True)
class CausalLm:
    """`kind`: a model type of transformers ("llama"); `sizes`: fields of its configuration."""
    kind: str
    sizes: dict[str, Any] = dataclasses.field(default_factory=dict)
    batch: int = 1
    sequence: int = 16
    dtype: torch.dtype = torch.float32
    checkpointing: str = "none"
    attention: str = "eager"
    seed: int = 1


@contextlib.contextmanager
def tensors_of(spec: CausalLm, fake: bool):
    """Tensors made inside are fake, or real and the same every time."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(spec.dtype)  # `.to(dtype)` of a module fails with fake tensors.
    try:
        with contextlib.ExitStack() as stack:
            if fake:
                stack.enter_context(FakeTensorMode(allow_non_fake_inputs=True))
            torch.manual_seed(spec.seed)
            yield
    finally:
        torch.set_default_dtype(before)


def build(spec: CausalLm, fake: bool) -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    """The model in training mode, and its batch with labels."""
    from transformers import AutoConfig, AutoModelForCausalLM

    sizes = {"use_cache": False, **spec.sizes}
    config = AutoConfig.for_model(spec.kind, **sizes)
    config._attn_implementation = spec.attention
    with tensors_of(spec, fake):
        model = AutoModelForCausalLM.from_config(config)
        ids = torch.randint(0, config.vocab_size, (spec.batch, spec.sequence))
        inputs = {"input_ids": ids, "labels": ids.clone()}
    model.train()
    checkpoint(model, spec.checkpointing)
    return model, inputs


def checkpoint(model: torch.nn.Module, how: str, **more: Any) -> None:
    """Checkpoints every layer of a model of transformers; `more` goes to PyTorch's `checkpoint`."""
    from torch.utils.checkpoint import create_selective_checkpoint_contexts

    if how == "none":
        return
    options: dict[str, Any] = {"use_reentrant": how == "reentrant", **more}
    if how == "selective":
        options["context_fn"] = functools.partial(create_selective_checkpoint_contexts, list(KEPT_OPS))
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=options)
