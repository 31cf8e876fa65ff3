"""What a layer of transformers keeps for backward when torch.compile has it: the tensors that the forward graph hands to
the backward graph, as the min-cut partitioner of torch 2.13 cuts them, without parameters and what all layers share.
The list with `on=compile` has as many bytes, to the byte; the loss has two per logit."""
import dataclasses

import pytest
import torch

from kept_storages import Layer, build_layer
from test_kept_storages import FAMILIES
from work_lists import lists, request

# The graphs of inductor, run operator by operator.
BACKEND = "aot_eager_decomp_partition"


def saved_bytes(output: torch.Tensor, *others: torch.Tensor) -> int:
    """Of the storages that the compiled graph holds and that were not there before."""
    before = {one.untyped_storage()._cdata for one in others}
    saved = {one.untyped_storage()._cdata: one.untyped_storage().nbytes() for one in output.grad_fn.saved_tensors}
    return sum(size for address, size in saved.items() if address not in before)


def tensors_in(*things) -> list[torch.Tensor]:
    return [leaf for leaf in torch.utils._pytree.tree_leaves(things) if isinstance(leaf, torch.Tensor)]


def kept_when_compiled(spec: Layer) -> int:
    torch._dynamo.reset()
    layer, x, args, kwargs = build_layer(spec)
    x = x.clone().requires_grad_()
    output = torch.compile(layer, backend=BACKEND, dynamic=False)(x, *args, **kwargs)
    output = output[0] if isinstance(output, tuple) else output
    # The layer's input counts: in a stack it is another layer's output.
    return saved_bytes(output, *layer.parameters(), *layer.buffers(), *tensors_in(args, kwargs))


CASES = [dataclasses.replace(spec, recompute=recompute) for family in ("llama", "qwen3")
         for spec in FAMILIES[family] for recompute in ("none", "op-selective")]


@pytest.mark.parametrize("spec", CASES, ids=lambda spec: f"{spec.config['model_type']} {spec.recompute} {spec.batch}x{spec.sequence}")
def test_layer(spec):
    [expected] = lists([request(spec, on="compile")])
    assert kept_when_compiled(spec) == sum(one["bytes"] for one in expected["kept"])


def test_loss():
    torch._dynamo.reset()
    rows, width = 24, 1000
    logits = torch.randn(rows, width, dtype=torch.bfloat16, requires_grad=True)
    labels = torch.zeros(rows, dtype=torch.int64)

    def loss(logits, labels):
        return torch.nn.functional.cross_entropy(logits.float(), labels)

    value = torch.compile(loss, backend=BACKEND, dynamic=False)(logits, labels)
    assert saved_bytes(value, labels) == pytest.approx(2 * rows * width + 2 * 4 * rows, abs=8)
