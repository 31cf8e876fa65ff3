"""Trainwright as a server of the Model Context Protocol: `python -m trainwright.mcp`, with the extra `trainwright[mcp]`.

Five tools, which only answer: plan, estimate, explain, export and list. They take the words of the command line and give structured
answers in seconds and GiB; `SKILL.md` beside this file tells an agent when and how. What cannot be understood is an error with every
fault and its hint.
"""
from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

try:
    from mcp.server import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
    from mcp.types import ToolAnnotations
    from pydantic import Field
    from typing_extensions import TypedDict
except ImportError as fault:
    sys.exit(f"{fault}: this needs `pip install 'trainwright[mcp]'`")

import trainwright

from .options import Attention, Listed, Precision, Sharding, Target
from .parts import Violation

F = TypeVar("F", bound=Callable[..., Any])

Model = Annotated[str, Field(description="A name (see `list`), a Hugging Face id, the path of a config.json or its content as JSON.")]
On = Annotated[str, Field(description="Accelerators and how many: 8xH100, 64xA100-80GB, 16*RTX4090; a known cluster; the path of a cluster file.")]
Batch = Annotated[str | int | None, Field(description="Sequences in an optimizer step over all ranks, or tokens: 4M-tokens.")]
Seq = Annotated[str | int | None, Field(description="Tokens in a sequence: 4096 or 4k.")]
Layout = Annotated[str, Field(description=(
    "key=value pairs joined by commas: tp, pp, vpp, cp, ep, dp, mbs (micro-batch), gbs (global batch), seq, zero=0..3 or fsdp, "
    "recompute=none|selective|full, on=compile+graphs; sp alone for sequence parallelism. What is left out is as the trainer has it: "
    "tp=8,pp=4,sp,zero=1,mbs=1,gbs=512,seq=4096"))]
Trainer = Annotated[str | None, Field(description=(
    "megatron-core (the default), torchtitan, deepspeed, accelerate, trl, axolotl, llama-factory, nanotron, nemo-automodel, paddlenlp ...; "
    "of a version torchtitan@0.2; or the path of a file."))]
Job = Annotated[str | None, Field(description="What is trained: lora=16:q_proj+v_proj, qlora=16, optimizer=adamw-8bit (default: everything, with AdamW).")]
Numbers = Annotated[Precision | None, Field(description="Of products (default: bf16).")]
Kernel = Annotated[Attention | None, Field(description="Of attention (default: the trainer's).")]
Risk = Annotated[float | None, Field(description="Highest OOM probability that still counts as fitting (default: 0.05).")]


class Row(TypedDict, total=False):
    """A layout: seconds of a step with the ends of a 90 % interval, GiB of the fullest rank, chance of running out of memory."""
    layout: str
    verdict: str | None
    step_s: float | None
    low_s: float
    high_s: float
    mfu: float
    tokens_per_second_per_rank: float
    peak_gib: float
    low_gib: float
    high_gib: float
    capacity_gib: float
    oom: float


class Fault(TypedDict):
    """A rule that the layout breaks, what would help, and where the rule is written."""
    reason: str
    hint: str
    source: str


class Way(TypedDict):
    """What was not asked for and would fit or be faster."""
    what: str
    layout: str


class PlanAnswer(TypedDict):
    """`layouts`, fastest first, and the recommended one; of `end` "nothing-fits" what needs least and what would fit."""
    end: str
    model: str
    cluster: str
    trainer: str
    recommended: Row | None
    layouts: list[Row]
    needs_least: Row | None
    what_would_fit: list[Way]
    refused_by: str | None
    layouts_searched: int
    proven_fastest: bool
    not_searched: list[str]


class EstimateAnswer(TypedDict):
    """`summary` of a valid layout, `violations` of an invalid one."""
    valid: bool
    summary: Row
    violations: list[Fault]
    memory_gib: dict[str, float]
    time_s: dict[str, float]
    smallest_change_that_fits: str | None
    notes: list[str]


class Neighbour(TypedDict):
    """A layout with one change, or the one that is compared with."""
    change: str
    valid: bool
    summary: Row
    why_not: str | None


class ExplainAnswer(TypedDict):
    layout: Row
    others: list[Neighbour]


class ExportedFile(TypedDict):
    path: str
    text: str


class ExportAnswer(TypedDict):
    """Files to write as they are; where the target cannot be told the layout why, and the nearest that it can."""
    valid: bool
    target: str | None
    files: list[ExportedFile]
    notes: list[str]
    refused: list[str]
    nearest: str | None


class ListAnswer(TypedDict):
    names: list[str]
    rows: list[dict[str, Any]]


server = MCPServer("trainwright", version=trainwright.__version__, instructions=(
    "Plans large-model training without a GPU: which parallel layout fits and is fastest, whether one layout fits and how fast it is, what a "
    "change would do, and the settings and launch scripts of the training framework. Predictions come with 90 % intervals: quote them."))


def tool(function: F) -> F:
    """Faults of a question reach the caller with their hints."""
    @functools.wraps(function)
    def told(*arguments: Any, **options: Any) -> Any:
        try:
            return function(*arguments, **options)
        except trainwright.Error as fault:
            raise ToolError(str(fault)) from None
    server.tool(function.__name__.rstrip("_"), annotations=ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False))(told)
    return function


def faults(violations: tuple[Violation, ...]) -> list[Fault]:
    return [{"reason": one.reason, "hint": one.hint, "source": one.source} for one in violations]


@tool
def plan(model: Model, on: On, batch: Batch, seq: Seq, trainer: Trainer = None, job: Job = None, precision: Numbers = None,
         attention: Kernel = None, risk: Risk = None,
         fix: Annotated[list[str], Field(description="Only layouts with these: tp=8, mbs=..4, recompute=none.")] = [],
         no: Annotated[list[str], Field(description="Without these: pp, tp, cp, offload, recompute ...")] = [],
         only: Annotated[Sharding | None, Field(description="One kind of sharding.")] = None,
         top: Annotated[int, Field(description="How many layouts to tell.", ge=1, le=50)] = 5) -> PlanAnswer:
    """Which parallel layout to run: searches all that divide the model, the batch and the cluster, for the least step time that fits."""
    asked: dict[str, Any] = dict(trainer=trainer, job=job, precision=precision, attention=attention, risk=risk)
    found = trainwright.plan(model, on=on, batch=batch or "", seq=seq or "", fix=fix, no=no, only=only, top=top, **asked)
    rows: list[Any] = [one.summary() for one in found.best]
    return {
        "end": found.end, "model": found.model, "cluster": found.cluster, "trainer": found.trainer,
        "recommended": found.recommended.summary() if found.best else None,  # type: ignore[typeddict-item]
        "layouts": rows, "needs_least": found.smallest.summary() if found.smallest else None,  # type: ignore[typeddict-item]
        "what_would_fit": [{"what": what, "layout": layout} for what, layout in found.ways_out()],
        "refused_by": found.refusal.reason if found.refusal else None, "layouts_searched": found.search.space if found.search else 0,
        "proven_fastest": bool(found.search and found.search.proven), "not_searched": list(found.not_looked_at)}


@tool
def estimate(model: Model, on: On, layout: Layout, batch: Batch = None, seq: Seq = None, trainer: Trainer = None, job: Job = None,
             precision: Numbers = None, attention: Kernel = None, risk: Risk = None) -> EstimateAnswer:
    """Whether a layout fits, its memory by category and its step time with intervals. An invalid layout is an answer with its violations."""
    asked: dict[str, Any] = dict(trainer=trainer, job=job, precision=precision, attention=attention, risk=risk)
    found = trainwright.estimate(model, on=on, layout=layout, batch=batch, seq=seq, **asked)
    memory = found.memory.rows()[found.memory.worst] if found.memory else {}
    counts = ("pipeline_rank", "ranks", "layers")
    row: Any = found.summary()
    return {
        "valid": found.valid, "summary": row, "violations": faults(found.violations),
        "memory_gib": {key: size / 2**30 for key, size in memory.items() if size and key not in counts},
        "time_s": {key: part for key, part in found.document["time"]["parts"].items() if part} if found.time else {},
        "smallest_change_that_fits": found.change.words if found.change else None, "notes": list(found.notes)}


@tool
def explain(model: Model, on: On, layout: Layout,
            against: Annotated[str | None, Field(description="Another layout to compare with; without it each change of one key.")] = None,
            batch: Batch = None, seq: Seq = None, trainer: Trainer = None, job: Job = None, precision: Numbers = None,
            attention: Kernel = None) -> ExplainAnswer:
    """What each change of one key of a layout would do to step time and memory, or how two layouts compare."""
    asked: dict[str, Any] = dict(trainer=trainer, job=job, precision=precision, attention=attention)
    found = trainwright.explain(model, on=on, layout=layout, against=against, batch=batch, seq=seq, **asked)
    others = [(f"{one.knob} {one.from_} to {one.to}", one.judged) for one in found.neighbours]
    others += [("against", found.against)] if found.against else []
    row: Any = found.layout.summary()
    return {"layout": row, "others": [
        {"change": change, "valid": one.valid, "summary": one.summary(),  # type: ignore[typeddict-item]
         "why_not": "; ".join(rule.reason for rule in one.violations) or None} for change, one in others]}


@tool
def export(model: Model, on: On, layout: Layout,
           to: Annotated[Target | None, Field(description="The framework (default: the trainer's own).")] = None,
           batch: Batch = None, seq: Seq = None, trainer: Trainer = None, job: Job = None, precision: Numbers = None,
           attention: Kernel = None) -> ExportAnswer:
    """A layout as the framework's own settings and the scripts that start it. Nothing is written: write the files into one folder."""
    asked: dict[str, Any] = dict(trainer=trainer or to, job=job, precision=precision, attention=attention)
    found = trainwright.export(layout, model=model, on=on, to=to, batch=batch, seq=seq, **asked)
    return {
        "valid": found.valid, "target": found.target, "files": [{"path": one.path, "text": one.text} for one in found.files],
        "notes": list(found.notes), "nearest": None if found.nearest is None else str(found.nearest),
        "refused": [f"{one.what}: {one.why}" for one in found.cannot_be_said] + [one.reason for one in found.violations if one.forbidden]}


@tool
def list_(what: Listed, containing: Annotated[str, Field(description="Only names with this in them.")] = "") -> ListAnswer:
    """Models, families of config.json, accelerators, clusters, trainers or pipeline schedules that are known."""
    rows = [row for row in trainwright.list(what).rows() if containing.lower() in str(row["name"]).lower()]
    return {"names": list(dict.fromkeys(str(row["name"]) for row in rows)),
            "rows": [{key: value for key, value in row.items() if isinstance(value, (str, int, float))} for row in rows]}


if __name__ == "__main__":
    server.run("stdio")
