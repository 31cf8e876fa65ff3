"""What answers are made of: plain values, named as in `--json` and in the C++ core.

Memory is in bytes, time in seconds, shares and chances between 0 and 1. Values cannot be changed and have a hash; lists are tuples.
"""
from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ._read import Record, absent, chance, gib, seconds, table
from .layout import Layout


@dataclass(frozen=True, slots=True)
class MadeBy:
    """What has answered: the same version and the same data answer the same."""
    version: str
    data: str  # a hash of all data files


@dataclass(frozen=True, slots=True)
class Violation:
    """Why a layout is invalid or, not `forbidden`, what speaks against it."""
    id: str
    forbidden: bool
    reason: str
    hint: str
    source: str


@dataclass(frozen=True, slots=True)
class Interval:
    """Holds the value with a chance of 90 %."""
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Range:
    low: int
    central: int
    high: int


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class FirstStep:
    allocated: int
    reserved: int


@dataclass(frozen=True, slots=True)
class Intervals:
    allocated: Interval
    reserved: Interval
    driver: Interval


@dataclass(frozen=True, slots=True)
class Peak:
    """The moment at which a rank holds most."""
    during: str
    chunk: int | None = None
    micro_batch: int | None = None
    in_flight: int | None = None
    operator: str | None = None


@dataclass(frozen=True, slots=True)
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

    def __repr__(self) -> str:
        return f"RankClass(pipeline_rank={self.pipeline_rank}, ranks={self.ranks}, layers={self.layers}, {gib(self.driver)} GiB)"


@dataclass(frozen=True, slots=True)
class Communicator:
    group: str
    members: int
    per_node: int
    count: int
    ends_only: bool
    bytes: Range


@dataclass(frozen=True, slots=True)
class Outside:
    """Memory that no allocator sees."""
    context: Range
    communicators: tuple[Communicator, ...]


@dataclass(frozen=True, slots=True)
class Memory:
    classes: tuple[RankClass, ...]
    worst: int  # the fullest of the classes
    capacity: int
    low: int
    high: int
    oom: float  # the chance
    outside: Outside

    @property
    def fullest(self) -> RankClass:
        return self.classes[self.worst]

    @property
    def peak(self) -> int:
        """Bytes that the fullest rank holds at most, all that the device counts."""
        return self.fullest.driver

    def rows(self) -> list[dict[str, Any]]:
        """A row for each class of ranks."""
        return [{"pipeline_rank": one.pipeline_rank, "ranks": one.ranks, "layers": one.layers, **asdict(one.bytes),
                 "allocated": one.allocated, "reserved": one.reserved, "driver": one.driver} for one in self.classes]

    def __repr__(self) -> str:
        return f"Memory({gib(self.peak)} of {gib(self.capacity)} GiB, OOM probability {chance(self.oom)})"

    def _repr_html_(self) -> str:
        heads = ["GiB of pipeline rank", *(str(one.pipeline_rank) for one in self.classes)]
        names = [*asdict(self.classes[0].bytes), "allocated", "reserved", "driver"]
        rows = self.rows()
        return table(heads, [[name.replace("_", " "), *(gib(row[name]) for row in rows)] for name in names
                             if any(row[name] for row in rows)])


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
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

    def __repr__(self) -> str:
        return f"StepTime({seconds(self.step)}, 90 % interval {seconds(self.low)} to {seconds(self.high)}, MFU {self.mfu:.1%})"


@dataclass(frozen=True, slots=True)
class Judged:
    """A layout with its memory and step time, or of an invalid one `violations`."""
    layout: Layout
    legal: bool = True
    violations: tuple[Violation, ...] = ()
    time: StepTime = absent("it was not predicted")
    memory: Memory = absent("it was not predicted")

    @property
    def valid(self) -> bool:
        return self.legal

    def summary(self) -> dict[str, Any]:
        """Its scalars, as a row: GiB and seconds."""
        return summary(self.layout, self.time, self.memory)

    def __repr__(self) -> str:
        return f"Judged({self.layout}: {told(self.time, self.memory, self.violations)})"


@dataclass(frozen=True, slots=True)
class HostMemory:
    per_rank: int
    ranks_per_node: int


@dataclass(frozen=True, slots=True)
class Unspecified:
    """What the question leaves open of its machines, and what a step takes where it is worse than usual."""
    name: str
    option: str  # what is assumed, as `on` has it: network=8x400G
    step_if_worse: float
    low_if_specified: float
    high_if_specified: float


@dataclass(frozen=True, slots=True)
class SmallestChange:
    """The smallest change of a layout that fits."""
    what: str
    words: str
    layout: Layout
    driver: int


@dataclass(frozen=True, slots=True)
class Alike:
    layout: Layout
    step: float


@dataclass(frozen=True, slots=True)
class PlannedLayout:
    layout: Layout
    time: StepTime
    alike: tuple[Alike, ...]
    memory: Memory

    def summary(self) -> dict[str, Any]:
        """Its scalars, as a row: GiB and seconds."""
        return summary(self.layout, self.time, self.memory)

    def __repr__(self) -> str:
        return f"PlannedLayout({self.layout}: {told(self.time, self.memory)})"


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Run:
    """The whole run, of `tokens`."""
    tokens: float
    steps: float
    days: float
    accelerator_hours: float
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """The rule that refused most, where all were refused."""
    id: str
    reason: str
    hint: str
    source: str
    layouts: int
    refused: int


@dataclass(frozen=True, slots=True)
class LargerCluster:
    cluster: str
    accelerators: int
    layout: Layout
    step: float


@dataclass(frozen=True, slots=True)
class FrontPoint(LargerCluster):
    """As fast with more memory left, or on fewer accelerators."""
    free: int
    oom: float


@dataclass(frozen=True, slots=True)
class Within:
    """The fewest accelerators that end in time, if any do."""
    days: float
    found: LargerCluster | None = None


@dataclass(frozen=True, slots=True)
class WithMoreMemory:
    times: float
    layout: Layout
    step: float


@dataclass(frozen=True, slots=True)
class Beside:
    """A layout that was not asked for: `job` of leaner states and adapters, the `trainer` of another, `host` where it offloads, `kernels`
    that the trainer runs only if asked."""
    layout: Layout
    step: float
    driver: int
    job: str | None = None
    trainer: str | None = None
    host: HostMemory | None = None
    kernels: tuple[str, ...] = ()

    def words(self) -> str:
        """What to ask otherwise, and what comes of it."""
        more = "".join(f" with {name}={value}" for name, value in (("job", self.job), ("trainer", self.trainer)) if value)
        return f"{self.layout}{more}: {seconds(self.step)} a step, {gib(self.driver)} GiB"


@dataclass(frozen=True, slots=True)
class Riskier:
    """The fastest layout that has more than the OOM probability asked for, at most one half."""
    oom: float
    layout: Layout
    step: float


@dataclass(frozen=True, slots=True)
class AutoOrder:
    """An order of actions made for the layout `best[of]`, with the step of its fixed schedule, and a bound of any order."""
    of: int
    layout: Layout
    step: float
    fixed_step: float
    gain: float  # 1 - step / fixed_step; 0 or less: the fixed schedule is no slower
    bound: float
    gap: float  # step / bound - 1
    driver: int
    oom: float


@dataclass(frozen=True, slots=True)
class Nearby(Beside):
    """The fastest layout of another batch or on another number of accelerators."""
    batch: int = 0
    cluster: str = ""
    tokens_per_second: float = 0


@dataclass(frozen=True, slots=True)
class RampStage:
    """The recommended layout with one batch of a ramp."""
    batch: int
    step: float
    tokens_per_second: float
    days: float | None = None  # where its tokens are told


@dataclass(frozen=True, slots=True)
class Candidate:
    """One of the layouts that predictions do not tell apart."""
    layout: Layout
    step: float
    worth: float
    amounts: Record  # of what experts avoid


@dataclass(frozen=True, slots=True)
class Choice:
    """Layouts that predictions do not tell apart, least worth first."""
    doubt: float  # share of the fastest's step
    weights: Record  # per cent of a step that one of each has to gain
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True)
class KnobChange:
    knob: str
    from_: str
    to: str


@dataclass(frozen=True, slots=True)
class Today:
    """What is run today, and what each of `best` changes."""
    judged: Judged
    changes: tuple[tuple[KnobChange, ...], ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Neighbour(KnobChange):
    """A layout with one knob changed."""
    judged: Judged


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """A run whose step was measured, what was predicted of it before, and now that it is known."""
    label: str
    stack: str
    measured: float
    predicted_before: float
    predicted_now: float
    scale: float | None = None


@dataclass(frozen=True, slots=True)
class Setting:
    """One of a trainer's own settings, of which part of the plan it comes and why."""
    key: str
    values: tuple[str, ...]
    of: str
    why: str


@dataclass(frozen=True, slots=True)
class File:
    path: str
    text: str

    def __repr__(self) -> str:
        return f"File({self.path!r}, {len(self.text):,} characters)"


@dataclass(frozen=True, slots=True)
class Unsayable:
    what: str
    why: str


@dataclass(frozen=True, slots=True)
class Check:
    """What the target's own code says: accepted, refused or not-checked, why, and which version of it."""
    verdict: str
    reason: str | None = None
    by: str | None = None


@dataclass(frozen=True, slots=True)
class Idle:
    """Seconds of all ranks."""
    warmup: float
    steady: float
    drain: float
    transfer: float


@dataclass(frozen=True, slots=True)
class Action:
    action: str
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Op:
    """An operator of a recorded program."""
    index: int
    name: str
    phase: str | None = None
    module: str | None = None


@dataclass(frozen=True, slots=True)
class Alive:
    """A storage that is alive at the peak."""
    storage: int
    bytes: int
    kind: str
    name: str | None = None
    module: str | None = None
    made_by: Op | None = None
    last_used_by: Op | None = None
    waits_for: Op | None = None


@dataclass(frozen=True, slots=True)
class MeasuredStep:
    """Seconds of a step, predicted and by the log."""
    predicted: float
    low: float
    high: float
    measured: float
    spread: float


@dataclass(frozen=True, slots=True)
class StepExplanation:
    """A constant of the software stack that would explain the difference alone, and by how many of its usual widths it is off."""
    constant: str
    now: float
    needed: float
    widths: float


@dataclass(frozen=True, slots=True)
class MeasuredMemory:
    """Bytes of a rank, predicted and by the log."""
    pipeline_rank: int
    counter: str
    predicted: int
    low: int
    high: int
    measured: int
    rank: int | None = None


@dataclass(frozen=True, slots=True)
class Trial:
    """One real run of `tune`, and how it ended."""
    trial: int
    layout: Layout
    state: str
    why: str
    predicted_seconds: float
    oom: float
    end: str | None = None
    cause: str | None = None
    took_seconds: float | None = None
    memory: Any = None
    step_seconds: float | None = None
    spread: float | None = None
    folder: str | None = None


@dataclass(frozen=True, slots=True)
class Belief:
    """What a layout is believed to take by now."""
    layout: Layout
    predicted_seconds: float
    expected_seconds: float
    low_seconds: float
    high_seconds: float
    oom: float


def summary(layout: Layout, time: StepTime, memory: Memory) -> dict[str, Any]:
    """Scalars of a layout: its degrees, seconds and GiB."""
    found: dict[str, Any] = {**(layout.degrees() if layout else {}), "step_s": None}
    if time:
        found.update(step_s=time.step, low_s=time.low, high_s=time.high, mfu=time.mfu,
                     tokens_per_second_per_rank=time.tokens_per_second_per_rank)
    if memory:
        found.update({f"{name}_gib": size / 2**30 for name, size in (
            ("peak", memory.peak), ("low", memory.low), ("high", memory.high), ("capacity", memory.capacity))}, oom=memory.oom)
    return {**found, "layout": str(layout)}


def told(time: StepTime, memory: Memory, violations: tuple[Violation, ...] = ()) -> str:
    """One line."""
    if not time or not memory:
        return "invalid" + "".join(f"; {one.reason}" for one in violations[:1])
    return f"{seconds(time.step)} a step, {gib(memory.peak)} of {gib(memory.capacity)} GiB, OOM probability {chance(memory.oom)}"
