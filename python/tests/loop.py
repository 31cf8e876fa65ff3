"""The loop: stages recorded alone -> costs -> a schedule under a cap -> the same stages on the engine.

A small Llama is cut into four and into eight stages of unequal layers; everything goes through the
command lines that a user has (`record-stage`, `schedule make --memory-cap`, `schedule simulate`).
"""
import contextlib
import dataclasses
import io
import json
import pathlib
import statistics

import making
import timing

from trainwright.engine import EngineGroup, Job
from trainwright.engine.__main__ import main

RANKS, MICROBATCHES = 4, 8
# The same ten layers, by stage: one chunk per rank, and two.
LAYERS = {4: (2, 3, 3, 2), 8: (1, 1, 1, 2, 1, 2, 1, 1)}
SIZES = {"width": 64, "heads": 4, "vocabulary": 256, "sequence": 64}
OPTIMIZER = "adamw"
# Kinds with one and with two stages per rank.
KINDS = (("gpipe", 4), ("1f1b", 4), ("zb-h1", 4), ("zb-h2", 4), ("interleaved-1f1b", 8), ("zb-v", 8), ("v-half", 8), ("v-min", 8))


def model(stages: int, seconds: float) -> dict:
    """As in Job.model. `seconds`: F, I and W of a layer sleep that long each, the embedding a fifth and
    the head as long as a layer. A stage that sleeps for no time at all has the same tensors."""
    weights = [float(layers) for layers in LAYERS[stages]]
    weights[0] += 0.2
    weights[-1] += 1.0
    return {"kind": "llama", "layers": LAYERS[stages], **SIZES, "seconds": [(seconds * weight,) * 3 for weight in weights]}


def sleeps(stages: int, seconds: float) -> dict[str, list[float]]:
    """F, I, W and B by stage as `model` asks for them. The first stage has no gradient of an input to make: W
    does all of its backward."""
    by_stage = []
    for stage, (forward, by_input, by_weight) in enumerate(model(stages, seconds)["seconds"]):
        whole = by_input + by_weight
        by_stage.append((forward, by_input, by_weight, whole) if stage else (forward, 0.0, whole, whole))
    return {kind: list(column) for kind, column in zip("FIWB", zip(*by_stage))}


def record(folder: pathlib.Path, stages: int, seconds: float) -> dict:
    """The costs that `record-stage` writes; also in `folder`/costs-STAGES.json."""
    path = _costs_path(folder, stages)
    command = ["record-stage", "--stages", str(stages), "--model", "llama",
               "--layers", ",".join(map(str, LAYERS[stages])), "--optimizer", OPTIMIZER, "--output", str(path)]
    for name, value in SIZES.items():
        command += [f"--{name}", str(value)]
    for times in model(stages, seconds)["seconds"]:
        command += ["--seconds", ",".join(map(str, times))]
    with contextlib.redirect_stdout(io.StringIO()):
        if main(command) != 0:
            raise RuntimeError(" ".join(command))
    return json.loads(path.read_text())


def add_own_cost(folder: pathlib.Path, costs: dict[int, dict], engine: EngineGroup, seconds: float) -> float:
    """What the engine adds to every action beside the stages' own work, from schedules that are not among
    those compared; written into the costs. Seconds."""
    found = []
    for text in timing.calibration_schedules(RANKS, MICROBATCHES):
        stages = timing.stages_of(text)
        bare = making.simulated(text, costs[stages])["makespan"]
        slope = (making.simulated(text, costs[stages] | {"action": 1e-3})["makespan"] - bare) / 1e-3
        one = Candidate("calibration", text, stages, bare, [])
        measure_steps(engine, [one], seconds, 3)
        found.append((one.step - bare) / slope)
    own = max(0.0, statistics.mean(found))
    for stages in costs:
        costs[stages]["action"] = own
    write_costs(folder, costs)
    return own


def write_costs(folder: pathlib.Path, costs: dict[int, dict]) -> None:
    """Where `automatic` finds them."""
    for stages, one in costs.items():
        _costs_path(folder, stages).write_text(json.dumps(one))


def _costs_path(folder: pathlib.Path, stages: int) -> pathlib.Path:
    return folder / f"costs-{stages}.json"


@dataclasses.dataclass
class Candidate:
    """A schedule with what the program says of it and, once run, what the engine did."""
    title: str
    text: str
    stages: int
    predicted_step: float
    predicted_peaks: list[int]
    cap: int | None = None
    peaks: list[int] | None = None
    step: float | None = None

    def difference(self) -> float:
        """The largest, over ranks, of |measured - predicted| / predicted."""
        return max(abs(a - b) / b for a, b in zip(self.peaks, self.predicted_peaks))


def fixed(costs: dict[int, dict], kinds=KINDS) -> list[Candidate]:
    found = []
    for kind, stages in kinds:
        text = making.make(kind, RANKS, MICROBATCHES, "--chunks", str(stages // RANKS))
        found.append(_candidate(kind, text, stages, costs))
    return found


def _candidate(title: str, text: str, stages: int, costs: dict[int, dict], cap: int | None = None) -> Candidate:
    figures = making.simulated(text, costs[stages])
    return Candidate(title, text, stages, figures["makespan"], figures["peak_memory"], cap)


def automatic(folder: pathlib.Path, costs: dict[int, dict], cap: int, cuts=tuple(LAYERS)) -> Candidate | None:
    """`schedule make auto` under the cap with one and with two chunks; the shorter by prediction."""
    found = []
    for stages in cuts:
        text = making.make("auto", RANKS, MICROBATCHES, "--chunks", str(stages // RANKS), "--costs", str(_costs_path(folder, stages)),
                           "--engine", "pytorch", "--memory-cap", str(cap))
        if text is not None:
            found.append(_candidate(f"auto, {stages // RANKS} chunk{'s' if stages > RANKS else ''}", text, stages, costs, cap))
    return min(found, key=lambda one: one.predicted_step, default=None)


def measure_peaks(engine: EngineGroup, one: Candidate) -> None:
    answer = engine.run(Job(csv=one.text, microbatches=MICROBATCHES, model=model(one.stages, 0.0), memory=True, warmup=1, optimizer=OPTIMIZER))
    _must_be_right(one, answer)
    one.peaks = [rank["weights"] + rank["live_peak"] for rank in answer["ranks"]]


def measure_steps(engine: EngineGroup, candidates: list[Candidate], seconds: float, rounds: int) -> None:
    """The shortest of some steps, as whatever else runs on the host only adds; all schedules take turns,
    so that a busy time spares none."""
    steps: list[list[float]] = [[] for _ in candidates]
    for _ in range(rounds):
        for one, seen in zip(candidates, steps):
            answer = engine.run(Job(csv=one.text, microbatches=MICROBATCHES, model=model(one.stages, seconds), warmup=0 if seen else 1, steps=1))
            _must_be_right(one, answer)
            seen += answer["step_seconds"]
    for one, seen in zip(candidates, steps):
        one.step = min(seen)


def _must_be_right(one: Candidate, answer: dict) -> None:
    if answer["status"] != "ran" or answer["gradient_difference"] > answer["tolerance"]:
        raise RuntimeError(f"{one.title}: {answer.get('error', 'wrong gradients')}")


def fits(one: Candidate, cap: int) -> bool:
    """By measurement."""
    return max(one.peaks) <= cap
