"""The one place that knows PyTorch's private pipeline runtime.

`_PipelineScheduleRuntime` (torch.distributed.pipelining.schedules) takes a schedule as CSV, adds the
transfers and runs it. It is private, so its shape is probed before use (`probe`) and its results are
checked against an unpipelined model on a small schedule before anything else runs (worker.py).

Traps that this file takes care of: local stages are listed in ascending order; shapes are given
up front on every stage (STATIC metadata), or the engine would run each stage once more to find them;
`return_outputs=False`, or the last stage keeps every output until the next step.
"""
import contextlib
import dataclasses
import functools
import inspect
import os
import tempfile
import time
import warnings

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, schedules

from .live_storages import LiveStorages
from .schedule_csv import Schedule
from .stages import ModelSpec, batch, boundary_example, build_stage, loss_of

# The build on which every trap above was tried. Others are probed and self-tested all the same.
TRIED_TORCH = "2.13"


# A learning rate of 0: states and temporaries are the real ones, and every step has the same gradients.
OPTIMIZERS = {
    "none": None,
    "sgd": functools.partial(torch.optim.SGD, lr=0.0),
    "adamw": functools.partial(torch.optim.AdamW, lr=0.0, foreach=False),
}


class EngineChanged(RuntimeError):
    """This PyTorch's pipeline runtime is not the one that we know how to drive."""


def probe() -> str:
    """The torch version; raises EngineChanged when a private name that we use is gone."""
    missing = [name for name in ("_PipelineScheduleRuntime", "_Action", "record_function") if not hasattr(schedules, name)]
    if not missing:
        missing += _missing_parameters(schedules._PipelineScheduleRuntime._load_csv, ("filename", "format"))
        missing += _missing_parameters(schedules._PipelineScheduleRuntime.step, ("target", "losses", "return_outputs"))
        missing += _missing_parameters(schedules.PipelineScheduleMulti.__init__, ("stages", "n_microbatches", "loss_fn", "scale_grads"))
        missing += _missing_parameters(PipelineStage.__init__, ("stage_index", "num_stages", "input_args", "output_args", "group"))
    if missing:
        raise EngineChanged(f"torch {torch.__version__} lacks {', '.join(missing)}; tried with torch {TRIED_TORCH}")
    if not torch.__version__.startswith(TRIED_TORCH + "."):
        warnings.warn(f"torch {torch.__version__}: the runner was tried with {TRIED_TORCH}", stacklevel=2)
    return torch.__version__


def _missing_parameters(function, names: tuple[str, ...]) -> list[str]:
    known = inspect.signature(function).parameters
    return [f"{function.__qualname__}({name})" for name in names if name not in known]


@dataclasses.dataclass
class ActionRecord:
    """One action as it ran: seconds of the host's monotonic clock, live bytes at its end."""
    action: str
    start: float
    end: float
    live_bytes: int = 0


@dataclasses.dataclass
class StepResult:
    """What one rank saw of one step. `losses` is empty unless the rank has the last stage."""
    start: float
    end: float
    losses: list[float]
    actions: list[ActionRecord]
    live_peak: int = 0


class PipelineRank:
    """This process's part of a pipeline: its stages, loaded with the schedule, ready to step."""

    def __init__(self, schedule: Schedule, spec: ModelSpec, group: dist.ProcessGroup, device: torch.device, optimizer: str = "none"):
        self.schedule, self.spec, self.device = schedule, spec, device
        rank = dist.get_rank(group)
        self.modules = {stage: build_stage(spec, stage, device, schedule.stages) for stage in schedule.stages_of(rank)}
        stages = [_pipeline_stage(module, stage, schedule, spec, group, device) for stage, module in self.modules.items()]
        self.engine = schedules._PipelineScheduleRuntime(
            stages, schedule.microbatches, loss_fn=loss_of(spec), scale_grads=True)
        _load(self.engine, schedule)
        self.inputs, self.targets = batch(spec, schedule.microbatches, device)
        make = OPTIMIZERS[optimizer]
        self.optimizer = make and make([weight for module in self.modules.values() for weight in module.parameters()])
        self.is_first = 0 in self.modules
        self.is_last = schedule.stages - 1 in self.modules

    def step(self, live: LiveStorages | None = None, record: bool = False) -> StepResult:
        """One training step; the gradients are left in the modules' parameters."""
        for module in self.modules.values():
            module.zero_grad(set_to_none=True)
        losses: list[torch.Tensor] = []
        arguments = (self.inputs,) if self.is_first else ()
        wanted = {"target": self.targets, "losses": losses} if self.is_last else {}
        actions: list[ActionRecord] = []
        if live:
            live.peak = live.bytes
        with _recorded(actions, live) if record or live else contextlib.nullcontext():
            start = time.monotonic()
            self.engine.step(*arguments, return_outputs=False, **wanted)
            if self.optimizer:
                self.optimizer.step()
            if self.device.type == "cuda":
                torch.cuda.synchronize(self.device)
            end = time.monotonic()
        return StepResult(start, end, [loss.item() for loss in losses], actions, live.peak if live else 0)

    def metadata_was_static(self) -> bool:
        """False when the engine did not take the shapes that it was given."""
        return all(stage._inference_mode.name == "STATIC" for stage in self.engine._stages)


def _pipeline_stage(module, stage, schedule, spec, group, device) -> PipelineStage:
    taken, given = (boundary_example(spec, boundary, schedule.stages) for boundary in (stage, stage + 1))
    return PipelineStage(
        module, stage, schedule.stages, device,
        input_args=(taken.requires_grad_(stage > 0),),
        output_args=(given.requires_grad_(),), group=group)


def _load(engine, schedule: Schedule) -> None:
    handle, path = tempfile.mkstemp(suffix=".csv")
    try:
        with os.fdopen(handle, "w", newline="") as file:
            file.write(schedule.text)
        engine._load_csv(path, format=schedule.format)
    finally:
        os.unlink(path)


@contextlib.contextmanager
def _recorded(actions: list[ActionRecord], live: LiveStorages | None):
    """Notes every action's start and end, by standing in for the profiler range around it."""

    @contextlib.contextmanager
    def action_range(name: str):
        start = time.monotonic()
        yield
        actions.append(ActionRecord(name.removeprefix("PP:"), start, time.monotonic(), live.bytes if live else 0))

    original = schedules.record_function
    schedules.record_function = action_range
    try:
        with live if live else contextlib.nullcontext():
            yield
    finally:
        schedules.record_function = original
