#!/usr/bin/env python3
"""Makes tests/oracle/schedule_optima.json: small pipelines and their shortest makespan under a
memory cap, proven by OR-Tools CP-SAT (PyPI `ortools`).

Every instance is a pipeline of F, I and W per stage and micro-batch. A rank runs one action at a
time; an edge that crosses ranks takes `transfer` longer; `kept` units of memory are held from the
start of F, `released_by_input` of them until the end of I, the rest until the end of W. Micro-batches
are identical, so running each kind in micro-batch order loses nothing and makes the proof short.

    tools/make/make_schedule_oracle.py [--count 240] [--effort 2] [--output FILE]
"""

import argparse
import json
import pathlib
import random

OUTPUT = pathlib.Path(__file__).resolve().parents[2] / "tests/oracle/schedule_optima.json"


def rank_of(instance: dict, stage: int) -> int:
    """Stages run through the ranks in turn; in a V every second pass runs back."""
    lap, place = divmod(stage, instance["ranks"])
    turned = instance["placement"] == "v" and lap % 2 == 1
    return instance["ranks"] - 1 - place if turned else place


def solve(instance: dict, effort: float = 2.0, workers: int = 1, seconds: float | None = None):
    """(makespan, bound) of the best schedule; equal when proven, None when nothing was found. `effort` is
    counted by the solver in its deterministic time, so that a busy host proves as much as an idle one;
    `seconds` limits the time instead."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    stages, batches = instance["stages"], range(instance["microbatches"])
    count = len(stages)
    work = [0] * instance["ranks"]
    for s, stage in enumerate(stages):
        work[rank_of(instance, s)] += sum(stage[x] for x in ("forward", "input", "weight"))
    horizon = len(batches) * sum(
        stage["forward"] + stage["input"] + stage["weight"] + 2 * instance["transfer"]
        for stage in stages)
    makespan = model.new_int_var(len(batches) * max(work), horizon, "makespan")
    start, end, by_rank = {}, {}, [[] for _ in work]
    for s, stage in enumerate(stages):
        for b in batches:
            for kind in ("forward", "input", "weight"):
                key = (kind, s, b)
                start[key] = model.new_int_var(0, horizon, f"{key}")
                end[key] = start[key] + stage[kind]
                by_rank[rank_of(instance, s)].append(
                    model.new_fixed_size_interval_var(start[key], stage[kind], f"i{key}"))
                if b > 0:
                    model.add(start[key] >= end[kind, s, b - 1])
    for intervals in by_rank:
        model.add_no_overlap(intervals)
    for s in range(count):
        crossing = s + 1 < count and rank_of(instance, s) != rank_of(instance, s + 1)
        delay = instance["transfer"] if crossing else 0
        for b in batches:
            if s + 1 < count:
                model.add(start["forward", s + 1, b] >= end["forward", s, b] + delay)
                model.add(start["input", s, b] >= end["input", s + 1, b] + delay)
            model.add(start["input", s, b] >= end["forward", s, b])
            model.add(start["weight", s, b] >= end["input", s, b])
            model.add(makespan >= end["weight", s, b])
    add_memory(model, instance, start, end, horizon)
    model.minimize(makespan)
    solver = cp_model.CpSolver()
    if seconds is None:
        solver.parameters.max_deterministic_time = effort
    else:
        solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = workers
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    return round(solver.objective_value), round(solver.best_objective_bound)


def add_memory(model, instance: dict, start: dict, end: dict, horizon: int) -> None:
    """One optional limit per rank on what F holds until I, and until W."""
    if instance["cap"] is None:
        return
    for rank in range(instance["ranks"]):
        lives, sizes = [], []
        for s, stage in enumerate(instance["stages"]):
            if rank_of(instance, s) != rank:
                continue
            parts = (("input", stage["released_by_input"]),
                     ("weight", stage["kept"] - stage["released_by_input"]))
            for b in range(instance["microbatches"]):
                for kind, size in parts:
                    if size == 0:
                        continue
                    length = model.new_int_var(0, horizon, "")
                    lives.append(model.new_interval_var(
                        start["forward", s, b], length, end[kind, s, b], ""))
                    sizes.append(size)
        model.add_cumulative(lives, sizes, instance["cap"])


def smallest_cap(instance: dict) -> int:
    """What one micro-batch alone keeps on the fullest rank."""
    kept = [0] * instance["ranks"]
    for s, stage in enumerate(instance["stages"]):
        kept[rank_of(instance, s)] += stage["kept"]
    return max(kept)


def draw(rng: random.Random) -> dict:
    """One random instance of a size that is proven within seconds."""
    chunks = rng.choice([1, 2])
    ranks = rng.choice([2, 3, 4])
    instance = {
        "ranks": ranks, "chunks": chunks,
        "placement": rng.choice(["v", "v", "loop"]) if chunks == 2 else "loop",
        "microbatches": rng.randint(2, 6 if chunks == 1 else 4),
        "transfer": rng.choice([0, 0, 1, 3]),
    }
    even = rng.random() < 0.4
    base = [rng.randint(4, 12) for _ in range(3)] if rng.random() < 0.6 else [10, 10, 10]
    stages = []
    for _ in range(ranks * chunks):
        cost = base if even else [max(1, x + rng.randint(-3, 4)) for x in base]
        kept = 2 if even else rng.choice([2, 2, 2, 3])
        stages.append({"forward": cost[0], "input": cost[1], "weight": cost[2], "kept": kept,
                       "released_by_input": rng.choice([0, 0, 1]) if not even else 0})
    instance["stages"] = stages
    low = smallest_cap(instance)
    high = 2 * max(ranks, 2) * chunks + 2
    instance["cap"] = None if rng.random() < 0.25 else rng.randint(low, max(low + 1, high))
    return instance


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=240)
    parser.add_argument("--effort", type=float, default=2.0, help="CP-SAT's deterministic time per instance; 2 is about 20 s")
    parser.add_argument("--output", type=pathlib.Path, default=OUTPUT)
    arguments = parser.parse_args()
    rng = random.Random(20261115)
    proven = []
    while len(proven) < arguments.count:
        instance = draw(rng)
        answer = solve(instance, arguments.effort)
        if answer is None or answer[0] != answer[1]:
            continue
        found = instance | {"makespan": answer[0]}
        if found not in proven:
            proven.append(found)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join("  " + json.dumps(x, separators=(",", ":")) for x in proven)
    arguments.output.write_text(f'{{"instances": [\n{lines}\n]}}\n')
    print(f"{len(proven)} instances proven -> {arguments.output}")


if __name__ == "__main__":
    main()
