"""The questions: one function for each command, with its options in snake_case.

What a function does not name is passed on as an option of the command (`trainwright plan --help`), so an
option of a later version can be used at once; `None` and `False` leave an option out.
"""
from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Union, runtime_checkable

from ._ask import Question, document_word, entries_word
from .answers import Calibration, Estimate, Export, Plan, Replay, Schedule, Validation, answered


@runtime_checkable
class Config(Protocol):
    """A `transformers` config, or what else can be written as its dict."""

    def to_dict(self) -> Mapping[str, Any]: ...


Path = Union[str, "os.PathLike[str]"]
Model = Union[Path, Mapping[str, Any], Config]  # a zoo name, a Hugging Face id, a path, config.json's content
Trainer = Union[Path, Mapping[str, Any]]
Entries = Union[str, Mapping[str, Any]]  # "tp=8,sp" or {"tp": 8, "sp": True}
Data = Union[Path, Mapping[str, Any]]  # a file or its content
Count = Union[int, str]  # 4096 or "4k"; a batch also in tokens, "4M-tokens"


def training(trainer: Trainer | None, job: Entries | None, more: Mapping[str, Any]) -> dict[str, Any]:
    return {"trainer": None if trainer is None else document_word(trainer), "job": entries_word(job), **more}


def constants_of(calibration: Data | Calibration | None) -> Data | None:
    return calibration.calibration if isinstance(calibration, Calibration) else calibration


def plan(model: Model, *, on: Data, batch: Count, seq: Count, trainer: Trainer | None = None, job: Entries | None = None,
         optimizer: str | None = None, precision: str | None = None, attention: str | None = None,
         risk: float | None = None, fix: Entries | Sequence[str] = (), no: str | Sequence[str] = (),
         only: str | None = None, why_not: Entries | None = None, from_: Entries | None = None, top: int | None = None,
         budget: int | None = None, time_limit: float | None = None, tokens: str | float | None = None,
         within: float | None = None, price: float | None = None, goodput: float | None = None, pareto: bool = False,
         constants: Data | None = None, calibration: Data | Calibration | None = None,
         measured: str | None = None, **options: Any) -> Plan:
    """The fastest layouts of a training job that fit; `from_` is what is run today.

    >>> import trainwright
    >>> plan = trainwright.plan("llama-2-7b", on="8xH100", batch=64, seq=4096, fix={"pp": 1}, top=3)
    >>> len(plan.best), plan.search.proven
    (3, True)
    >>> plan.layout == plan.best[plan.recommended].layout
    True
    >>> sorted(plan.rows()[0])[:4]
    ['capacity', 'driver', 'high', 'layout']
    >>> plan.best == trainwright.plan("llama-2-7b", on="8xH100", batch="256k-tokens", seq="4k", fix={"pp": 1}, top=3).best
    True
    >>> better = trainwright.plan("llama-2-7b", on="8xH100", batch=64, seq=4096, from_={"tp": 8, "sp": True}, top=1)
    >>> [change["knob"] for change in better.today["changes"][0]]
    ['tp', 'pp']
    """
    fixed = [f"{key}={value}" for key, value in fix.items()] if isinstance(fix, Mapping) else fix
    return answered(Plan, Question(("plan",), (document_word(model),), training(trainer, job, dict(
        on=on, batch=batch, seq=seq, optimizer=optimizer, precision=precision, attention=attention, risk=risk, fix=fixed,
        no=no, only=only, why_not=entries_word(why_not), top=top, budget=budget, time_limit=time_limit, tokens=tokens,
        within=within, price=price, goodput=goodput, pareto=pareto, **{"from": entries_word(from_)}, constants=constants,
        calibration=constants_of(calibration), measured=measured, **options))))


def estimate(model: Model | None = None, *, on: Data, layout: Entries | None = None, batch: Count | None = None,
             seq: Count | None = None, config: Path | None = None, trainer: Trainer | None = None, job: Entries | None = None,
             optimizer: str | None = None, precision: str | None = None, attention: str | None = None,
             schedule: Path | None = None, risk: float | None = None, constants: Data | None = None,
             calibration: Data | Calibration | None = None, measured: str | None = None, **options: Any) -> Estimate:
    """Memory and step time of one layout, and whether it fits. `config` is a trainer's own file.

    >>> import trainwright
    >>> found = trainwright.estimate("llama-2-7b", on="8xH100", layout={"tp": 2, "sp": True, "gbs": 64, "seq": 4096})
    >>> found.verdict, found.layout
    ('fits', 'tp=2,pp=1,dp=4,sp,mbs=1,gbs=64,seq=4096')
    >>> found.memory.fullest.bytes.weights
    6738681856
    """
    named = () if model is None else (document_word(model),)
    return answered(Estimate, Question(("estimate",), named, training(trainer, job, dict(
        on=on, layout=entries_word(layout), batch=batch, seq=seq, config=config, optimizer=optimizer, precision=precision,
        attention=attention, schedule=schedule, risk=risk, constants=constants, calibration=constants_of(calibration),
        measured=measured, **options))))


def export(layout: Entries, *, model: Model, on: Data, to: str | None = None, batch: Count | None = None,
           seq: Count | None = None, trainer: Trainer | None = None, job: Entries | None = None,
           optimizer: str | None = None, precision: str | None = None, attention: str | None = None,
           schedule: Path | None = None, **options: Any) -> Export:
    """A layout as the trainer's own settings and the files that start it.

    >>> import trainwright
    >>> found = trainwright.export("tp=2,gbs=64,seq=4096", model="llama-2-7b", on="8xH100", to="megatron-lm")
    >>> [one.values for one in found.settings if one.key == "--tensor-model-parallel-size"]
    [['2']]
    >>> [file.path for file in found.files]
    ['settings.sh', 'launch.sh', 'plan.json', 'README.md']
    """
    return answered(Export, Question(("export",), (entries_word(layout) or "",), training(trainer, job, dict(
        model=document_word(model), on=on, to=to, batch=batch, seq=seq, optimizer=optimizer, precision=precision,
        attention=attention, schedule=schedule, **options))))


def schedule(kind: Path = "auto", *, ranks: int | None = None, microbatches: int | None = None, chunks: int | None = None,
             costs: str | Data | None = None, memory_cap: int | str | None = None, **options: Any) -> Schedule:
    """A pipeline schedule of a known kind, of a CSV file, or the best one under a memory cap.

    >>> import trainwright
    >>> found = trainwright.schedule("1f1b", ranks=4, microbatches=8)
    >>> found.makespan, found.peak_memory
    (33.0, [4, 3, 2, 1])
    >>> found.csv().splitlines()[3].split(",")[:4]
    ['3F0', '3B0', '3F1', '3B1']
    """
    # `draw` alone says when each action runs, `make auto` how far the best can be.
    command = "make" if kind == "auto" else "draw"
    return answered(Schedule, Question(("schedule", command), (os.fspath(kind),), dict(
        ranks=ranks, microbatches=microbatches, chunks=chunks, costs=costs, memory_cap=memory_cap, **options)))


def replay(trace: Path, *, allocator: str | None = None, capacity: str | None = None, top: int | None = None,
           **options: Any) -> Replay:
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
    >>> found.peak, found.peak_op["name"]
    (200, 'mm')
    >>> [(one["name"], one["kind"], one["bytes"]) for one in found.rows()]
    [('weight', 'parameter', 100), ('batch', 'input', 60), (None, 'activation', 40)]
    """
    return answered(Replay, Question(("replay",), (os.fspath(trace),), dict(
        allocator=allocator, capacity=capacity, top=top, **options)))


def validate(what: str = "memory", *, measurements: Path, source: str | None = None, rows: bool = False,
             **options: Any) -> Validation:
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
    return answered(Validation, Question(("validate", what), (), dict(
        measurements=measurements, source=source, rows=rows, **options)))


def calibrate(*runs: Path, model: Model | None = None, on: Data | None = None, layout: Entries | None = None,
              config: Path | None = None, trainer: Trainer | None = None, job: Entries | None = None,
              calibration: Data | Calibration | None = None, **options: Any) -> Calibration:
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
    return answered(Calibration, Question(("calibrate",), tuple(os.fspath(one) for one in runs), training(trainer, job, dict(
        model=None if model is None else document_word(model), on=on, layout=entries_word(layout), config=config,
        calibration=constants_of(calibration), **options))))


def compare(log: Path, *, model: Model, on: Data, layout: Entries, **options: Any) -> str:
    """A running job beside its prediction, from the log of Megatron-LM, torchtitan, DeepSpeed, nanotron or the Hugging
    Face Trainer: the step time, and the peak memory of all ranks that the log names.

    >>> import pathlib, tempfile, trainwright
    >>> log = pathlib.Path(tempfile.mkdtemp()) / "train.log"
    >>> _ = log.write_text("".join(f"[rank0]:[titan] 2025-06-16 22:3{i}:04,970 - root - INFO - step: {200 + 10 * i}  loss:  "
    ...                            "6.0388  memory: 49.66GiB(52.28%)  tps: 5,856  tflops: 339.82  mfu: 34.36%\\n"
    ...                            for i in range(6)))
    >>> trainwright.compare(log, model="llama-3.1-8b", on="8xH100-96GB", trainer="torchtitan@0.2",
    ...                     layout="fsdp,mbs=1,gbs=8,seq=8192,recompute=op-selective")  # doctest: +ELLIPSIS
    'predicted ... s, measured 1.4 s; memory 49.66 of ... GiB reserved'
    """
    found = calibrate(log, model=model, on=on, layout=layout, **options).logs[0]
    most = {name: max((one[name] for one in found["memory"] if name in one), default=None)
            for name in ("reserved", "allocated")}
    return estimate(model, on=on, layout=layout, **options).beside(found["step"], **most)


def ask(*words: str, **options: Any) -> Any:
    """Any command, answered with its JSON.

    >>> import trainwright
    >>> trainwright.ask("show", "model", "llama-2-7b")["parameters"]["total"]
    6738415616
    """
    return Question(tuple(words), (), options).json()
