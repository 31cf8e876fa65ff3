"""What questions may be asked with: names as types, and the options of each command, which checkers of types look at.

`tests/wheel/test_options.py` holds these names and options against those of the program.
"""
from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict, Union, runtime_checkable

from .layout import Layout

if TYPE_CHECKING:
    from .answers import Calibration, Cluster, Estimate, ModelShape
    from .parts import PlannedLayout

TrainerName = Literal[
    "accelerate", "accelerate-deepspeed", "automodel", "axolotl", "axolotl-deepspeed", "bridge", "ddp", "deepspeed", "ds", "fsdp", "fsdp2",
    "hf-trainer", "lit-gpt", "litgpt", "llama-factory", "llama-factory-deepspeed", "llamafactory", "mcore", "megatron", "megatron-bridge",
    "megatron-core", "megatron-deepspeed", "megatron-lm", "nanotron", "nemo", "nemo-automodel", "paddle", "paddleformers", "paddlenlp",
    "paddlenlp-auto", "peft", "pytorch", "titan", "torch", "torchtitan", "transformers", "trl", "trl-deepspeed"]
Precision = Literal["fp32", "fp16", "bf16", "fp8", "fp8-delayed", "fp8-tensorwise", "fp8-rowwise", "fp8-blockwise", "mxfp8", "nvfp4"]
Optimizer = Literal["adamw", "adamw-precision-aware", "adamw-8bit", "muon", "adafactor", "sgd", "sgd-no-momentum", "adamw-fused",
                    "adamw-foreach"]
Attention = Literal["flash", "fused-softmax", "eager", "sdpa"]
Sharding = Literal["ddp", "zero", "fsdp", "hsdp", "megatron-fsdp"]
Target = Literal["megatron-lm", "megatron-bridge", "torchtitan", "deepspeed", "accelerate", "nemo-automodel", "nanotron",
                 "paddleformers", "paddlenlp"]
Launcher = Literal["kubeflow", "jobset", "skypilot", "ray"]
Verdict = Literal["fits", "tight", "does-not-fit"]
End = Literal["found", "tight", "nothing-fits", "all-refused", "stopped", "nothing-divides"]
Listed = Literal["models", "families", "accelerators", "clusters", "trainers", "schedules"]


@runtime_checkable
class Config(Protocol):
    """A `transformers` config, or what else can be written as its dict."""

    def to_dict(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Trainer:
    """A trainer of a version: `Trainer("megatron", "0.12")`."""
    name: TrainerName
    version: str | None = None

    def __str__(self) -> str:
        return self.name if self.version is None else f"{self.name}@{self.version}"


Path = Union[str, "os.PathLike[str]"]
Data = Union[Path, Mapping[str, Any]]  # a file or its content
Model = Union[Path, Mapping[str, Any], Config, "ModelShape"]  # a zoo name, a Hugging Face id, a path, config.json's content
On = Union[Data, "Cluster"]
Entries = Union[str, Mapping[str, Any]]  # "lora=16" or {"lora": 16}
LayoutLike = Union[str, Mapping[str, Any], Layout, "PlannedLayout", "Estimate"]
Count = Union[int, float, str]  # 4096 or "4k"; a batch also in tokens, "4M-tokens"
Trained = Union[TrainerName, Trainer, "os.PathLike[str]", Mapping[str, Any]]


class Training(TypedDict, total=False):
    """What is trained, and by what."""
    trainer: Trained | None
    job: Entries | None
    optimizer: Optimizer | None
    precision: Precision | None
    attention: Attention | None


class Constants(Training, total=False):
    """And what predictions rest on."""
    risk: float | str | None
    constants: Data | None
    calibration: Data | Calibration | None
    measured: str | None
    tuned: bool
    expert_load: str | None


class PlanOptions(Constants, total=False):
    """Options of `plan`; `from_` is what is run today."""
    fix: Entries | Sequence[str]
    no: str | Sequence[str]
    only: Sharding | None
    allow: str | Sequence[str]
    also: str | Sequence[str]
    why_not: LayoutLike | None
    from_: LayoutLike | None
    top: int | None
    budget: int | None
    time_limit: float | None
    tokens: str | float | None
    ramp: str | None
    ramp_tokens: str | float | None
    within: float | None
    price: float | None
    goodput: float | None
    pareto: bool
    details: bool


class OneLayout(Constants, total=False):
    """Options of what is asked of one layout."""
    batch: Count | None
    seq: Count | None
    schedule: Path | None


class EstimateOptions(OneLayout, total=False):
    """Options of `estimate`; `config` is a trainer's own file."""
    config: Path | None


class ExportOptions(OneLayout, total=False):
    """Options of `export`; `check` has the target's own code rule, of the interpreter `python`."""
    launch: Launcher | Sequence[Launcher]
    into: Path | None
    check: bool
    python: Path | None
    only_settings: bool


class LogOptions(Training, total=False):
    """Options of what reads logs."""
    batch: Count | None
    seq: Count | None
    schedule: Path | None
    config: Path | None
    calibration: Data | Calibration | None


class ScheduleOptions(Training, total=False):
    """Options of `schedule`; times are a model's own where it is given, with `on` and `layout`."""
    ranks: int | None
    microbatches: int | None
    chunks: int | None
    group: int | None
    limit: int | None
    costs: Data | None
    transfers: Literal["overlapped", "blocking"] | None
    links: Literal["unlimited", "serialised"] | None
    engine: Literal["none", "pytorch"] | None
    memory_cap: int | str | None
    placement: Literal["v", "loop", "any"] | None
    budget: int | None
    model: Model | None
    on: On | None
    layout: LayoutLike | None
    batch: Count | None
    seq: Count | None


class ReplayOptions(TypedDict, total=False):
    """Options of `replay`."""
    allocator: str | None
    alloc_conf: str | None
    capacity: str | None
    rounding: str | None
    no_aliases: bool
    top: int | None


class TuneOptions(Constants, total=False):
    """Options of `tune run`, and `yes` of `tune resume`: the command that the history holds may be started."""
    yes: bool
    slurm: str | None
    among: LayoutLike | Sequence[LayoutLike]
    candidates: int | None
    steps: int | None
    tokens: str | float | None
    trial_limit: float | None
    silence: float | None
    start_up: float | None
    step_pattern: str | None
    software: str | None
    trials: int | None
    minutes: float | None
    node_hours: float | None
    host_is_gone: bool
    fix: Entries | Sequence[str]
    no: str | Sequence[str]
    only: Sharding | None


class ShowOptions(TypedDict, total=False):
    """Options of `show`, each of some of what is shown."""
    seq: Count | None
    model: Model | None
    on: On | None
    layout: LayoutLike | None
    trainer: Trained | None
    job: Entries | None
    batch: Count | None
    precision: Precision | None
    stage: int | None
    sources: bool
