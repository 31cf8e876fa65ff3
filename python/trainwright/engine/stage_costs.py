"""What the stages of a pipeline cost: bytes kept after F, released by I and by W, peaks inside, seconds.

Each stage is run alone with one micro-batch, forward and split backward, by the functions that PyTorch's
pipeline runtime uses for I and W, while living storages are counted. A micro-batch's buffers at the
stage's ends and the weights are not counted (docs/engine.md, Memory, says who holds them and how long).
"""
import dataclasses
import time
from collections.abc import Callable, Sequence

import torch
from torch.distributed.pipelining._backward import stage_backward, stage_backward_input, stage_backward_weight

from .live_storages import LiveStorages


@dataclasses.dataclass(frozen=True)
class StageCosts:
    """Bytes and seconds of one micro-batch.

    `kept`: alive after F, the output included. `by_input`: of it released by I, the gradient that I
    makes not counted; negative when I saves more for W than it frees. `by_weight`: released by W,
    the weights' gradients not counted. `peaks`: the most within F, I and W above what was alive
    before the action. On stage 0 I does nothing, as in the runtime."""
    kept: int
    by_input: int
    by_weight: int
    output: int
    peaks: tuple[int, int, int]
    seconds: tuple[float, float, float]


class _Meter:
    """Bytes and seconds of one action after the other."""

    def __init__(self, live: LiveStorages):
        self.live = live
        self.peaks: list[int] = []
        self.seconds: list[float] = []
        self.after: list[int] = []

    def run(self, action: Callable):
        before = self.live.bytes
        self.live.peak = before
        start = time.perf_counter()
        result = action()
        self.seconds.append(time.perf_counter() - start)
        self.peaks.append(self.live.peak - before)
        return result

    def end(self) -> None:
        """What the action leaves behind is what the runtime holds now."""
        self.after.append(self.live.bytes)


def measure_stage(module: torch.nn.Module, x: torch.Tensor, first: bool, loss: Callable | None) -> StageCosts:
    """`x`: the stage's input; `loss`: of the output, for the last stage. Gradients of the weights that
    were there are replaced."""
    weights = list(module.parameters())
    x = x.detach() if first else x.detach().requires_grad_()
    gradient = None if loss else torch.ones_like(module(x).detach())
    for weight in weights:
        weight.grad = None
    live = LiveStorages()
    for tensor in (x, *weights, *module.buffers(), *([] if loss else [gradient])):
        live.ignore(tensor)
    meter = _Meter(live)
    with live:
        output = meter.run(lambda: module(x))
        output_size = output.untyped_storage().nbytes()
        end = _end_of(loss, output)
        meter.end()
        if loss is not None:
            del output  # The runtime keeps the loss; the output lives as long as the graph needs it.
        gradients = None if loss else [gradient]
        groups = None
        if first:
            meter.run(lambda: None)
        else:
            _, groups = meter.run(lambda: stage_backward_input([end], gradients, [x], iter(weights)))
        input_gradient = 0 if first else x.grad.untyped_storage().nbytes()
        meter.end()
        if first:
            meter.run(lambda: stage_backward((end,), gradients, [x]))
        else:
            meter.run(lambda: stage_backward_weight(iter(weights), groups))
        del groups
        meter.end()
    weight_gradients = sum(weight.grad.untyped_storage().nbytes() for weight in weights if weight.grad is not None)
    kept, after_input, after_weight = meter.after
    return StageCosts(kept, kept + input_gradient - after_input, after_input + weight_gradients - after_weight,
                      output_size, tuple(meter.peaks), tuple(meter.seconds))


def _end_of(loss: Callable | None, output: torch.Tensor) -> torch.Tensor:
    return output if loss is None else loss(output)


def measure_stages(modules: Sequence[torch.nn.Module], x: torch.Tensor, loss: Callable) -> list[StageCosts]:
    """Of a whole pipeline; each stage gets what the one before it gives."""
    answer = []
    for stage, module in enumerate(modules):
        last = stage == len(modules) - 1
        answer.append(measure_stage(module, x, stage == 0, loss if last else None))
        with torch.no_grad():
            x = module(x)
    return answer


def fastest(runs: list[list[StageCosts]]) -> list[StageCosts]:
    """The least seconds of each action over several runs; the bytes are the same in all of them."""
    return [dataclasses.replace(stage[0], seconds=tuple(min(times) for times in zip(*(one.seconds for one in stage))))
            for stage in zip(*runs)]


def costs_json(stages: list[StageCosts], times: bool) -> dict:
    """For `trainwright schedule --costs FILE`: seconds and bytes by stage, sizes by boundary. Without
    times every action takes 1."""
    seconds = {kind: [stage.seconds[index] if times else 1 for stage in stages] for index, kind in enumerate("FIW")}
    return {**seconds, "kept": [stage.kept for stage in stages], "input": [stage.by_input for stage in stages],
            "size": [stage.output for stage in stages[:-1]]}
