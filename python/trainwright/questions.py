"""The questions: one function for each command, with its options in snake_case.

An option of a later version can be used at once: what a function does not know is passed on (`trainwright plan --help`). `None` and
`False` leave an option out.
"""
from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal, overload

from ._ask import Question, document_word, entries_word
from .answers import (Calibration, Cluster, Estimate, Explanation, Export, Listing, ModelShape, Plan, Reconciliation, Replay, Schedule,
                      Shown, ShownLayout, Tuning, Validation, answer_of, answered, estimated, replaced)
from .options import (Count, EstimateOptions, ExportOptions, LayoutLike, Listed, LogOptions, Model, On, OneLayout, Path, PlanOptions,
                      ReplayOptions, ScheduleOptions, ShowOptions, Target, TuneOptions)

if TYPE_CHECKING:
    from typing_extensions import Unpack


def plan(model: Model, *, on: On, batch: Count, seq: Count, **options: Unpack[PlanOptions]) -> Plan:
    """The fastest layouts of a training job that fit; `from_` is what is run today.

    >>> import trainwright
    >>> plan = trainwright.plan("llama-2-7b", on="8xH100", batch=64, seq=4096, fix={"pp": 1}, top=3)
    >>> len(plan.best), plan.search.proven
    (3, True)
    >>> plan.layout == plan.recommended.layout and plan.recommended in plan.best
    True
    >>> plan.recommended.layout.pp
    1
    >>> sorted(plan.rows()[0])[:4]
    ['capacity', 'cp', 'dp', 'driver']
    >>> plan.best == trainwright.plan("llama-2-7b", on="8xH100", batch="256k-tokens", seq="4k", fix={"pp": 1}, top=3).best
    True
    >>> better = trainwright.plan("llama-2-7b", on="8xH100", batch=64, seq=4096, from_={"tp": 8, "sp": True}, top=1)
    >>> [change.knob for change in better.today.changes[0]]
    ['tp', 'pp']
    """
    return answered(Plan, Question(("plan",), (document_word(model),), replaced(dict(on=on, batch=batch, seq=seq, **options))))


def estimate(model: Model | None = None, *, on: On | None = None, layout: LayoutLike | None = None,
             **options: Unpack[EstimateOptions]) -> Estimate:
    """Memory and step time of one layout, and whether it fits. `config` is a trainer's own file.

    >>> import trainwright
    >>> found = trainwright.estimate("llama-2-7b", on="8xH100", layout={"tp": 2, "sp": True, "gbs": 64, "seq": 4096})
    >>> found.verdict, str(found.layout)
    ('fits', 'tp=2,pp=1,dp=4,sp,mbs=1,gbs=64,seq=4096')
    >>> found.memory.fullest.bytes.weights
    6738681856
    >>> other = found.estimate(found.layout.replace(tp=3))
    >>> other.valid, other.violations[0].id
    (False, 'world-splits')
    """
    named = () if model is None else (document_word(model),)
    return estimated(Question(("estimate",), named, replaced(dict(on=on, layout=layout, **options))))


def explain(model: Model, *, on: On, layout: LayoutLike, against: LayoutLike | None = None, **options: Unpack[OneLayout]) -> Explanation:
    """What one change of a layout would do, or how two layouts compare.

    >>> import trainwright
    >>> found = trainwright.explain("llama-3.2-1b", on="8xH100", layout="dp=8,zero=1,gbs=64,seq=4096")
    >>> found.layout.valid, "mbs" in {one.knob for one in found.neighbours}
    (True, True)
    """
    return answered(Explanation, Question(("explain",), (document_word(model),), replaced(dict(
        on=on, layout=layout, against=against, **options))))


def export(layout: LayoutLike, *, model: Model, on: On, to: Target | None = None, **options: Unpack[ExportOptions]) -> Export:
    """A layout as the trainer's own settings and the files that start it.

    >>> import trainwright
    >>> found = trainwright.export("tp=2,gbs=64,seq=4096", model="llama-2-7b", on="8xH100", to="megatron-lm")
    >>> found.arguments[:2], found.config["--tensor-model-parallel-size"]
    (['--num-layers', '32'], 2)
    >>> [file.path for file in found.files]
    ['settings.sh', 'launch.sh', 'plan.json', 'README.md']
    """
    return answered(Export, Question(("export",), (entries_word(layout) or "",), replaced(dict(model=model, on=on, to=to, **options))))


def schedule(kind: Path = "auto", **options: Unpack[ScheduleOptions]) -> Schedule:
    """A pipeline schedule of a known kind, of a CSV file, or the best one under a memory cap.

    >>> import trainwright
    >>> found = trainwright.schedule("1f1b", ranks=4, microbatches=8)
    >>> found.makespan, found.peak_memory
    (33.0, (4, 3, 2, 1))
    >>> found.csv().splitlines()[3].split(",")[:4]
    ['3F0', '3B0', '3F1', '3B1']
    """
    # `draw` alone says when each action runs, `make auto` how far the best can be.
    command = "make" if kind == "auto" else "draw"
    return answered(Schedule, Question(("schedule", command), (os.fspath(kind),), replaced(dict(options))))


def replay(trace: Path, **options: Unpack[ReplayOptions]) -> Replay:
    """Op-by-op memory of a recorded program (`trainwright.record`).

    Here a program written by hand: a weight of 100 bytes and a batch of 60, of which an op makes 40 more.

    >>> import pathlib, tempfile, trainwright
    >>> trace = pathlib.Path(tempfile.mkdtemp()) / "trace.jsonl"
    >>> _ = trace.write_text('''{"trainwright_trace": 1, "program": "one product"}
    ... "weight"
    ... "batch"
    ... "mm"
    ... [4,0,100,0,0,-1]
    ... [4,1,60,6,1,-1]
    ... [0,2,0,-1,2,0,1,0,1,2,40,4]
    ... ''')
    >>> found = trainwright.replay(trace)
    >>> found.peak, found.peak_op.name
    (200, 'mm')
    >>> [(one["name"], one["kind"], one["bytes"]) for one in found.rows()]
    [('weight', 'parameter', 100), ('batch', 'input', 60), (None, 'activation', 40)]
    """
    return answered(Replay, Question(("replay",), (os.fspath(trace),), dict(options)))


def validate(what: Literal["memory", "time", "choice"] = "memory", *, measurements: Path, source: str | None = None,
             rows: bool = False) -> Validation:
    """How wrong predictions of "memory" or "time" are on measured runs; whether the "choice" is the fastest.

    >>> import pathlib, tempfile, trainwright
    >>> runs = pathlib.Path(tempfile.mkdtemp()) / "mine.csv"
    >>> _ = runs.write_text('model,on,trainer,layout,kind,measured\\n'
    ...                     'llama-2-7b,8xH100,megatron,"tp=2,mbs=1,gbs=64,seq=4096",driver,60 GiB\\n'
    ...                     'llama-2-7b,8xH100,megatron,"tp=4,mbs=1,gbs=64,seq=4096",driver,40 GiB\\n')
    >>> found = trainwright.validate("memory", measurements=runs, rows=True)
    >>> len(found.sources), len(found.rows())
    (1, 2)
    """
    if what not in ("memory", "time", "choice"):
        raise ValueError(f"{what!r}: what is validated is memory, time or choice")
    return answered(Validation, Question(("validate", what), (), dict(measurements=measurements, source=source, rows=rows)))


def calibrate(*runs: Path, model: Model | None = None, on: On | None = None, layout: LayoutLike | None = None,
              **options: Unpack[LogOptions]) -> Calibration:
    """Constants of step time from your own runs: tables (CSV), or logs of the run that the other arguments describe.

    >>> import pathlib, tempfile, trainwright
    >>> runs = pathlib.Path(tempfile.mkdtemp()) / "mine.csv"
    >>> _ = runs.write_text('model,on,trainer,layout,kind,measured\\n'
    ...                     'llama-2-7b,8xH100,megatron,"tp=2,gbs=64,seq=4096",step,4.0 s\\n')
    >>> mine = trainwright.calibrate(runs)
    >>> asked = dict(on="8xH100", layout="tp=2,gbs=64,seq=4096", trainer="megatron")
    >>> before = trainwright.estimate("llama-2-7b", **asked)
    >>> after = trainwright.estimate("llama-2-7b", **asked, calibration=mine)
    >>> abs(after.time.step - 4.0) < abs(before.time.step - 4.0)
    True
    """
    return answered(Calibration, Question(("calibrate",), tuple(os.fspath(one) for one in runs), replaced(dict(
        model=model, on=on, layout=layout, **options))))


def reconcile(log: Path | None = None, *, plan: Path | None = None, snapshot: Path | None = None, rank: int | None = None,
              model: Model | None = None, on: On | None = None, layout: LayoutLike | None = None,
              **options: Unpack[LogOptions]) -> Reconciliation:
    """A log of training beside its prediction, and what would explain the difference. What was run is said by the plan.json of an
    export or by the words of `estimate`; answers have the same as `plan.reconcile(log)`."""
    named = tuple(os.fspath(one) for one in (plan or log,) if one is not None)
    return answered(Reconciliation, Question(("reconcile",), named, replaced(dict(
        log=log if plan is not None else None, snapshot=snapshot, rank=rank, model=model, on=on, layout=layout, **options))))


def compare(log: Path, *, model: Model, on: On, layout: LayoutLike, **options: Unpack[LogOptions]) -> str:
    """A running job beside its prediction, from the log of Megatron-LM, torchtitan, DeepSpeed, nanotron or the Hugging Face
    Trainer: the step time, and the peak memory of all ranks that the log names.

    >>> import pathlib, tempfile, trainwright
    >>> log = pathlib.Path(tempfile.mkdtemp()) / "train.log"
    >>> _ = log.write_text("".join(f"[rank0]:[titan] 2025-06-16 22:3{i}:04,970 - root - INFO - step: {200 + 10 * i}  loss:  "
    ...                            "6.0388  memory: 49.66GiB(52.28%)  tps: 5,856  tflops: 339.82  mfu: 34.36%\\n"
    ...                            for i in range(6)))
    >>> trainwright.compare(log, model="llama-3.1-8b", on="8xH100-96GB", trainer=trainwright.Trainer("torchtitan", "0.2"),
    ...                     layout="fsdp,mbs=1,gbs=8,seq=8192,recompute=op-selective")  # doctest: +ELLIPSIS
    'predicted ... s, measured 1.4 s; memory 49.66 of ... GiB reserved'
    """
    found = calibrate(log, model=model, on=on, layout=layout, **options).logs[0]
    most = {name: max((one[name] for one in found["memory"] if name in one), default=None)
            for name in ("reserved", "allocated")}
    return estimate(model, on=on, layout=layout, **options).beside(found["step"], **most)


def tune(model: Model | None = None, *command: str, history: Path, on: On | None = None, batch: Count | None = None,
         seq: Count | None = None, resume: bool = False, **options: Unpack[TuneOptions]) -> Tuning:
    """The few real trials worth running, learned from. The command of a trial follows the model, a word each, with `{settings}` and
    `{steps}` for what changes. Without a model tells what a history has so far, or goes on with it (`resume`). Trials run under a
    program of their own: what it says passes through, Ctrl-C ends the trial, and the history survives a kill."""
    more = replaced(options)
    if model is None:
        words = ("tune", "resume") if resume else ("tune", "status")
        return answered(Tuning, Question(words, command, {"history": history, **more}))
    return answered(Tuning, Question(("tune", "run"), (document_word(model), *command), {
        "history": history, "on": on, "batch": batch, "seq": seq, **more}))


@overload
def show(what: Literal["model"], name: Model, **options: Unpack[ShowOptions]) -> ModelShape: ...
@overload
def show(what: Literal["cluster"], name: Path, **options: Unpack[ShowOptions]) -> Cluster: ...
@overload
def show(what: Literal["layout"], name: LayoutLike, **options: Unpack[ShowOptions]) -> ShownLayout: ...
@overload
def show(what: Literal["trainer", "work"], name: Any, **options: Unpack[ShowOptions]) -> Shown: ...


def show(what: str, name: Any, **options: Any) -> Shown:
    """A model, a cluster, a trainer, a layout or its work. The first two may be asked with: `plan(show("model", ...), ...)`.

    >>> import trainwright
    >>> model = trainwright.show("model", "llama-2-7b")
    >>> model.name, model.total, model.layers
    ('llama-2-7b', 6738415616, 32)
    >>> cluster = trainwright.show("cluster", "16xH100")
    >>> cluster.accelerators
    16
    >>> trainwright.estimate(model, on=cluster, layout="tp=2,gbs=64,seq=4096").verdict
    'fits'
    """
    kinds: dict[str, type[Shown]] = {"model": ModelShape, "cluster": Cluster, "layout": ShownLayout}
    word = entries_word(name) or "" if what == "layout" else document_word(name)
    return answered(kinds.get(what, Shown), Question(("show", what), (word,), replaced(options)))


def list(what: Listed) -> Listing:
    """Models, families, accelerators, clusters, trainers or schedules that are known.

    >>> import trainwright
    >>> trainwright.list("schedules")[0]["name"], "llama-2-7b" in trainwright.list("models").names()
    ('gpipe', True)
    """
    question = Question(("list", what))
    document = question.json()
    return answer_of(Listing, document, question, items=document[what])


def ask(*words: str, **options: Any) -> Any:
    """Any command, answered with its JSON.

    >>> import trainwright
    >>> trainwright.ask("show", "model", "llama-2-7b")["parameters"]["total"]
    6738415616
    """
    return Question(tuple(words), (), options).json()
