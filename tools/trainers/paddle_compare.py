#!/usr/bin/env python3
"""PaddlePaddle's auto tuner and `plan` on the same question, Llama-2 7B at 4,096 tokens, by the same referee.

    build/paddle/bin/python tools/trainers/paddle_compare.py --program build/release/trainwright --record

The tuner (3.3.1, grid search, nine dimensions "auto") lists what its own rules leave. `estimate` says of each
candidate whether the trainer takes it, whether it fits, and how long its step is (sequence parallelism wherever there
is tensor parallelism, as the tuner sets it); `plan`, told to keep all of a candidate's knobs, whether it has it too.
Recompute of `full_attn` is not in the space of `plan`; its step is taken as that of `core_attn`'s, which it is longer than.
Needs a Python with paddlepaddle; takes about ten minutes on two cores.
"""
import argparse
import concurrent.futures
import json
import logging
import os
import pathlib
import random
import subprocess
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "soak"))

from paddle_tuner import survivors, tuner_config  # noqa: E402
from recorded import Output  # noqa: E402

SEQ, ACCELERATORS, MOST_ASKED = 4096, ("A100-40GB", "A100-80GB"), 100
TASK_SECONDS = 120  # max_time_per_task of PaddleNLP's own tuner configuration for Llama-2 7B
RECOMPUTE = {"core_attn": "selective", "full_attn": "selective", "full": "full"}


def knobs(candidate):
    """As our keys, but for what they say by default."""
    shards = candidate["sharding_degree"]
    found = {"tp": candidate["mp_degree"], "pp": candidate["pp_degree"], "dp": shards * candidate["dp_degree"],
             "vpp": candidate["vpp_degree"], "mbs": candidate["micro_batch_size"],
             "zero": candidate["sharding_stage"] if shards > 1 else 0,
             "recompute": RECOMPUTE[candidate["recompute_granularity"]] if candidate["use_recompute"] else "none"}
    if shards > 1 and candidate["dp_degree"] > 1:
        found["dp_replicate"] = candidate["dp_degree"]
    return found


class Referee:
    def __init__(self, program, gpus, accelerator):
        self.program, self.batch = program, 8 * gpus
        self.around = ["llama-2-7b", "--on", f"{gpus}x{accelerator}", "--trainer", "paddlenlp", "--attention", "flash",
                       "--json"]

    def ask(self, *words):
        done = subprocess.run([self.program, *words], capture_output=True, text=True)
        assert done.returncode in (0, 1), done.stderr
        return json.loads(done.stdout)

    def plan(self, *words):
        return self.ask("plan", *self.around, "--batch", str(self.batch), "--seq", str(SEQ), *words)

    def judge(self, candidate):
        """Seconds of a step; None: it does not fit; "refused" by the trainer."""
        words = knobs(candidate)
        layout = ",".join(f"{key}={value}" for key, value in words.items()) + (",sp" if words["tp"] > 1 else "")
        answer = self.ask("estimate", *self.around, "--layout", f"{layout},gbs={self.batch},seq={SEQ}")
        if not answer["legal"]:
            return "refused"
        return answer["time"]["step"] if answer["verdict"] == "fits" else None

    def has(self, candidate):
        """Whether `plan` has a layout with all of its knobs."""
        fixed = [word for key, value in (knobs(candidate) | {"cp": 1}).items() if key != "dp_replicate"
                 for word in ("--fix", f"{key}={value}")]
        return bool(self.plan(*fixed, "--risk", "0.99")["best"])


def compare(program, gpus, accelerator, say):
    referee = Referee(program, gpus, accelerator)
    start = time.monotonic()
    listed = survivors(tuner_config(gpus, referee.batch, None))
    tuner_seconds = time.monotonic() - start
    start = time.monotonic()
    best = referee.plan()["best"][0]
    plan_seconds = time.monotonic() - start
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        judged = list(pool.map(referee.judge, listed))
        fitting = [(step, candidate) for step, candidate in zip(judged, listed) if isinstance(step, float)]
        known = [one for one in fitting if not one[1]["use_recompute"] or one[1]["recompute_granularity"] != "full_attn"]
        asked = random.Random(1).sample(known, min(len(known), MOST_ASKED))
        had = list(pool.map(lambda one: referee.has(one[1]), asked))
    step, candidate = min(fitting, key=lambda one: one[0])
    ours = best["time"]["step"]
    say(f"{gpus} x {accelerator}, batch {referee.batch}")
    say(f"  the tuner lists {len(listed):,} in {tuner_seconds:.1f} s; at {TASK_SECONDS} s each {len(listed) * TASK_SECONDS / 3600:.0f} h")
    say(f"  refused by the trainer: {judged.count('refused'):,}; does not fit: {judged.count(None):,}; fits: {len(fitting):,}")
    say(f"  of these with full_attn: {len(fitting) - len(known)}; of the others plan has {sum(had)} of {len(asked)} drawn at random")
    say(f"  plan answers in {plan_seconds:.1f} s")
    say(f"  the tuner's fastest that fits: {step:.2f} s a step")
    say("    " + ",".join(f"{key}={value}" for key, value in knobs(candidate).items()))
    say(f"  plan's: {ours:.2f} s, {100 * (1 - ours / step):.1f} % less")
    say(f"    {best['layout']}")
    return had, ours <= step * (1 + 1e-9)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, default="build/release/trainwright")
    parser.add_argument("--gpus", type=int, nargs="*", default=[8, 64])
    parser.add_argument("--record", action="store_true")
    arguments = parser.parse_args()
    logging.disable(logging.INFO)
    say = Output()
    sound = True
    for gpus in arguments.gpus:
        for accelerator in ACCELERATORS:
            had, faster = compare(arguments.program, gpus, accelerator, say)
            sound = sound and all(had) and faster
    if arguments.record:
        say.record("dev/plan.md", "paddle tuner")
    sys.exit(not sound)


if __name__ == "__main__":
    main()
