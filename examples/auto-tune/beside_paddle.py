#!/usr/bin/env python3
"""Paddle's own auto tuner and `plan` on the same question, Llama 2 on 8 V100 of 32 GB, trial by trial.

    build/paddle/bin/python examples/auto-tune/paddle.py build/release/trainwright [--model llama-2-7b]

Drives the real tuner (paddle.distributed.auto_tuner, grid search, nine dimensions "auto", pruning by its history) and tells it
of each trial what `estimate` says: out of memory, refused, or so many seconds. The batch of 16 sequences on 8 V100 is that of
its developers' report (PaddlePaddle/Paddle pull request 60954), the length of 4,096 and two minutes a trial are PaddleNLP's.
"""
import argparse
import concurrent.futures
import logging
import os
import pathlib
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tools/trainers"))
from paddle_compare import TASK_SECONDS, Referee, knobs  # noqa: E402
from paddle_tuner import tuner_config  # noqa: E402

GPUS, BATCH, SEQ = 8, 16, 4096
MODELS = {"llama-2-7b": {}, "llama-2-13b": {"hidden_size": 5120, "num_layers": 40, "num_attention_heads": 40, "intermediate_size": 13824}}
HEAD = ["", "trials", "OOM", "refused", "at 2 min each", "within 2 % after", "best step"]


class Llama(Referee):
    def __init__(self, program, model):
        self.program, self.batch, self.known = program, BATCH, {}
        self.around = [model, "--on", f"{GPUS}xV100-32GB", "--trainer", "paddlenlp", "--json"]

    def judged(self, candidate):
        words = tuple(sorted(knobs(candidate).items()))
        if words not in self.known:
            self.known[words] = self.judge(candidate)
        return self.known[words]

    def judge(self, candidate):
        words = knobs(candidate)
        layout = ",".join(f"{key}={value}" for key, value in words.items()) + (",sp" if words["tp"] > 1 else "")
        answer = self.ask("estimate", *self.around, "--layout", f"{layout},gbs={BATCH},seq={SEQ},precision=fp16")
        if not answer["legal"]:
            return "refused"
        return answer["time"]["step"] if answer["verdict"] == "fits" else None


def tuned(referee, model_cfg, seconds):
    """(the tuner, its trials as (candidate, outcome), whether it ended) until the tuner has no more, or the time is over."""
    from paddle.distributed.auto_tuner.tuner import AutoTuner
    config = tuner_config(GPUS, BATCH, None)
    config["model_cfg"] |= model_cfg
    tuner, trials, began = AutoTuner(config), [], time.monotonic()
    while (candidate := tuner.search_once()) is not None and time.monotonic() - began < seconds:
        tuner.add_cfg(candidate)
        outcome = referee.judged(candidate)
        fits = isinstance(outcome, float)
        candidate |= {"time": BATCH / outcome if fits else -1, "ips": BATCH / outcome if fits else None,
                      "max_mem_usage": "OOM" if outcome is None else 0}
        trials.append((candidate, outcome))
    return tuner, trials, candidate is None


def row(name, trials, ended):
    fitting = [outcome for _, outcome in trials if isinstance(outcome, float)]
    best = min(fitting, default=None)
    until = next((number for number, (_, outcome) in enumerate(trials, 1) if isinstance(outcome, float) and outcome <= 1.02 * best), None)
    return [name, f"{len(trials)}{'' if ended else ' (stopped)'}", f"{sum(outcome is None for _, outcome in trials)}",
            f"{sum(outcome == 'refused' for _, outcome in trials)}", f"{len(trials) * TASK_SECONDS / 3600:.1f} h", f"{until}", f"{best:.2f} s" if best else "-"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=lambda path: str(pathlib.Path(path).resolve()))
    parser.add_argument("--model", nargs="*", choices=MODELS, default=list(MODELS))
    parser.add_argument("--seconds", type=float, default=600, help="at most, for each tuning")
    options = parser.parse_args()
    logging.disable(logging.INFO)
    for model in options.model:
        referee = Llama(options.program, model)
        tuner, trials, ended = tuned(referee, MODELS[model], options.seconds)
        tasks = tuner.algo.all_tasks
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            outcomes = list(pool.map(referee.judged, tasks))
        answer = referee.ask("plan", *referee.around, "--batch", str(BATCH), "--seq", str(SEQ), "--precision", "fp16", "--no", "cp")
        best = answer["best"][0]
        ours = [f"plan of {answer['search']['space']:,}", "1", "0", "0", f"{TASK_SECONDS / 3600:.1f} h", "1", f"{best['time']['step']:.2f} s"]
        print(f"{model} on {GPUS} V100-32GB, {BATCH} sequences of {SEQ:,} tokens: the tuner's grid has {len(tasks)} tasks, of which "
              f"{outcomes.count(None)} do not fit by the memory model ({100 * outcomes.count(None) / len(tasks):.0f} %)")
        rows = [HEAD, row(f"Paddle's tuner of {len(tasks)}", trials, ended), ours]
        widths = [max(map(len, column)) for column in zip(*rows)]
        for cells in rows:
            print("  " + "  ".join(cell.ljust(width) if i == 0 else cell.rjust(width) for i, (cell, width) in enumerate(zip(cells, widths))))
        print(f"  {best['layout']}")


if __name__ == "__main__":
    main()
