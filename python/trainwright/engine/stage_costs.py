"""What the stages of a pipeline cost: bytes kept after F, released by I and by W, peaks inside, seconds.

Each stage is run alone with one micro-batch after another, by the functions that PyTorch's pipeline
runtime uses for B, I and W, while living storages are counted; then again for the seconds, uncounted. A
micro-batch's buffers at the stage's ends are not counted (docs/engine.md, Memory, says who holds them and
how long).
"""
import dataclasses
import time
from collections.abc import Callable, Sequence

import torch
from torch.distributed.pipelining._backward import stage_backward, stage_backward_input, stage_backward_weight

from .live_storages import LiveStorages

KINDS = "FIWB"


@dataclasses.dataclass(frozen=True)
class StageCosts:
    """Bytes and seconds of one micro-batch, and bytes of the stage itself.

    `kept`: alive after F, the output included. `by_input`: of it released by I, the gradient that I
    makes not counted; negative when I saves more for W than it frees. `by_weight`: released by W.
    `peaks`: the most within F, I, W and B above what was alive before the action, when the weights
    have gradients to which those of this micro-batch are added; `first_peaks`: within W and B when they
    have none. `resident`: weights, buffers and the
    optimizer's states; `gradients`: of the weights. On stage 0 I does nothing, as in the runtime."""
    kept: int
    by_input: int
    by_weight: int
    output: int
    peaks: tuple[int, int, int, int]
    first_peaks: tuple[int, int]
    resident: int
    gradients: int
    seconds: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)


class _Pass:
    """One micro-batch through a stage; each action is a method and leaves alive what the runtime does."""

    def __init__(self, module: torch.nn.Module, x: torch.Tensor, first: bool, loss: Callable | None, gradient: torch.Tensor | None):
        self.module, self.first, self.loss = module, first, loss
        self.weights = list(module.parameters())
        self.x = x.detach() if first else x.detach().requires_grad_()
        self.gradients = None if loss else [gradient]

    def forward(self) -> None:
        self.output = self.module(self.x)
        self.end = self.output if self.loss is None else self.loss(self.output)

    def backward(self) -> None:
        stage_backward(self.end if self.loss else (self.end,), self.gradients, [self.x])

    def backward_input(self) -> None:
        if not self.first:
            _, self.groups = stage_backward_input([self.end], self.gradients, [self.x], iter(self.weights))

    def backward_weight(self) -> None:
        if self.first:
            self.backward()
        else:
            stage_backward_weight(iter(self.weights), self.groups)

    def drop_output(self) -> None:
        """Of the last stage, at the end of I or B; what others sent is held until the step ends."""
        if self.loss is not None:
            self.output = None

    def drop_groups(self) -> None:
        self.groups = None


class _Meter:
    """Bytes of one action after the other."""

    def __init__(self, live: LiveStorages):
        self.live = live

    def run(self, action: Callable[[], None], then: Callable[[], None] = lambda: None) -> tuple[int, int]:
        """(most within, more after than before)."""
        before = self.live.bytes
        self.live.peak = before
        action()
        most = self.live.peak - before
        then()
        return most, self.live.bytes - before


def measure_stage(module: torch.nn.Module, x: torch.Tensor, first: bool, loss: Callable | None,
                  optimizer: Callable | None = None) -> StageCosts:
    """Bytes. `x`: the stage's input; `loss`: of the output, for the last stage; `optimizer`: makes one
    for a list of weights. Gradients of the weights that were there are replaced."""
    weights = list(module.parameters())
    for weight in weights:
        weight.grad = None
    own = {tensor.untyped_storage()._cdata: tensor for tensor in (*weights, *module.buffers())}
    gradient = None if loss else torch.ones_like(module(x).detach())
    live = LiveStorages()
    for tensor in (x, *own.values(), *([] if loss else [gradient])):
        live.ignore(tensor)
    resident = sum(tensor.untyped_storage().nbytes() for tensor in own.values())
    meter = _Meter(live)
    with live:
        first_backward, _ = _whole(module, x, first, loss, gradient, meter)
        for weight in weights:
            weight.grad = None
        (_, _, first_weight), _ = _split(module, x, first, loss, gradient, meter)
        gradients = sum(weight.grad.untyped_storage().nbytes() for weight in weights if weight.grad is not None)
        peak_backward, output = _whole(module, x, first, loss, gradient, meter)
        peaks, (kept, by_input, by_weight) = _split(module, x, first, loss, gradient, meter)
        if optimizer is not None:
            resident += meter.run(optimizer(weights).step)[1]
    return StageCosts(kept, by_input, by_weight, output, (*peaks, peak_backward), (first_weight, first_backward), resident, gradients)


def _whole(module, x, first, loss, gradient, meter: _Meter) -> tuple[int, int]:
    """The peak within B, and the size of the output."""
    one = _Pass(module, x, first, loss, gradient)
    one.forward()
    output = one.output.untyped_storage().nbytes()
    return meter.run(one.backward)[0], output


def _split(module, x, first, loss, gradient, meter: _Meter) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """The peaks within F, I and W; bytes kept after F, released by I and by W."""
    one = _Pass(module, x, first, loss, gradient)
    peak_forward, kept = meter.run(one.forward)
    peak_input, more = meter.run(one.backward_input, one.drop_output)
    input_gradient = 0 if first else one.x.grad.untyped_storage().nbytes()
    peak_weight, rest = meter.run(one.backward_weight, one.drop_groups)
    return (peak_forward, peak_input, peak_weight), (kept, input_gradient - more, -rest)


def _once(module, x, first, loss, gradient) -> None:
    one = _Pass(module, x, first, loss, gradient)
    one.forward()
    one.backward()


def time_stage(module: torch.nn.Module, x: torch.Tensor, first: bool, loss: Callable | None, repeats: int) -> tuple[float, float, float, float]:
    """Seconds of F, I, W and B: the shortest of some runs, as whatever else runs on the host only adds."""
    gradient = None if loss else torch.ones_like(module(x).detach())
    seconds: dict[str, list[float]] = {kind: [] for kind in KINDS}
    _once(module, x, first, loss, gradient)
    for _ in range(repeats):
        split, whole = (_Pass(module, x, first, loss, gradient) for _ in range(2))
        for kind, action in (("F", split.forward), ("I", split.backward_input), ("W", split.backward_weight)):
            seconds[kind].append(_seconds(action))
        whole.forward()
        seconds["B"].append(_seconds(whole.backward))
    forward, by_input, by_weight, backward = (min(seconds[kind]) for kind in KINDS)
    return forward, by_input, by_weight, backward


def _seconds(action: Callable[[], None]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def measure_stages(modules: Sequence[torch.nn.Module], x: torch.Tensor, loss: Callable, repeats: int = 1,
                   optimizer: Callable | None = None) -> list[StageCosts]:
    """Of a whole pipeline; each stage gets what the one before it gives."""
    answer = []
    for stage, module in enumerate(modules):
        at_end = loss if stage == len(modules) - 1 else None
        bytes_of = measure_stage(module, x, stage == 0, at_end, optimizer)
        answer.append(dataclasses.replace(bytes_of, seconds=time_stage(module, x, stage == 0, at_end, repeats)))
        with torch.no_grad():
            x = module(x)
    return answer


def costs_json(stages: list[StageCosts], times: bool, action: float = 0.0) -> dict:
    """For `trainwright schedule --costs FILE`: seconds and bytes by stage, sizes by boundary. Without
    times every action takes 1. `action`: the engine's own seconds, added to every action."""
    seconds = {kind: [stage.seconds[index] if times else 1 for stage in stages] for index, kind in enumerate(KINDS)}
    if not times:
        del seconds["B"]  # I and W
    peaks = {f"peak_{kind}": [stage.peaks[index] for stage in stages] for index, kind in enumerate(KINDS)}
    peaks |= {f"first_{kind}": [stage.first_peaks[index] for stage in stages] for index, kind in enumerate("WB")}
    bytes_of = {"kept": [stage.kept for stage in stages], "input": [stage.by_input for stage in stages],
                "resident": [stage.resident for stage in stages], "gradients": [stage.gradients for stage in stages],
                "size": [stage.output for stage in stages[:-1]]}
    return {**seconds, **bytes_of, **peaks, **({"action": action} if action else {})}
