"""Trainwright plans large-model training: which layout and schedule fit, how fast they are, and why.

>>> import trainwright
>>> plan = trainwright.plan("llama-2-7b", on="8xH100", batch=64, seq=4096)
>>> plan.end, plan.recommended.layout.tp * plan.recommended.layout.pp <= 8
('found', True)
>>> plan.estimate(plan.layout.replace(tp=4)).valid
True

A model is a zoo name, a path, a dict or a `transformers` config. Answers are values that cannot be changed, with the names of
`--json`; notebooks show them as tables; `print(plan.text())` is what the program prints. Only `trainwright.engine` and
`trainwright.huggingface` touch PyTorch, only `to_pandas` pandas and `trainwright.mcp` the package mcp, and only when they are used.
"""
from typing import TYPE_CHECKING, Any

from ._ask import Diagnostic, Error, Nothing
from .answers import (Answer, Calibration, Cluster, Estimate, Explanation, Export, Listing, ModelShape, Plan, Reconciliation, Replay,
                      Schedule, Shown, Tuning, Validation, to_pandas)
from .layout import Layout
from .options import Trainer
from .questions import ask, calibrate, compare, estimate, explain, export, plan, reconcile, replay, schedule, show, tune, validate
from .questions import list as list

if TYPE_CHECKING:
    from .engine.record import record as record

# Not `list`: with `from trainwright import *` it would hide Python's own.
__all__ = ["Answer", "Calibration", "Cluster", "Diagnostic", "Error", "Estimate", "Explanation", "Export", "Layout", "Listing",
           "ModelShape", "Nothing", "Plan", "Reconciliation", "Replay", "Schedule", "Shown", "Trainer", "Tuning", "Validation", "ask",
           "calibrate", "compare", "estimate", "explain", "export", "plan", "reconcile", "record", "replay", "schedule", "show",
           "to_pandas", "tune", "validate"]

try:
    from . import _core
    __version__ = _core.version
except ImportError:  # a checkout on the path, where the engine alone runs
    __version__ = "0"


def __getattr__(name: str) -> Any:
    if name == "record":  # records a PyTorch program's memory, with PyTorch
        from .engine.record import record
        return record
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
