"""What questions are answered with: values that cannot be changed, named as in `--json`.

Memory is in bytes, time in seconds, shares and chances between 0 and 1. `to_dict()` is the JSON as the
program prints it; `rows()` is a list of flat dicts, and `to_pandas()` a table in GiB and seconds.
"""
from __future__ import annotations

import copy
import json
import os
import pathlib
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from ._ask import Error, Question, document_word, entries_word, run_program
from ._read import Record, absent, chance, gib, read, seconds, table, table_of
from .layout import Layout
from .options import Data, End, LayoutLike, Target, Verdict
from .parts import (Action, Alive, AutoOrder, Belief, Beside, Check, Choice, File, HostMemory, Idle, Judged, LargerCluster, MadeBy,
                    MeasuredMemory, MeasuredRun, MeasuredStep, Memory, Nearby, Neighbour, Op, PlannedLayout, RampStage, Refusal, Riskier,
                    Run, Search, Setting, SmallestChange, StepExplanation, StepTime, Today, Trial, Unsayable, Unspecified, Violation,
                    Within, WithMoreMemory, FrontPoint, summary, told)

if TYPE_CHECKING:
    import pandas

A = TypeVar("A", bound="Answer")
# What one question about a model has in common with the next.
SHARED = ("on", "trainer", "job", "optimizer", "precision", "attention", "risk", "constants", "calibration", "measured", "tuned",
          "expert_load")


@dataclass(frozen=True, slots=True, repr=False)
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
        """The answer as the program prints it, which it is asked for once more."""
        return self.question.text(width)

    def rows(self) -> list[dict[str, Any]]:
        """A row for each part, named as in JSON."""
        return []

    def table(self) -> list[dict[str, Any]]:
        """Rows of a table of many answers: GiB and seconds."""
        return self.rows()

    def to_pandas(self) -> pandas.DataFrame:
        """As a table of pandas, which has to be installed."""
        return to_pandas([self])

    def line(self) -> str:
        """What `repr` says."""
        return " ".join((*self.question.command, *self.question.positionals))

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.line()}>"

    def _repr_html_(self) -> str:
        return table_of(self.rows(), self.line())


def answered(cls: type[A], question: Question, **more: Any) -> A:
    """Asks, and reads the answer. What has no key in JSON, such as the layout of an invalid one, is told in `more`."""
    document = question.json(run_program if question.command[:2] in (("tune", "run"), ("tune", "resume")) else None)
    return answer_of(cls, document, question, **more)


def answer_of(cls: type[A], document: dict[str, Any], question: Question = Question(()), **more: Any) -> A:
    answer = read(cls, {**more, **document})
    object.__setattr__(answer, "question", question)
    object.__setattr__(answer, "document", document)
    return answer


def to_pandas(answers: Iterable[Answer]) -> pandas.DataFrame:
    """Answers as one table, in GiB and seconds: a row for each estimate, one for each layout of a plan."""
    import pandas
    return pandas.DataFrame([row for answer in answers for row in answer.table()])


@dataclass(frozen=True, slots=True, repr=False)
class Asked(Answer):
    """An answer about one model, from which to ask on without saying the question again; options change it."""

    def _next(self, layout: Any, more: Mapping[str, Any]) -> dict[str, Any]:
        options = {key: value for key, value in self.question.options.items() if key in SHARED}
        words: Mapping[str, Any] = getattr(self, "words", None) or {}
        options = {**{key: words[key] for key in SHARED if key in words and options.get(key) is None}, **options}
        text = entries_word(layout) or ""
        keys = {entry.partition("=")[0].strip() for entry in text.split(",")}
        for short, key in (("batch", "gbs"), ("seq", "seq"), ("precision", "precision")):  # each is said once
            options[short] = None if key in keys else self._said(short)
        return {**options, **replaced(more)}

    def _said(self, name: str) -> Any:
        return self.question.options.get(name)

    def _layout(self) -> Layout:
        found: Layout = self.layout  # type: ignore[attr-defined]
        return found

    def _model(self) -> tuple[str, ...]:
        return self.question.positionals

    def estimate(self, layout: LayoutLike | None = None, **options: Any) -> Estimate:
        """The same question of one layout: another, or the answer's own."""
        wanted = self._layout() if layout is None else layout
        more = {"config": self.question.options.get("config"), **options}  # a trainer's own file says its part again
        return estimated(Question(("estimate",), self._model(), {**self._next(wanted, more), "layout": entries_word(wanted)}))

    def explain(self, against: LayoutLike | None = None, layout: LayoutLike | None = None, **options: Any) -> Explanation:
        """What one change of the layout would do, or how it compares."""
        wanted = self._layout() if layout is None else layout
        return answered(Explanation, Question(("explain",), self._model(), {
            **self._next(wanted, options), "layout": entries_word(wanted), "against": entries_word(against)}))

    def export(self, folder: str | os.PathLike[str] | None = None, *, layout: LayoutLike | None = None, to: Target | None = None,
               force: bool = False, **options: Any) -> Export:
        """The layout as the trainer's own settings, written into the folder if one is named."""
        wanted = self._layout() if layout is None else layout
        found = answered(Export, Question(("export",), (entries_word(wanted) or "",), {
            **self._next(wanted, options), "model": self._model()[0], "to": to}))
        if folder is not None:
            found.write(folder, force=force)
        return found

    def reconcile(self, log: str | os.PathLike[str] | None = None, **options: Any) -> Reconciliation:
        """A log of the run beside this answer; `snapshot` is a converted memory snapshot."""
        more = {key: value for key, value in self._next(self._layout(), options).items()
                if key not in ("risk", "constants", "measured", "tuned", "expert_load")}
        return answered(Reconciliation, Question(("reconcile",), () if log is None else (os.fspath(log),), {
            **more, "model": self._model()[0], "layout": str(self._layout())}))


@dataclass(frozen=True, slots=True, repr=False)
class Estimate(Asked):
    """Memory and step time of one layout; of an invalid one only `violations`, and what is asked of the rest raises them."""
    legal: bool = False
    violations: tuple[Violation, ...] = ()
    layout: Layout = absent("the question names no layout")
    verdict: Verdict | None = None
    memory: Memory = absent("an invalid layout has no memory")
    time: StepTime = absent("an invalid layout has no step time")
    host: HostMemory | None = None
    unspecified: tuple[Unspecified, ...] = ()  # the widest first
    notes: tuple[str, ...] = ()
    change: SmallestChange | None = None
    measured: MeasuredRun | None = None  # the run that adjusted the step time

    def __post_init__(self) -> None:
        for name in ("memory", "time"):
            if not getattr(self, name):
                why = "; ".join(one.reason for one in self.violations if one.forbidden)
                object.__setattr__(self, name, absent(f"an invalid layout has no {name}: {why}"))

    @property
    def valid(self) -> bool:
        """Whether the trainer takes the layout."""
        return self.legal

    @property
    def fits(self) -> bool:
        return self.verdict == "fits"

    def summary(self) -> dict[str, Any]:
        """Its scalars: GiB and seconds."""
        reason = next((one.reason for one in self.violations if one.forbidden), None)
        return {"model": self._model()[0] if self._model() else None, "valid": self.valid, "verdict": self.verdict,
                **summary(self.layout, self.time, self.memory), "reason": reason}

    def table(self) -> list[dict[str, Any]]:
        return [self.summary()]

    def line(self) -> str:
        return f"{self.layout}: {f'{self.verdict}, ' if self.verdict else ''}{told(self.time, self.memory, self.violations)}"

    def beside(self, step: float | None = None, reserved: int | None = None, allocated: int | None = None) -> str:
        """What was measured, seconds and bytes, beside what was predicted: "predicted 14.2 s, measured 15.1 s; ..."."""
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
            return table(["invalid", "hint"], [[one.reason, one.hint] for one in self.violations])
        rows: list[list[Any]] = [["layout", self.layout], ["verdict", self.verdict], ["OOM probability", chance(self.memory.oom)],
                ["peak memory, GiB", f"{gib(self.memory.peak)} of {gib(self.memory.capacity)}"],
                ["step", f"{seconds(self.time.step)} ({seconds(self.time.low)} to {seconds(self.time.high)})"],
                ["MFU", f"{self.time.mfu:.1%}"], *(["note", one] for one in self.notes)]
        if self.change:
            rows.append(["smallest change that fits", f"{self.change.words} ({gib(self.change.driver)} GiB)"])
        return table(["estimate", ""], rows) + self.memory._repr_html_()


def estimated(question: Question) -> Estimate:
    """Of an invalid layout JSON says only why; the layout is then as it was asked for."""
    try:
        asked = {"layout": Layout.parse(question.options["layout"] or "")}
    except (KeyError, Error):
        asked = {}
    return answered(Estimate, question, **asked)


@dataclass(frozen=True, slots=True, repr=False)
class Plan(Asked):
    """The fastest layouts that fit, best first; `recommended` is the one to run."""
    model: str = ""
    cluster: str = ""
    trainer: str = ""
    job: Record = Record()
    batch: int = 0
    seq: int = 0
    precision: str = ""
    risk: float = 0
    end: End = "nothing-fits"
    best: tuple[PlannedLayout, ...] = ()
    recommended: PlannedLayout = absent("no layout fits")  # in JSON its place in `best`
    search: Search | None = None
    choice: Choice | None = None  # why that one
    cannot_be_said: tuple[Unsayable, ...] = ()  # of the recommended layout, to the trainer by `export`
    attention: str | None = None
    expert_load: str | None = None
    fixed: tuple[str, ...] = ()
    also: tuple[str, ...] = ()  # axes that were looked at too
    from_recipes: tuple[str, ...] = ()  # what is taken from published recipes of the trainer
    without_effect: tuple[str, ...] = ()  # of `also`: what is searched anyway
    not_looked_at: tuple[str, ...] = ()  # axes that are as the trainer has them unasked
    run: Run | None = None
    cut_short: bool = False  # time was up before all was looked at that is told beside the answer
    tight_at: float | None = None  # the risk at which `best` fits, where nothing does at `risk`
    exportable: Beside | None = None  # the nearest to the recommended layout that `export` writes, where it cannot
    smallest: PlannedLayout | None = None
    refusal: Refusal | None = None
    fits_on: LargerCluster | None = None
    with_more_memory: WithMoreMemory | None = None
    host: HostMemory | None = None  # what the recommended layout offloads
    unspecified: tuple[Unspecified, ...] = ()  # what is open of the machines: the widest first
    with_offload: Beside | None = None  # faster, where layouts fit without and memory makes them slow
    with_lean_states: Beside | None = None  # AdamW with states in fewer bits, where memory makes the best slow or nothing fits
    with_lean_gradients: Beside | None = None  # likewise with gradients in bf16 where fp32 is the trainer's own
    with_kernels: Beside | None = None  # with all fused kernels that the trainer runs only if asked, where they gain
    change: Beside | None = None  # where nothing fits: near `smallest`, with what is not searched
    adapters: Beside | None = None  # where nothing fits on few accelerators: with the weights frozen
    riskier: Riskier | None = None
    ramp: tuple[RampStage, ...] = ()  # where the batch grows, the last one included
    nearby_batches: tuple[Nearby, ...] = ()  # where an odd factor of the accelerators divides no batch
    nearby_sizes: tuple[Nearby, ...] = ()  # likewise; fewer leave spares
    auto: tuple[AutoOrder, ...] = ()  # of the first families with a pipeline, if the trainer runs a file
    why_not: Judged | None = None
    why_not_fits: Judged | None = None  # the nearest layout that does, where it does not
    measured: MeasuredRun | None = None  # the run that adjusted the step times
    today: Today | None = None  # what is run today, and what each of `best` changes
    within: Within | None = None  # the fewest accelerators that end in time
    pareto: tuple[FrontPoint, ...] = ()
    words: Record = Record()  # the question that the recommended layout answers, as `reconcile` reads it
    details: Record | None = None  # what the report draws, where asked for

    def __post_init__(self) -> None:
        place: Any = self.recommended
        if isinstance(place, int):
            chosen = self.best[place] if self.best else absent(f"{self.end}: there is no layout to recommend")
            object.__setattr__(self, "recommended", chosen)

    @property
    def layout(self) -> Layout:
        """The recommended layout."""
        return self.recommended.layout

    def _said(self, name: str) -> Any:
        return {"batch": self.batch, "seq": self.seq}.get(name, self.question.options.get(name))

    def report(self, path: str | os.PathLike[str]) -> pathlib.Path:
        """Makes the plan again and writes it as an HTML page to look at."""
        page = self.question.page(os.fspath(path))
        pathlib.Path(path).write_text(page, encoding="utf-8")
        return pathlib.Path(path)

    def tune(self, *command: str, history: str | os.PathLike[str], **options: Any) -> Tuning:
        """Real trials of this question's layouts; see `trainwright.tune`."""
        asked = {key: value for key, value in self.question.options.items()
                 if key in (*SHARED, "fix", "no", "only", "batch", "seq", "tokens")}
        return answered(Tuning, Question(("tune", "run"), (*self._model(), *command), {**asked, "history": history, **replaced(options)}))

    def rows(self) -> list[dict[str, Any]]:
        """A row for each layout."""
        return [{"layout": str(one.layout), **one.layout.degrees(), "step": one.time.step, "low": one.time.low, "high": one.time.high,
                 "mfu": one.time.mfu, "tokens_per_second_per_rank": one.time.tokens_per_second_per_rank,
                 "driver": one.memory.peak, "capacity": one.memory.capacity, "oom": one.memory.oom} for one in self.best]

    def table(self) -> list[dict[str, Any]]:
        return [{"model": self.model, **one.summary(), "recommended": one is self.recommended} for one in self.best]

    def line(self) -> str:
        chosen = self.recommended
        found = f"{len(self.best)} layouts, recommended {chosen.layout}: {told(chosen.time, chosen.memory)}" if self.best else self.end
        return f"{self.model} on {self.cluster} with {self.trainer}: {found}"

    def ways_out(self) -> list[tuple[str, str]]:
        """What was not asked for, and would fit or be faster."""
        found: list[tuple[str, Any]] = [
            ("a change", self.change), ("leaner states", self.with_lean_states), ("leaner gradients", self.with_lean_gradients),
            ("offload", self.with_offload), ("adapters", self.adapters), ("fused kernels", self.with_kernels)]
        said = [(name, one.words()) for name, one in found if one]
        if self.fits_on:
            said.append((f"on {self.fits_on.cluster}", f"{self.fits_on.layout}: {seconds(self.fits_on.step)} a step"))
        return said

    def _repr_html_(self) -> str:
        caption = (f"{self.model} on {self.cluster} with {self.trainer}: {self.batch:,} sequences of {self.seq:,} tokens "
                   "a step" + ("" if self.best else f"; {self.end.replace('-', ' ')}"))
        listed = self.best or ((self.smallest,) if self.smallest else ())
        rows = [[one.layout, seconds(one.time.step), f"{one.time.mfu:.1%}", gib(one.memory.peak), chance(one.memory.oom),
                 "recommended" if one is self.recommended else "" if self.best else f"needs least, of {gib(one.memory.capacity)}"]
                for one in listed]
        out = table(["layout", "step", "MFU", "peak memory, GiB", "P(OOM)", ""], rows, caption)
        if self.best:
            return out
        refused = [(self.refusal.reason, self.refusal.hint)] if self.refusal else []
        return out + table(["what would fit", ""], refused + self.ways_out())


@dataclass(frozen=True, slots=True, repr=False)
class Explanation(Answer):
    """A layout and its neighbours of one change each, or beside another."""
    layout: Judged = absent("it was not judged")
    neighbours: tuple[Neighbour, ...] = ()
    against: Judged | None = None
    measured: MeasuredRun | None = None

    def rows(self) -> list[dict[str, Any]]:
        """A row for each neighbour, or for both layouts that are compared; GiB and seconds."""
        if self.against:
            return [{"valid": one.valid, **one.summary()} for one in (self.layout, self.against)]
        return [{"knob": one.knob, "from": one.from_, "to": one.to, "valid": one.judged.valid, **one.judged.summary()}
                for one in self.neighbours]

    def _repr_html_(self) -> str:
        def cells(judged: Judged) -> list[str]:
            return [str(judged.layout), told(judged.time, judged.memory, judged.violations)]
        judged = [("", self.layout)] + [("against", self.against)] * bool(self.against)
        rows = [[name, *cells(one)] for name, one in judged if one]
        return table(["change", "layout", ""], rows + [[f"{one.knob} {one.from_} to {one.to}", *cells(one.judged)]
                                                       for one in self.neighbours])


@dataclass(frozen=True, slots=True, repr=False)
class Export(Answer):
    """A plan in a trainer's own words; of a layout that it cannot be told, why, and the nearest that it can."""
    legal: bool = False
    target: str | None = None
    settings: tuple[Setting, ...] | None = None
    notes: tuple[str, ...] = ()  # what is left to the user, and what the trainer would do otherwise
    files: tuple[File, ...] = ()
    violations: tuple[Violation, ...] = ()
    cannot_be_said: tuple[Unsayable, ...] = ()
    nearest: Layout | None = None
    version: str | None = None  # of the trainer, another that can be told all of it
    into: str | None = None  # a file of the user's own, what would change in it and how it would read
    diff: str | None = None
    changed: str | None = None
    check: Check | None = None  # asked for by check=True

    @property
    def valid(self) -> bool:
        return self.legal

    def file(self, path: str) -> str:
        """The text of one of the files."""
        return next(one.text for one in self.files if one.path == path)

    @property
    def arguments(self) -> list[str]:
        """The words of a command line, as Megatron-LM, torchtitan and Paddle take them."""
        found = re.findall(r"^[A-Z]+=\(\n(.*?)^\)$", self.file("settings.sh"), re.M | re.S)
        return [word for part in found for word in shlex.split(part, comments=True)]

    @property
    def config(self) -> dict[str, Any]:
        """The settings as one dict: a DeepSpeed JSON, or the keys of a YAML or TOML."""
        if any(one.path == "ds_config.json" for one in self.files):
            return dict(json.loads(self.file("ds_config.json")))
        found: dict[str, Any] = {}
        for one in self.settings or ():
            *path, last = one.key.split(".")
            if path[:1] == ["TrainingArguments"]:
                continue
            inner = found
            for key in path:
                inner = inner.setdefault(key, {})
            inner[last] = scalar(one.values)
        return found

    @property
    def training_arguments(self) -> dict[str, Any]:
        """Keyword arguments of `transformers.TrainingArguments`; DeepSpeed's settings are in it as a dict."""
        found = {one.key.partition(".")[2]: scalar(one.values) for one in self.settings or () if one.key.startswith("TrainingArguments.")}
        return {**found, "deepspeed": self.config} if "deepspeed" in found else found

    @property
    def parallelism_config(self) -> dict[str, Any]:
        """Keyword arguments of `accelerate.ParallelismConfig`."""
        return without_prefix("parallelism_config_", self.config.get("parallelism_config", {}))

    @property
    def fsdp_plugin(self) -> dict[str, Any]:
        """Keyword arguments of `accelerate.FullyShardedDataParallelPlugin`."""
        found = without_prefix("fsdp_", self.config.get("fsdp_config", {}))
        names = {"version": "fsdp_version", "offload_params": "cpu_offload",
                 "transformer_layer_cls_to_wrap": "transformer_cls_names_to_wrap"}
        return {names.get(key, key): value for key, value in found.items()}

    def write(self, folder: str | os.PathLike[str], force: bool = False) -> list[pathlib.Path]:
        """Writes the files; gives their paths. What is there with another content, or is a link, raises
        FileExistsError before anything is written; force replaces it (a link, not what it leads to)."""
        files = {pathlib.Path(folder) / file.path: file.text for file in self.files}
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
        return [{"key": one.key, "values": " ".join(one.values), "of": one.of, "why": one.why} for one in self.settings or ()]

    def line(self) -> str:
        return f"{self.target}, {', '.join(one.path for one in self.files)}" if self.settings is not None else "refused"

    def _repr_html_(self) -> str:
        if self.settings is None:
            faults = [[one.what, one.why] for one in self.cannot_be_said]
            return table(["refused", "why"], faults + [[one.reason, one.hint] for one in self.violations])
        return table([str(self.target), "value", "why"], [[row["key"], row["values"], row["why"]] for row in self.rows()])


def scalar(values: tuple[str, ...]) -> Any:
    """The value of a setting: true, 8 and 1e-5 are no texts; a switch has none."""
    def one(text: str) -> Any:
        try:
            return json.loads(text)
        except ValueError:
            return text
    return True if not values else one(values[0]) if len(values) == 1 else [one(text) for text in values]


def without_prefix(prefix: str, values: Mapping[str, Any]) -> dict[str, Any]:
    return {key.removeprefix(prefix): value for key, value in values.items()}


@dataclass(frozen=True, slots=True, repr=False)
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
    peak_memory: tuple[int, ...] = ()
    actions: tuple[tuple[Action, ...], ...] = ()
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

    def line(self) -> str:
        return f"{self.kind}, {self.ranks} ranks, {self.microbatches} micro-batches: {self.makespan:g}, bubble {self.bubble:.1%}"

    def _file(self, form: str, **more: Any) -> str:
        options = {**self.question.options, form: "it", **more}
        return Question(("schedule", "simulate"), self.question.positionals, options).files()["it"]

    def _repr_html_(self) -> str:
        if self.fits is False:
            return table(["nothing fits the cap", "the smallest that does"], [[self.kind, self.smallest_cap]])
        return self.svg()


@dataclass(frozen=True, slots=True, repr=False)
class Replay(Answer):
    """Op-by-op memory of a recorded program: the peak and what is alive there."""
    program: str = ""
    ops: int = 0
    storages: int = 0
    peak: int = 0
    peak_op: Op | None = None
    begin: int = 0
    end: int = 0
    by_kind: Record = Record()
    by_module: tuple[Record, ...] = ()
    alive_count: int = 0
    alive: tuple[Alive, ...] = ()
    recompute: tuple[Record, ...] = ()
    marks: tuple[Record, ...] = ()
    reserved: Record | None = None

    def rows(self) -> list[dict[str, Any]]:
        """A row for each storage that is alive at the peak, the largest first."""
        return [asdict(one) for one in self.alive]

    def line(self) -> str:
        return f"{self.program}: peak {gib(self.peak)} GiB"

    def _repr_html_(self) -> str:
        return table(["alive at the peak", "kind", "GiB"], [[one.name, one.kind, gib(one.bytes)] for one in self.alive], self.line())


@dataclass(frozen=True, slots=True, repr=False)
class Validation(Answer):
    """How wrong predictions are on measured runs, by their source."""
    sources: tuple[Record, ...] = ()

    def rows(self) -> list[dict[str, Any]]:
        """A row for each run, where `rows=True` asked for them."""
        return [{"source": source["source"], **row} for source in self.sources for row in source.get("rows", ())]

    def _repr_html_(self) -> str:
        def error(score: Mapping[str, Any]) -> str:
            return f"{score['mape']:.1%}" if "mape" in score else ""
        rows = [[one["source"], error(one["as_shipped"]), error(one["held_out"])] for one in self.sources]
        return table(["source", "error as shipped", "held out"], rows)


@dataclass(frozen=True, slots=True, repr=False)
class Calibration(Answer):
    """Constants of step time, and what the runs that they were fitted to say; `plan` and `estimate` take it."""
    logs: tuple[Record, ...] = ()
    runs: tuple[MeasuredRun, ...] = ()
    learned: tuple[Record, ...] = ()
    calibration: Record = Record()

    def rows(self) -> list[dict[str, Any]]:
        """A row for each run."""
        return [asdict(one) for one in self.runs]

    def line(self) -> str:
        return f"{len(self.runs)} runs" + "".join(f"; {one.label}: {seconds(one.measured)}, predicted {seconds(one.predicted_before)}, now "
                                                  f"{seconds(one.predicted_now)}" for one in self.runs[:1])


@dataclass(frozen=True, slots=True, repr=False)
class Reconciliation(Answer):
    """A log beside its prediction; `explanations` of the step time, the least surprising first."""
    step: MeasuredStep | None = None
    memory: tuple[MeasuredMemory, ...] = ()
    explanations: tuple[StepExplanation, ...] = ()
    out_of_memory: tuple[Record, ...] = ()
    oom: float = 0
    snapshot: Record | None = None

    def rows(self) -> list[dict[str, Any]]:
        """The step, seconds, and the memory of each rank, bytes."""
        step = [{"what": "step", **asdict(self.step)}] if self.step else []
        return step + [{"what": one.counter, **asdict(one)} for one in self.memory]

    def line(self) -> str:
        said = [f"predicted {seconds(self.step.predicted)}, measured {seconds(self.step.measured)}"] if self.step else []
        return "; ".join(said + [f"memory {gib(one.measured)} of {gib(one.predicted)} GiB {one.counter}" for one in self.memory[:1]])

    def _repr_html_(self) -> str:
        rows = [["step", seconds(self.step.measured), seconds(self.step.predicted)]] if self.step else []
        rows += [[f"{one.counter} of pipeline rank {one.pipeline_rank}, GiB", gib(one.measured), gib(one.predicted)] for one in self.memory]
        out = table(["", "measured", "predicted"], rows)
        return out + table(["would explain the step", "now", "needed"], [[one.constant, one.now, one.needed]
                                                                        for one in self.explanations]) * bool(self.explanations)


@dataclass(frozen=True, slots=True, repr=False)
class Tuning(Answer):
    """What was tried, the fastest so far, and what would come next and why."""
    history: str = ""
    stopped: str = ""
    why: str = ""
    candidates: tuple[Belief, ...] = ()
    best: Trial | None = None
    next: Layout | None = None
    trials: tuple[Trial, ...] = ()

    def rows(self) -> list[dict[str, Any]]:
        """A row for each trial."""
        return [{**asdict(one), "layout": str(one.layout)} for one in self.trials]

    def line(self) -> str:
        best = f"; best {self.best.layout}, {seconds(self.best.step_seconds or 0)}" if self.best else ""
        return f"{len(self.trials)} trials in {self.history}{best}; {self.why}"

    def _repr_html_(self) -> str:
        rows = [[one.trial, one.layout, one.end or one.state, seconds(one.predicted_seconds),
                 seconds(one.step_seconds) if one.step_seconds else ""] for one in self.trials]
        return table(["trial", "layout", "end", "predicted", "measured"], rows, self.line())

    def export(self, folder: str | os.PathLike[str], calibration: str | os.PathLike[str] | None = None, force: bool = False) -> None:
        """Writes the files of the fastest trial, and what was learned as `calibration=` of others reads it."""
        found = Question(("tune", "export"), (), dict(history=self.history, out=folder, calibration=calibration, force=force)).files()
        for path, text in found.items():
            pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
            pathlib.Path(path).write_text(text)


@dataclass(frozen=True, slots=True, repr=False)
class Listing(Answer):
    """What there is of one kind, as rows with a name."""
    items: tuple[Any, ...] = ()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, place: int) -> Any:
        return self.items[place]

    def rows(self) -> list[dict[str, Any]]:
        return [one.to_dict() if isinstance(one, Record) else {"name": one} for one in self.items]

    def names(self) -> list[str]:
        """Each name once."""
        return list(dict.fromkeys(str(row["name"]) for row in self.rows()))

    def line(self) -> str:
        return f"{len(self)} {self.question.command[-1]}"

    def _repr_html_(self) -> str:
        return table_of([{key: value for key, value in row.items() if not isinstance(value, (dict, list))} for row in self.rows()], self.line())


@dataclass(frozen=True, slots=True, repr=False)
class Shown(Answer):
    """Anything that `show` tells; `found["key"]` and `found.to_dict()` have it as JSON does."""

    def __getitem__(self, key: str) -> Any:
        return Record(self.document)[key]

    def rows(self) -> list[dict[str, Any]]:
        return [{key: value for key, value in self.document.items() if key not in ("schema", "made_by")}]

    def _repr_html_(self) -> str:
        return table([self.line(), ""], [[key, str(value)[:200]] for key, value in self.rows()[0].items()])


@dataclass(frozen=True, slots=True, repr=False)
class ModelShape(Shown):
    """A model: its shape, parameters by part and FLOPs. Questions take it as `model`."""
    model: Record = Record()
    parameters: Record = Record()
    flops_per_token: Record = Record()

    @property
    def name(self) -> str:
        return str(self.model["name"])

    @property
    def family(self) -> str:
        return str(self.model["family"])

    @property
    def layers(self) -> int:
        return len(self.model["layers"])

    @property
    def total(self) -> int:
        """Its parameters, all of them."""
        return int(self.parameters["total"])

    @property
    def active(self) -> int:
        """Those that one token meets."""
        return int(self.parameters["active"])

    def line(self) -> str:
        return f"{self.name}, {self.total / 1e9:.4g} B parameters, {self.layers} layers"


@dataclass(frozen=True, slots=True, repr=False)
class Cluster(Shown):
    """Accelerators and their network. Questions take it as `on`."""
    name: str = ""
    groups: tuple[Record, ...] = ()
    sources: Record = Record()

    @property
    def accelerators(self) -> int:
        return sum(int(one["nodes"]) * int(one["per_node"]) for one in self.groups)

    def line(self) -> str:
        return f"{self.name}, {self.accelerators} accelerators"


@dataclass(frozen=True, slots=True, repr=False)
class ShownLayout(Shown):
    """Which ranks sit where, and whether a layout is valid."""
    layout: Layout = absent("it was not understood")
    legal: bool = False
    violations: tuple[Violation, ...] = ()
    ranks: int = 0
    micro_batches: int = 0
    tokens_per_step: int = 0
    groups: Record = Record()

    @property
    def valid(self) -> bool:
        return self.legal


def constants_of(calibration: Data | Calibration | None) -> Any:
    """As `--calibration` reads it."""
    return calibration.calibration if isinstance(calibration, Calibration) else calibration


def replaced(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as words of the command: trainers, jobs, layouts and constants have forms of their own."""
    found = dict(options)
    for key in ("trainer", "model"):
        if found.get(key) is not None:
            found[key] = document_word(found[key])
    job = found.get("job")
    if isinstance(job, Mapping) and "targets" in job:  # as peft's LoraConfig names them
        kind = "qlora" if "qlora" in job else "lora"
        targets = job["targets"] if isinstance(job["targets"], str) else "+".join(job["targets"])
        found["job"] = {**{key: value for key, value in job.items() if key != "targets"}, kind: f"{job.get(kind, 16)}:{targets}"}
    for key in ("job", "layout", "why_not", "from_", "against"):
        if found.get(key) is not None:
            found[key] = entries_word(found[key])
    if found.get("calibration") is not None:
        found["calibration"] = constants_of(found["calibration"])
    fix = found.get("fix")
    if isinstance(fix, Mapping):
        found["fix"] = [f"{key}={value}" for key, value in fix.items()]
    among = found.get("among")
    if among is not None:
        found["among"] = [entries_word(one) for one in (among if isinstance(among, (list, tuple)) else [among])]
    return found
