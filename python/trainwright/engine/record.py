"""Records what a PyTorch program does to its memory: every op with the storages it reads, writes and
makes, and the death of every storage. No GPU is needed, and with fake tensors no memory either.

    import trainwright
    recording = trainwright.record(model, {"input_ids": ids, "labels": ids}, optimizer=torch.optim.AdamW,
                                   steps=2, path="trace.jsonl")
    print(recording.peak, recording.by_kind)

A model whose parameters were made under `FakeTensorMode` is recorded under it. The trace
(docs/trace.md) is read by `trainwright replay trace.jsonl`.

Storages are told apart by identity, so views and in-place ops make nothing. A storage is taken to be
what the rule of PyTorch's `MemTracker` says: made inside the optimizer step, optimizer; inside
backward and outside a module that is recomputing, temporary; otherwise activation. Hooks relabel
gradients, parameters, buffers and the optimizer's state. Memory that an op uses inside itself is not
seen, and neither are tensors that existed before and are not the model's, the optimizer's or inputs.
"""
import contextlib
import dataclasses
import io
import pathlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch.utils._pytree import tree_leaves

from .recorder import Recorder
from .trace import Kind, TraceWriter


@dataclasses.dataclass(frozen=True)
class StepBytes:
    """After a step: bytes alive, and the peak of all steps so far."""
    live: int
    peak: int
    by_kind: dict[str, int]  # at that peak


@dataclasses.dataclass(frozen=True)
class Recording:
    """What the recorder counted itself; the replay of the trace must find the same. Bytes."""
    peak: int
    by_kind: dict[str, int]  # at the peak
    peak_op: int  # -1: before the first
    live_begin: int
    after_step: list[StepBytes]
    ops: int
    storages: int
    fake: bool
    text: str | None  # the trace, when no path was given


def record(program: torch.nn.Module | Callable, inputs: Any = (), optimizer: Any = None, steps: int = 1, *,
           loss: Callable[[Any], torch.Tensor] | None = None, path: str | pathlib.Path | None = None,
           name: str | None = None, rounding: int = 1) -> Recording:
    """Runs `steps` training steps of `program(*inputs)`, or `program(**inputs)` for a mapping:
    forward, backward, `optimizer.step()`, `optimizer.zero_grad()`.

    `optimizer`: an optimizer, a function of the parameters that makes one (only for a module), or None.
    `loss`: a function of what the program returns; by default its `.loss`, or the tensor itself. A
    program that returns None is taken to have run its own backward; without gradients there is none.
    `rounding`: bytes that storages are rounded up to when counted; 512 is what a CUDA device counts.

    A weight of 3 x 4 numbers and a batch of 2 x 4, of which a product makes 2 x 3 more, in fp32; then the weight's gradient:

    >>> import torch, trainwright
    >>> program = torch.nn.Linear(4, 3, bias=False)
    >>> recording = trainwright.record(program, (torch.ones(2, 4),), loss=torch.sum)
    >>> recording.by_kind["parameter"], recording.by_kind["input"]
    (48, 32)
    >>> recording.after_step[0].live >= 48 + 32
    True
    """
    modules = [program] if isinstance(program, torch.nn.Module) else []
    if callable(optimizer) and not isinstance(optimizer, torch.optim.Optimizer):
        optimizer = optimizer(list(_parameters(modules)))
    mode = _fake_mode(modules, inputs)
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(open(path, "w")) if path is not None else io.StringIO()
        writer = TraceWriter(file, name or _name(program), "cpu", rounding)
        if mode is not None:
            stack.enter_context(mode)
        recorder = Recorder(writer, fake=mode is not None)
        recorder.exist(*modules, optimizer, inputs)
        live_begin = writer.live
        stack.enter_context(recorder)
        after_step = []
        for step in range(1, steps + 1):
            recorder.next_iteration(f"iteration {step}")
            train_step(program, inputs, optimizer, loss)
            after_step.append(StepBytes(writer.live, writer.peak, _by_kind(writer)))
        writer.finish()
        return Recording(
            peak=writer.peak, by_kind=_by_kind(writer), peak_op=writer.peak_op, live_begin=live_begin,
            after_step=after_step, ops=writer.ops, storages=writer.storages, fake=mode is not None,
            text=file.getvalue() if isinstance(file, io.StringIO) else None)


def train_step(program: Callable, inputs: Any, optimizer: torch.optim.Optimizer | None,
               loss: Callable[[Any], torch.Tensor] | None = None) -> None:
    """One step; nothing of it but gradients-to-come and optimizer state outlives the call."""
    output = program(**inputs) if isinstance(inputs, Mapping) else program(*inputs)
    value = _loss_of(output, loss)
    del output
    if value is not None and value.requires_grad:
        value.backward()
    del value
    if optimizer is not None:
        optimizer.step()
        optimizer.zero_grad()
    elif isinstance(program, torch.nn.Module):
        program.zero_grad()


def _loss_of(output: Any, loss: Callable[[Any], torch.Tensor] | None) -> torch.Tensor | None:
    if output is None:
        return None
    if loss is not None:
        return loss(output)
    value = getattr(output, "loss", output)
    if not isinstance(value, torch.Tensor) or value.numel() != 1:
        raise ValueError("the program returns no scalar and nothing with a .loss: give record(..., loss=function)")
    return value


def _parameters(modules: list[torch.nn.Module]) -> Iterable[torch.nn.Parameter]:
    if not modules:
        raise ValueError("an optimizer can be made from a module's parameters only: pass an optimizer")
    return (parameter for module in modules for parameter in module.parameters())


def _fake_mode(modules: list[torch.nn.Module], inputs: Any):
    tensors = [leaf for leaf in tree_leaves(inputs) if isinstance(leaf, torch.Tensor)]
    tensors += [parameter for module in modules for parameter in module.parameters()]
    return detect_fake_mode(tensors)


def _name(program: Callable) -> str:
    return getattr(program, "__name__", type(program).__name__)


def _by_kind(writer: TraceWriter) -> dict[str, int]:
    return {kind.name.lower(): writer.peak_by_kind[kind] for kind in Kind}
