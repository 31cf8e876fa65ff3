#!/usr/bin/env python3
"""Compares `trainwright schedule make auto` with CP-SAT on pipelines too large to be proven.

Prints our makespan, the best that CP-SAT found in its time, and the best lower bound of the two, so
that the last column says how far from optimal ours can be at most. The table is in docs/schedules.md.

    tools/soak/compare_with_cpsat.py build/release/trainwright [--seconds 20]
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "make"))

from make_schedule_oracle import smallest_cap, solve  # noqa: E402

# ranks, chunks, micro-batches, transfer, cap as a share of what 1F1B keeps (None: no cap)
SHAPES = [(4, 2, 8, 0, 0.5), (4, 2, 12, 1, 1.0), (6, 1, 12, 1, 1.0), (6, 2, 12, 1, 0.6),
          (8, 1, 16, 1, 1.0), (8, 1, 16, 1, None), (8, 2, 16, 1, 0.5), (8, 2, 16, 1, 1.0)]


def instance_of(shape, rng: random.Random) -> dict:
    """An uneven pipeline: every stage differs by up to a third from (10, 10, 10)."""
    ranks, chunks, microbatches, transfer, share = shape
    stages = [{"forward": rng.randint(8, 13), "input": rng.randint(8, 13),
               "weight": rng.randint(8, 13), "kept": 2, "released_by_input": 0}
              for _ in range(ranks * chunks)]
    instance = {"ranks": ranks, "chunks": chunks, "placement": "v" if chunks > 1 else "loop",
                "microbatches": microbatches, "transfer": transfer, "stages": stages, "cap": None}
    if share is not None:
        instance["cap"] = max(smallest_cap(instance), round(share * 2 * ranks * chunks))
    return instance


def ours(program: str, instance: dict) -> dict:
    """What our scheduler makes of the instance."""
    stages = instance["stages"]
    costs = {"F": [s["forward"] for s in stages], "I": [s["input"] for s in stages],
             "W": [s["weight"] for s in stages], "kept": [s["kept"] for s in stages],
             "comm": instance["transfer"]}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(costs, file)
        file.flush()
        command = [program, "schedule", "make", "auto", "--json", "--costs", file.name,
                   "--ranks", str(instance["ranks"]), "--chunks", str(instance["chunks"]),
                   "--microbatches", str(instance["microbatches"]),
                   "--placement", instance["placement"]]
        if instance["cap"] is not None:
            command += ["--memory-cap", f"{instance['cap']}B"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(done.stdout + done.stderr)
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("--seconds", type=float, default=20.0, help="CP-SAT's time per instance")
    options = parser.parse_args()
    rng = random.Random(7)
    print("| ranks | chunks | micro-batches | cap | ours | CP-SAT found | its bound | our bound | gap |")
    print("|---|---|---|---|---|---|---|---|---|")
    for shape in SHAPES:
        instance = instance_of(shape, rng)
        found = ours(options.program, instance)
        answer = solve(instance, seconds=options.seconds, workers=2)
        best, bound = answer if answer else ("nothing", 0)
        proven = max(bound, found["lower_bound"])
        print(f"| {shape[0]} | {shape[1]} | {shape[2]} | {instance['cap'] or 'none'} "
              f"| {found['makespan']:g} | {best} | {bound} | {found['lower_bound']:g} "
              f"| {100 * (found['makespan'] / proven - 1):.2f} % |", flush=True)


if __name__ == "__main__":
    main()
