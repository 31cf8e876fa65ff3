"""What questions are answered with: plain values, named as in `--json` and in the C++ core.

Memory is in bytes, time in seconds, shares and chances between 0 and 1. `to_dict()` is the JSON as the
program prints it; `rows()`, where there is one, is a list of flat dicts: `pandas.DataFrame(plan.rows())`.
"""
from __future__ import annotations

import copy
import os
import pathlib
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from ._ask import Question
from ._read import gib, read, seconds, table

A = TypeVar("A", bound="Answer")


@dataclass
class MadeBy:
    """What has answered: the same version and the same data answer the same."""
    version: str
    data: str  # a hash of all data files


@dataclass
class Answer:
    """What every answer has."""
    schema: int
    made_by: MadeBy
    question: Question = field(init=False, repr=False, compare=False, default=Question(()))
    document: dict[str, Any] = field(init=False, repr=False, compare=False, default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The answer as `--json` prints it."""
        return copy.deepcopy(self.document)

    def text(self, width: int = 80) -> str:
        """The answer as the program prints it."""
        return self.question.text(width)


def answered(cls: type[A], question: Question) -> A:
    document = question.json()
    answer = read(cls, document)
    answer.question, answer.document = question, document
    return answer


@dataclass
class Violation:
    """Why a layout is invalid or, not `forbidden`, what speaks against it."""
    id: str
    forbidden: bool
    reason: str
    hint: str
    source: str


@dataclass
class Interval:
    """Holds the value with a chance of 90 %."""
    low: int
    high: int


@dataclass
class Range:
    low: int
    central: int
    high: int


@dataclass
class Categories:
    """Bytes by what they are for, at the moment at which a rank holds most."""
    weights: int
    main_weights: int
    gradients: int
    optimizer_states: int
    activations: int
    transients: int
    logits: int
    gather_buffers: int
    reduce_buffers: int
    point_to_point: int
    step: int
    workspace: int
    slack: int
    communicators: int
    context: int


@dataclass
class FirstStep:
    allocated: int
    reserved: int


@dataclass
class Intervals:
    allocated: Interval
    reserved: Interval
    driver: Interval


@dataclass
class Peak:
    """The moment at which a rank holds most."""
    during: str
    chunk: int | None = None
    micro_batch: int | None = None
    in_flight: int | None = None
    operator: str | None = None


@dataclass
class RankClass:
    """Ranks that hold the same."""
    pipeline_rank: int
    ranks: int
    layers: int
    bytes: Categories
    allocated: int
    reserved: int
    driver: int
    between_steps: int
    first_step: FirstStep
    intervals: Intervals
    peak: Peak


@dataclass
class Communicator:
    group: str
    members: int
    per_node: int
    count: int
    ends_only: bool
    bytes: Range


@dataclass
class Outside:
    """Memory that no allocator sees."""
    context: Range
    communicators: list[Communicator]


@dataclass
class Memory:
    classes: list[RankClass]
    worst: int  # the fullest of the classes
    capacity: int
    low: int
    high: int
    oom: float  # the chance
    outside: Outside

    @property
    def fullest(self) -> RankClass:
        return self.classes[self.worst]

    def rows(self) -> list[dict[str, Any]]:
        """A row for each class of ranks."""
        return [{"pipeline_rank": one.pipeline_rank, "ranks": one.ranks, "layers": one.layers, **asdict(one.bytes),
                 "allocated": one.allocated, "reserved": one.reserved, "driver": one.driver} for one in self.classes]

    def _repr_html_(self) -> str:
        heads = ["GiB of pipeline rank", *(str(one.pipeline_rank) for one in self.classes)]
        names = [*asdict(self.classes[0].bytes), "allocated", "reserved", "driver"]
        rows = self.rows()
        return table(heads, [[name.replace("_", " "), *(gib(row[name]) for row in rows)] for name in names
                             if any(row[name] for row in rows)])


@dataclass
class TimeParts:
    """Seconds of a step by what the slowest rank does."""
    products: float
    attention: float
    streams: float
    loss: float
    gaps: float
    host: float
    tensor: float
    context: float
    expert: float
    pipeline: float
    bubble: float
    data: float
    offload: float
    optimizer: float
    waiting: float
    fixed: float


@dataclass
class StepTime:
    step: float
    low: float
    high: float
    tokens: int
    ranks: int
    tokens_per_second_per_rank: float
    mfu: float
    hfu: float
    bound: float  # its products at the accelerators' peak
    parts: TimeParts


@dataclass
class HostMemory:
    per_rank: int
    ranks_per_node: int


@dataclass
class Unspecified:
    """What the question leaves open of its machines, and what a step takes where it is worse than usual."""
    name: str
    option: str  # what is assumed, as `on` has it: network=8x400G
    step_if_worse: float
    low_if_specified: float
    high_if_specified: float


@dataclass
class Change:
    """The smallest change of a layout that fits."""
    what: str
    words: str
    layout: str
    driver: int


@dataclass
class Estimate(Answer):
    """Memory and step time of one layout; of an invalid one only `violations`."""
    legal: bool = False
    violations: list[Violation] | None = None
    layout: str | None = None
    verdict: str | None = None  # fits, tight or does-not-fit
    memory: Memory | None = None
    time: StepTime | None = None
    host: HostMemory | None = None
    unspecified: list[Unspecified] | None = None  # the widest first
    notes: list[str] | None = None
    change: Change | None = None
    measured: dict[str, Any] | None = None  # the run that adjusted the step time

    def beside(self, step: float | None = None, reserved: int | None = None, allocated: int | None = None) -> str:
        """What was measured, seconds and bytes, beside what was predicted: "predicted 14.2 s, measured 15.1 s; ..."."""
        if not self.memory or not self.time:
            raise ValueError("an invalid layout has no prediction")
        said = [] if step is None else [f"predicted {seconds(self.time.step)}, measured {seconds(step)}"]
        fullest = self.memory.fullest
        for name, measured, predicted in (("reserved", reserved, fullest.reserved), ("allocated", allocated, fullest.allocated)):
            if measured is not None:
                said.append(f"memory {gib(measured)} of {gib(predicted)} GiB {name}")
        return "; ".join(said)

    def rows(self) -> list[dict[str, Any]]:
        """A row for each class of ranks; none of an invalid layout."""
        return self.memory.rows() if self.memory else []

    def _repr_html_(self) -> str:
        if not self.memory or not self.time:
            return table(["invalid", "hint"], [[one.reason, one.hint] for one in self.violations or []])
        summary: list[list[Any]] = [["layout", self.layout], ["verdict", self.verdict], ["OOM probability", f"{self.memory.oom:.1%}"],
                   ["peak memory, GiB", f"{gib(self.memory.fullest.driver)} of {gib(self.memory.capacity)}"],
                   ["step", f"{seconds(self.time.step)} ({seconds(self.time.low)} to {seconds(self.time.high)})"],
                   ["MFU", f"{self.time.mfu:.1%}"]]
        return table(["estimate", ""], summary) + self.memory._repr_html_()


@dataclass
class Alike:
    layout: str
    step: float


@dataclass
class PlannedLayout:
    layout: str
    time: StepTime
    alike: list[Alike]
    memory: Memory


@dataclass
class Search:
    """How much was looked at."""
    space: int
    considered: int
    bounded: int
    cut: int
    evaluated: int
    timed: int
    simulated: int
    tight: int
    too_large: int
    refused: int
    proven: bool
    stopped: str | None
    bound: float | None = None
    ranked: int = 0  # of `best`: the fastest families there are; the others are the fastest of those looked at


@dataclass
class Run:
    """The whole run, of `tokens`."""
    tokens: float
    steps: float
    days: float
    accelerator_hours: float
    cost: float | None = None


@dataclass
class Refusal:
    """The rule that refused most, where all were refused."""
    id: str
    reason: str
    hint: str
    source: str
    layouts: int
    refused: int


@dataclass
class LargerCluster:
    cluster: str
    accelerators: int
    layout: str
    step: float


@dataclass
class WithMoreMemory:
    times: float
    layout: str
    step: float


@dataclass
class Beside:
    """A layout that was not asked for: `job` of leaner states and adapters, the `trainer` of another, `host` where it offloads, `kernels`
    that the trainer runs only if asked."""
    layout: str
    step: float
    driver: int
    job: str | None = None
    trainer: str | None = None
    host: HostMemory | None = None
    kernels: list[str] | None = None


@dataclass
class Riskier:
    """The fastest layout that has more than the OOM probability asked for, at most one half."""
    oom: float
    layout: str
    step: float


@dataclass
class AutoOrder:
    """An order of actions made for the layout `best[of]`, with the step of its fixed schedule, and a bound of any order."""
    of: int
    layout: str
    step: float
    fixed_step: float
    gain: float  # 1 - step / fixed_step; 0 or less: the fixed schedule is no slower
    bound: float
    gap: float  # step / bound - 1
    driver: int
    oom: float


@dataclass
class Nearby(Beside):
    """The fastest layout of another batch or on another number of accelerators."""
    batch: int = 0
    cluster: str = ""
    tokens_per_second: float = 0


@dataclass
class RampStage:
    """The recommended layout with one batch of a ramp."""
    batch: int
    step: float
    tokens_per_second: float
    days: float | None = None  # where its tokens are told


@dataclass
class Choice:
    """Layouts that predictions do not tell apart, least worth first."""
    doubt: float  # share of the fastest's step
    weights: dict[str, float]  # per cent of a step that one of each has to gain
    candidates: list[dict[str, Any]]  # layout, step, worth and amounts of what experts avoid


@dataclass
class Plan(Answer):
    """The fastest layouts that fit, best first; `recommended` is the place of the one to run."""
    model: str = ""
    cluster: str = ""
    trainer: str = ""
    job: dict[str, Any] = field(default_factory=dict)
    batch: int = 0
    seq: int = 0
    precision: str = ""
    risk: float = 0
    end: str = ""
    best: list[PlannedLayout] = field(default_factory=list)
    recommended: int = 0
    search: Search | None = None
    choice: Choice | None = None  # why that one
    cannot_be_said: list[Unsayable] | None = None  # of the recommended layout, to the trainer by `export`
    attention: str | None = None
    fixed: list[str] | None = None
    also: list[str] | None = None  # axes that were looked at too
    from_recipes: list[str] = field(default_factory=list)  # what is taken from published recipes of the trainer
    without_effect: list[str] = field(default_factory=list)  # of `also`: what is searched anyway
    not_looked_at: list[str] = field(default_factory=list)  # axes that are as the trainer has them unasked
    run: Run | None = None
    cut_short: bool = False  # time was up before all was looked at that is told beside the answer
    tight_at: float | None = None  # the risk at which `best` fits, where nothing does at `risk`
    exportable: Beside | None = None  # the nearest to the recommended layout that `export` writes, where it cannot
    smallest: PlannedLayout | None = None
    refusal: Refusal | None = None
    fits_on: LargerCluster | None = None
    with_more_memory: WithMoreMemory | None = None
    host: HostMemory | None = None  # what the recommended layout offloads
    unspecified: list[Unspecified] | None = None  # what is open of the machines: the widest first
    with_offload: Beside | None = None  # faster, where layouts fit without and memory makes them slow
    with_lean_states: Beside | None = None  # AdamW with states in fewer bits, where memory makes the best slow or nothing fits
    with_lean_gradients: Beside | None = None  # likewise with gradients in bf16 where fp32 is the trainer's own
    with_kernels: Beside | None = None  # with all fused kernels that the trainer runs only if asked, where they gain
    change: Beside | None = None  # where nothing fits: near `smallest`, with what is not searched
    adapters: Beside | None = None  # where nothing fits on few accelerators: with the weights frozen
    riskier: Riskier | None = None
    ramp: list[RampStage] = field(default_factory=list)  # where the batch grows, the last one included
    nearby_batches: list[Nearby] = field(default_factory=list)  # where an odd factor of the accelerators divides no batch
    nearby_sizes: list[Nearby] = field(default_factory=list)  # likewise; fewer leave spares
    auto: list[AutoOrder] = field(default_factory=list)  # of the first families with a pipeline, if the trainer runs a file
    why_not: dict[str, Any] | None = None
    why_not_fits: dict[str, Any] | None = None  # the nearest layout that does, where it does not
    measured: dict[str, Any] | None = None  # the run that adjusted the step times
    today: dict[str, Any] | None = None  # what is run today, and what each of `best` changes
    within: dict[str, Any] | None = None  # the fewest accelerators that end in time
    pareto: list[dict[str, Any]] | None = None
    words: dict[str, str] | None = None  # the question that the recommended layout answers, as `reconcile` reads it
    details: dict[str, Any] | None = None  # what the report draws, where asked for

    def report(self, path: str | os.PathLike[str]) -> pathlib.Path:
        """Makes the plan again and writes it as an HTML page to look at."""
        page = self.question.page(os.fspath(path))
        pathlib.Path(path).write_text(page, encoding="utf-8")
        return pathlib.Path(path)

    @property
    def layout(self) -> str | None:
        """The recommended layout, as `estimate` and `export` take it."""
        return self.best[self.recommended].layout if self.best else None

    def rows(self) -> list[dict[str, Any]]:
        """A row for each layout."""
        return [{"layout": one.layout, "step": one.time.step, "low": one.time.low, "high": one.time.high,
                 "mfu": one.time.mfu, "tokens_per_second_per_rank": one.time.tokens_per_second_per_rank,
                 "driver": one.memory.fullest.driver, "capacity": one.memory.capacity, "oom": one.memory.oom}
                for one in self.best]

    def _repr_html_(self) -> str:
        caption = (f"{self.model} on {self.cluster} with {self.trainer}: {self.batch:,} sequences of {self.seq:,} tokens "
                   "a step" + ("" if self.best else "; nothing fits"))
        rows = [[row["layout"], seconds(row["step"]), f"{row['mfu']:.1%}", gib(row["driver"]), f"{row['oom']:.1%}",
                 "recommended" if place == self.recommended else ""] for place, row in enumerate(self.rows())]
        return table(["layout", "step", "MFU", "peak memory, GiB", "P(OOM)", ""], rows, caption)


@dataclass
class Setting:
    """One of a trainer's own settings, of which part of the plan it comes and why."""
    key: str
    values: list[str]
    of: str
    why: str


@dataclass
class File:
    path: str
    text: str


@dataclass
class Unsayable:
    what: str
    why: str


@dataclass
class Check:
    """What the target's own code says: accepted, refused or not-checked, why, and which version of it."""
    verdict: str
    reason: str | None = None
    by: str | None = None


@dataclass
class Export(Answer):
    """A plan in a trainer's own words; of a layout that it cannot be told, why, and the nearest that it can."""
    legal: bool = False
    target: str | None = None
    settings: list[Setting] | None = None
    notes: list[str] | None = None  # what is left to the user, and what the trainer would do otherwise
    files: list[File] | None = None
    violations: list[Violation] | None = None
    cannot_be_said: list[Unsayable] | None = None
    nearest: str | None = None
    version: str | None = None  # of the trainer, another that can be told all of it
    into: str | None = None  # a file of the user's own, what would change in it and how it would read
    diff: str | None = None
    changed: str | None = None
    check: Check | None = None  # asked for by check=True

    def write(self, folder: str | os.PathLike[str], force: bool = False) -> list[pathlib.Path]:
        """Writes the files; gives their paths. What is there with another content, or is a link, raises
        FileExistsError before anything is written; force replaces it (a link, not what it leads to)."""
        files = {pathlib.Path(folder) / file.path: file.text for file in self.files or []}
        taken = [str(path) for path, text in files.items()
                 if path.is_symlink() or path.exists() and (not path.is_file() or path.read_text() != text)]
        if taken and not force:
            raise FileExistsError(f"{', '.join(taken)}: there already; force=True replaces it")
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            beside = path.with_name(f".{path.name}-{os.getpid()}")
            with beside.open("x") as new:
                new.write(text)
            beside.replace(path)
        return list(files)

    def rows(self) -> list[dict[str, Any]]:
        """A row for each setting."""
        return [{"key": one.key, "values": " ".join(one.values), "of": one.of, "why": one.why}
                for one in self.settings or []]

    def _repr_html_(self) -> str:
        if self.settings is None:
            faults = [[one.what, one.why] for one in self.cannot_be_said or []]
            return table(["refused", "why"], faults + [[one.reason, one.hint] for one in self.violations or []])
        return table([str(self.target), "value", "why"], [[row["key"], row["values"], row["why"]] for row in self.rows()])


@dataclass
class Idle:
    """Seconds of all ranks."""
    warmup: float
    steady: float
    drain: float
    transfer: float


@dataclass
class Action:
    action: str
    start: float
    end: float


@dataclass
class Schedule(Answer):
    """A pipeline schedule and its clock; of `auto` also how far from the best it can be, or that nothing `fits`."""
    kind: str = ""
    ranks: int = 0
    stages: int = 0
    microbatches: int = 0
    placement: str = ""
    makespan: float = 0
    bubble: float = 0
    idle_seconds_of_all_ranks: Idle | None = None
    peak_memory: list[int] = field(default_factory=list)
    actions: list[list[Action]] = field(default_factory=list)
    fits: bool | None = None
    lower_bound: float | None = None
    gap: float | None = None
    smallest_cap: int | None = None
    evaluations: int | None = None
    actions_placed: int | None = None

    def csv(self, comms: bool = False) -> str:
        """As PyTorch reads it, on request with sends and receives."""
        return self._file("csv", comms=comms)

    def svg(self) -> str:
        """A drawing."""
        return self._file("svg")

    def rows(self) -> list[dict[str, Any]]:
        """A row for each action."""
        return [{"rank": rank, **asdict(one)} for rank, actions in enumerate(self.actions) for one in actions]

    def _file(self, form: str, **more: Any) -> str:
        options = {**self.question.options, form: "it", **more}
        return Question(("schedule", "simulate"), self.question.positionals, options).files()["it"]

    def _repr_html_(self) -> str:
        if self.fits is False:
            return table(["nothing fits the cap", "the smallest that does"], [[self.kind, self.smallest_cap]])
        return self.svg()


@dataclass
class Replay(Answer):
    """Op-by-op memory of a recorded program: the peak and what is alive there."""
    program: str = ""
    ops: int = 0
    storages: int = 0
    peak: int = 0
    peak_op: dict[str, Any] | None = None
    begin: int = 0
    end: int = 0
    by_kind: dict[str, int] = field(default_factory=dict)
    by_module: list[dict[str, Any]] = field(default_factory=list)
    alive_count: int = 0
    alive: list[dict[str, Any]] = field(default_factory=list)
    recompute: list[dict[str, Any]] = field(default_factory=list)
    marks: list[dict[str, Any]] = field(default_factory=list)
    reserved: dict[str, Any] | None = None

    def rows(self) -> list[dict[str, Any]]:
        """A row for each storage that is alive at the peak, the largest first."""
        return copy.deepcopy(self.alive)

    def _repr_html_(self) -> str:
        rows = [[one["name"], one["kind"], gib(one["bytes"])] for one in self.alive]
        return table(["alive at the peak", "kind", "GiB"], rows, f"{self.program}: peak {gib(self.peak)} GiB")


@dataclass
class Validation(Answer):
    """How wrong predictions are on measured runs, by their source."""
    sources: list[dict[str, Any]] = field(default_factory=list)

    def rows(self) -> list[dict[str, Any]]:
        """A row for each run, where `rows=True` asked for them."""
        return [{"source": source["source"], **row} for source in self.sources for row in source.get("rows", [])]

    def _repr_html_(self) -> str:
        def error(score: dict[str, Any]) -> str:
            return f"{score['mape']:.1%}" if "mape" in score else ""
        rows = [[one["source"], error(one["as_shipped"]), error(one["held_out"])] for one in self.sources]
        return table(["source", "error as shipped", "held out"], rows)


@dataclass
class Calibration(Answer):
    """Constants of step time, and what the runs that they were fitted to say; `plan` and `estimate` take it."""
    logs: list[dict[str, Any]] = field(default_factory=list)
    runs: list[dict[str, Any]] = field(default_factory=list)
    learned: list[dict[str, Any]] = field(default_factory=list)
    calibration: dict[str, Any] = field(default_factory=dict)

    def rows(self) -> list[dict[str, Any]]:
        """A row for each run."""
        return copy.deepcopy(self.runs)

    def _repr_html_(self) -> str:
        rows = self.rows()
        heads = list(rows[0]) if rows else ["no runs"]
        return table(heads, [[row.get(head, "") for head in heads] for row in rows])
