"""Trainwright plans large-model training: which layout and schedule fit, how fast they are, and why.

>>> import trainwright
>>> plan = trainwright.plan("llama-2-7b", on="8xH100", batch=64, seq=4096)
>>> plan.end
'found'

A model is a zoo name, a path, a dict or a `transformers` config. Answers are plain values with the names of
`--json`; notebooks show them as tables; `print(plan.text())` is what the program prints. Only
`trainwright.engine` and `trainwright.huggingface` touch PyTorch, and only when they are used.
"""
from typing import Any

from ._ask import Diagnostic, Error
from .answers import Answer, Calibration, Estimate, Export, Plan, Replay, Schedule, Validation
from .questions import ask, calibrate, compare, estimate, export, plan, replay, schedule, validate

__version__: str  # as `trainwright --version` says it

__all__ = ["Answer", "Calibration", "Diagnostic", "Error", "Estimate", "Export", "Plan", "Replay", "Schedule", "Validation", "ask",
           "calibrate", "compare", "estimate", "export", "plan", "record", "replay", "schedule", "validate"]


def __getattr__(name: str) -> str:
    if name == "__version__":
        from ._ask import run
        return run(["--version"])[0].split()[-1]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def record(*arguments: Any, **options: Any) -> Any:
    """Records a PyTorch program's memory; see `trainwright.engine.record`."""
    from .engine.record import record as record_program
    return record_program(*arguments, **options)
