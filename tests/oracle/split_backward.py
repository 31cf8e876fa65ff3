"""The two halves of a layer's backward pass, run by the functions of PyTorch's pipeline runtime: which kept storages
each of them reads, and what is alive between them."""
import dataclasses

import torch
from torch.distributed.pipelining._backward import stage_backward_input, stage_backward_weight

from kept_storages import Kept, Layer, Watch, build_layer, dropout_as_on_a_gpu


@dataclasses.dataclass(frozen=True)
class Halves:
    """`kept`: storages that the graph holds after the forward pass, the layer's input among them if it is; which of
    them I and W read, by position. `released`: those that are gone after I. `held`: gradients that I leaves for W.
    `stray`: what else is alive after I and was made by it, without the gradient of the input, which is passed on."""
    kept: list[Kept]
    read_by_input: set[int]
    read_by_weight: set[int]
    released: set[int]
    held: list[Kept]
    stray: list[Kept]


def halves(spec: Layer) -> Halves:
    """Input and output of a stage are held by the runtime; that is not counted."""
    layer, x, args, kwargs = build_layer(spec)
    weights = list(layer.parameters())
    with dropout_as_on_a_gpu(), Watch(layer, x, args, kwargs) as watch:
        x = watch.input(x)
        output = layer(x, *args, **kwargs)
        output = output[0] if isinstance(output, tuple) else output
        gradient = torch.ones(output.shape, dtype=output.dtype)
        saved = watch.saved(output.grad_fn)
        ends = {watch.number(tensor) for tensor in (x, output, gradient)}
        made = watch.mark("I")
        input_gradients, groups = stage_backward_input([output], [gradient], [x], iter(weights))
        alive = watch.alive_numbers()
        held = {watch.number(one) for group in groups for grads in group["grads"] for one in grads if one is not None}
        ends |= {watch.number(one) for one in input_gradients}
        stray = [number for number in alive if number >= made and number not in ends | held]
        watch.mark("W")
        stage_backward_weight(iter(weights), groups)
        reads = watch.reads()
        read_by = {half: {place for place, number in enumerate(saved) if number in reads[half]} for half in ("I", "W")}
        released = {place for place, number in enumerate(saved) if number not in alive and number not in ends}
        return Halves([watch.describe(number) for number in saved], read_by["I"], read_by["W"], released,
                      [watch.describe(number) for number in sorted(held)], [watch.describe(number) for number in stray])
