#!/usr/bin/env python3
"""`trainwright tune` on real processes with a hidden truth, and how far from the best it ends.

    tools/soak/tune_check.py build/release/trainwright [--seeds 10] [--first 1] [--most 6] [--bar 0.02]

Llama 3.1 8B on four ranks of the reference trainer (python/trainwright/engine/reference_trainer.py), whose
constants hang on the seed. The regret is that of the hidden constants, not of a second timing: the
true step of the layout that tune calls best, over the best true step of all its candidates that fit
and neither crash nor hang. Fails if one is above the bar, or takes more than the trials allowed.
"""
import argparse
import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile

TRAINER = pathlib.Path(__file__).resolve().parents[2] / "python/trainwright/engine/reference_trainer.py"
CAPACITY = 79.1  # GiB


def load_trainer():
    spec = importlib.util.spec_from_file_location("reference_trainer", TRAINER)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tuned(program, folder, seed, most):
    words = [program, "tune", "run", "llama-3.1-8b", "--on", "4xH100", "--batch", "32", "--seq", "2048", "--history",
             folder, "--trials", str(most), "--steps", "12", "--silence", "8", "--tokens", "1e13", "--step-pattern",
             "step time: ([0-9.]+) s", "--json", "--", sys.executable, str(TRAINER), "{layout}", "--seed", str(seed),
             "--steps", "{steps}", "--capacity", str(CAPACITY)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr + done.stdout
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--bar", type=float, default=0.02)
    parser.add_argument("--most", type=int, default=6, help="trials")
    arguments = parser.parse_args()
    trainer, reached = load_trainer(), 0
    for seed in range(arguments.first, arguments.first + arguments.seeds):
        constants = trainer.Constants(seed)
        with tempfile.TemporaryDirectory() as folder:
            answer = tuned(arguments.program, folder, seed, arguments.most)
        good = {one["layout"]: trainer.true_step(one["layout"], constants) for one in answer["candidates"]
                if trainer.true_bytes(one["layout"], constants) <= CAPACITY * trainer.GIB
                and not trainer.fate(one["layout"], constants)}
        best = min(good.values())
        regret = good[answer["best"]["layout"]] / best - 1
        first = next((good[one["layout"]] / best - 1 for one in answer["trials"] if one["end"] == "ok"), None)
        ends = [one["end"] for one in answer["trials"]]
        reached += regret <= arguments.bar and len(ends) <= arguments.most
        print(f"seed {seed}: {len(answer['candidates'])} layouts, {len(good)} of them sound; trials {', '.join(ends)}; first "
              f"{100 * first:.1f} %, in the end {100 * regret:.1f} % above the best; {answer['stopped']}", flush=True)
    print(f"{reached} of {arguments.seeds} seeds within {100 * arguments.bar:.0f} % in at most {arguments.most} trials")
    sys.exit(0 if reached == arguments.seeds else 1)


if __name__ == "__main__":
    main()
