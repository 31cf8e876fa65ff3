"""Bytes alive on the running engine, action by action, against a replay of the engine's rules.

What a stage keeps is measured in runs of its own with a single micro-batch; from there on every
number of every schedule must come out exactly. Gradients of weights are taken off: they appear with
a stage's first weight gradient and stay. The program's clock is held to the same peaks.
"""
import re

import making
import pytest
import replay

from trainwright.engine import Job, read_schedule
from trainwright.engine.stages import ModelSpec, build_stage

MODEL = {"width": 16, "sequence": 8, "layers": (1, 2, 1, 3)}
BOUNDARY = 8 * 2 * MODEL["sequence"] * MODEL["width"]  # float64, two samples
LOSS = 8  # one float64 per micro-batch, which the engine keeps until the next step


def weight_bytes(stage: int) -> int:
    module = build_stage(ModelSpec(**MODEL), stage)
    return sum(8 * parameter.numel() for parameter in module.parameters())


def measured_curves(engine, text: str, microbatches: int) -> list[list[tuple[str, int]]]:
    """(action, live bytes without weights' gradients) of every compute action of every rank."""
    answer = engine.run(Job(csv=text, microbatches=microbatches, memory=True, model=MODEL))
    assert answer["status"] == "ran" and answer["gradient_difference"] <= 1e-12, answer.get("error")
    curves = []
    for rank in answer["ranks"]:
        curve, gradients, seen = [], 0, set()
        for name, _, _, live in rank["actions"]:
            for stage, kind in re.findall(r"(\d+)([FIWB])\d", name):
                if kind in "WB" and stage not in seen:
                    seen.add(stage)
                    gradients += weight_bytes(int(stage))
            if re.search(r"\d[FIWB]\d", name):
                curve.append((name, live - gradients))
        curves.append(curve)
    return curves


def stage_bytes(engine, placement: tuple[int, ...]) -> list[replay.StageBytes]:
    """Measured with one micro-batch that goes down and up the stages, backward split."""
    stages, ranks = len(placement), 1 + max(placement)
    rows = [[f"{s}F0" for s in range(stages) if placement[s] == r]
            + [f"{s}{kind}0" for s in reversed(range(stages)) if placement[s] == r for kind in "IW"] for r in range(ranks)]
    found: dict[str, int] = {}
    for curve, row in zip(measured_curves(engine, making.schedule_text(rows), 1), rows):
        mine = [s for s in range(stages) if f"{s}F0" in row]
        before = BOUNDARY * sum((s > 0) + (s < stages - 1) for s in mine)
        for name, live in curve:
            found[name], before = live - before, live
    return [_one_stage(found, stage, placement) for stage in range(stages)]


def _one_stage(found: dict[str, int], stage: int, placement: tuple[int, ...]) -> replay.StageBytes:
    last = len(placement) - 1
    local_next = stage < last and placement[stage + 1] == placement[stage]
    gradient_sent = stage > 0 and placement[stage - 1] != placement[stage]
    kept = found[f"{stage}F0"] + (BOUNDARY if local_next else 0)
    by_input = (BOUNDARY if gradient_sent else 0) - found[f"{stage}I0"]
    return replay.StageBytes(kept, by_input, LOSS if stage == last else 0)


@pytest.mark.parametrize("name,chunks,placement", making.TORCH_KINDS)
def test_pytorchs_own_schedules_keep_what_the_rules_say(engine, name, chunks, placement):
    owners = (making.wave_placement if placement == "v" else making.loop_placement)(2, chunks)
    text = making.torch_schedule(name, 2, 6, chunks)
    sizes = stage_bytes(engine, owners)
    for measured, expected in zip(measured_curves(engine, text, 6), replay.live_bytes(text, sizes, BOUNDARY, 6)):
        if name == "DualPipeV":  # Measured at the end of a pair only.
            ends = {action: live for action, live in expected}
            expected = [(cell, ends[re.findall(r"\d+[FIWB]\d+", cell)[-1]]) for cell, _ in measured]
        assert measured == expected


def test_random_schedules_of_any_placement_keep_what_the_rules_say(engine):
    for seed in range(10):
        text, microbatches = making.random_schedule(seed, 3)
        sizes = stage_bytes(engine, read_schedule(text).rank_of_stage)
        assert measured_curves(engine, text, microbatches) == replay.live_bytes(text, sizes, BOUNDARY, microbatches)


def clock_peaks(text: str, sizes: list[replay.StageBytes]) -> list[int]:
    costs = {"F": 1, "I": 1, "W": 1, "kept": [one.kept for one in sizes], "input": [one.by_input for one in sizes], "size": BOUNDARY}
    return making.simulated(text, costs)["peak_memory"]


@pytest.mark.skipif(not making.program(), reason="no built program in TRAINWRIGHT_BINARY")
def test_the_programs_clock_has_the_same_peaks(engine):
    """Except for the loss values, which it does not know: 8 bytes per micro-batch."""
    texts = [(making.torch_schedule(name, 2, 6, chunks), 6) for name, chunks, _ in making.TORCH_KINDS]
    texts += [making.random_schedule(seed, 3) for seed in range(100, 110)]
    for text, microbatches in texts:
        sizes = stage_bytes(engine, read_schedule(text).rank_of_stage)
        without_loss = [replay.StageBytes(one.kept, one.by_input) for one in sizes]
        curves = replay.live_bytes(text, without_loss, BOUNDARY, microbatches)
        assert clock_peaks(text, sizes) == [max(live for _, live in curve) for curve in curves], text
        if "OVERLAP" in text:
            continue  # Within a pair nothing is measured.
        measured = [max(live for _, live in curve) for curve in measured_curves(engine, text, microbatches)]
        assert all(0 <= a - b <= LOSS * microbatches for a, b in zip(measured, clock_peaks(text, sizes)))
