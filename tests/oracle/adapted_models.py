"""Models of `transformers` of which only a part is trained: adapters of `peft`, or some of their own weights.

What a list of a layer or of an end keeps is counted as in kept_storages.py. A gradient flows into a layer of the whole
model or not, and the layer that runs alone here is given an input that says the same.
"""
import contextlib
import dataclasses

import torch
from torch.utils.flop_counter import FlopCounterMode, bmm_flop, sdpa_backward_flop_count, sdpa_flop_count

from kept_storages import Kept, Layer, Watch, configuration, dropout_as_on_a_gpu, layers_of

aten = torch.ops.aten


@dataclasses.dataclass(frozen=True)
class Job:
    """`lora`: target modules, or "all-linear"; `frozen`: name prefixes of parameters that are not trained. `text` is the
    same as a job of ours."""
    text: str
    lora: tuple[str, ...] | str | None = None
    dropout: float = 0.0
    widened: bool = True
    frozen: tuple[str, ...] = ()
    rank: int = 4
    layers: tuple[int, ...] | None = None  # with adapters
    autocast: bool = False
    copies: tuple[str, ...] = ()  # modules that are trained whole beside adapters

    def precision(self):
        return torch.autocast("cpu", torch.bfloat16) if self.autocast else contextlib.nullcontext()


def build(spec: Layer, job: Job) -> torch.nn.Module:
    """The causal model, as peft makes it by default."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_config(configuration(spec)).to(spec.dtype).train()
    if spec.recompute == "full":
        model.gradient_checkpointing_enable()
    for name, parameter in model.named_parameters():
        if any(part in name for part in job.frozen):
            parameter.requires_grad_(False)
    if job.lora is not None:
        from peft import LoraConfig, get_peft_model

        targets = job.lora if isinstance(job.lora, str) else list(job.lora)
        config = LoraConfig(r=job.rank, target_modules=targets, lora_dropout=job.dropout,
                            layers_to_transform=None if job.layers is None else list(job.layers),
                            modules_to_save=list(job.copies) or None)
        get_peft_model(model, config, autocast_adapter_dtype=job.widened)
    return model


def tokens(spec: Layer, model: torch.nn.Module) -> torch.Tensor:
    return torch.randint(0, model.config.vocab_size, (spec.batch, spec.sequence))


def trained_numbers(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def kept_by_layers(spec: Layer, job: Job) -> list[list[Kept]]:
    """Of every layer of the model."""
    model = build(spec, job)
    layers = layers_of(model.base_model)
    caught: list[tuple] = []
    hooks = [layer.register_forward_pre_hook(lambda _, args, kwargs: caught.append((args, kwargs)), with_kwargs=True)
             for layer in layers]
    model(tokens(spec, model))
    for hook in hooks:
        hook.remove()
    return [kept_by(spec, layer, *call, precision=job.precision) for layer, call in zip(layers, caught)]


def kept_by(spec: Layer, layer: torch.nn.Module, args, kwargs, there=(), precision=contextlib.nullcontext) -> list[Kept]:
    """`there`: tensors that are the model's and not among its parameters."""
    x, *others = args
    with dropout_as_on_a_gpu(), Watch(layer, x, others, kwargs, list(there)) as watch:
        def run() -> list:
            made = watch.input(x)
            with precision():
                results = layer(made if x.requires_grad else made.detach(), *others, **kwargs)
            return [results[0] if isinstance(results, tuple) else results]
        return watch.kept(run().pop(), spec.recompute != "none")


def kept_by_head(spec: Layer, job: Job) -> list[Kept]:
    """Of the final norm, the head and the loss."""
    model = build(spec, job)
    ids = tokens(spec, model)
    norm = next(module for name, module in model.base_model.named_modules() if name.split(".")[-1] in ("norm", "ln_f", "final_layer_norm"))
    caught: list[torch.Tensor] = []
    hook = norm.register_forward_pre_hook(lambda _, args: caught.append(args[0]))
    model(ids)
    hook.remove()
    x = caught[0]
    with Watch(model, x, ids) as watch:
        def run() -> list:
            made = watch.input(x)
            logits = model.get_output_embeddings()(norm(made if x.requires_grad else made.detach()))
            return [model.loss_function(logits=logits, labels=ids, vocab_size=model.config.vocab_size)]
        return watch.kept(run().pop())


# PyTorch's counter has no formula for the fused kernels of CPUs. Backward, its formulas for those of GPUs count the scores
# that these kernels make again; a list does not. Of a causal mask both count all pairs of tokens; a kernel of a GPU skips those
# that it hides, and so does a list.
def _seen(count: int, tokens: int, causal: bool) -> int:
    return count * (tokens + 1) // (2 * tokens) if causal else count


def _forward(query, key, value, dropout=0.0, causal=False, *_, out_shape=None, **__) -> int:
    return _seen(sdpa_flop_count(query, key, value), query[2], causal)


def _backward(gradient, query, key, value, out, logsumexp, dropout=0.0, causal=False, *_, out_shape=None, **__) -> int:
    batch, heads, tokens, width = query
    again = bmm_flop((batch * heads, tokens, width), (batch * heads, width, key[2]))
    return _seen(sdpa_backward_flop_count(gradient, query, key, value) - again, tokens, causal)


FUSED = {aten._scaled_dot_product_flash_attention_for_cpu: _forward,
         aten._scaled_dot_product_flash_attention_for_cpu_backward: _backward}


def flops(spec: Layer, model: torch.nn.Module) -> tuple[int, int]:
    """Of the model's forward and backward pass, the loss included."""
    ids = tokens(spec, model)
    with FlopCounterMode(display=False, custom_mapping=FUSED) as forward, contextlib.redirect_stdout(None):
        loss = model(input_ids=ids, labels=ids).loss
    with FlopCounterMode(display=False, custom_mapping=FUSED) as backward:
        loss.backward()
    return forward.get_total_flops(), backward.get_total_flops()
