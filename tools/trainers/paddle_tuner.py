#!/usr/bin/env python3
"""How many candidates of PaddlePaddle's auto tuner cannot fit, by Trainwright's estimate.

Drives the real tuner (paddle.distributed.auto_tuner of paddlepaddle 3.3.1, grid search, nine
dimensions "auto") for Llama-2 7B at 4,096 tokens, with python/trainwright/paddle_memory.py in its
slot for a memory estimator. Run it with a Python that has paddlepaddle:

    TRAINWRIGHT=build/release/trainwright build/paddle/bin/python tools/trainers/paddle_tuner.py --gpus 8

One process per candidate, as the tuner does it: 8 GPUs take a minute, 64 about five. With --tuner FILE, which
`plan --export` has written, it tells what the tuner would try of that file's list, of the grid that its values span, and
of this grid with the memory estimator.
"""

import argparse
import json
import logging
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = ROOT / "python" / "trainwright" / "paddle_memory.py"
CAPACITIES_GB = (32, 40, 80)
REFUSED_MB = 10**9


def tuner_config(gpus, batch, most_gb):
    auto = ("dp_degree", "mp_degree", "pp_degree", "vpp_degree", "sharding_degree",
            "sharding_stage", "micro_batch_size", "use_recompute", "recompute_granularity")
    return {
        **{name: "auto" for name in auto},
        "num_gpus": gpus, "nodes": max(1, gpus // 8), "gpus_per_node": 8,
        "task_limit": 10**6, "search_algo": {"name": "grid"},
        "model_cfg": {"hidden_size": 4096, "num_layers": 32, "num_attention_heads": 32,
                      "vocab_size": 32000, "intermediate_size": 11008,
                      "max_sequence_length": 4096, "global_batch_size": batch},
        "metric_cfg": {"name": "ips", "OptimizationDirection": "Maximize"},
        **({"memory_estimation_tool": str(TOOL), "max_mem_usage": most_gb} if most_gb else {}),
    }


def survivors(config):
    from paddle.distributed.auto_tuner.tuner import AutoTuner
    tuner = AutoTuner(config)
    found = []
    while (candidate := tuner.search_once()) is not None:
        found.append(candidate)
    return found


def survivors_of(path, gpus, capacity):
    """What the tuner would try by a file of `plan --export`."""
    given = json.loads(path.read_text())
    around = {key: value for key, value in tuner_config(gpus, 0, None).items() if key in ("num_gpus", "nodes", "gpus_per_node")}
    listed = survivors({**given, **around})
    grid = {**given, **around, "search_algo": {"name": "grid"}, "task_limit": 10**6}
    spanned = survivors(dict(grid))
    fitting = survivors({**grid, "memory_estimation_tool": str(TOOL), "max_mem_usage": capacity})
    return {"listed": listed, "grid": len(spanned), "grid_that_fits": len(fitting)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--batch", type=int, default=0, help="sequences in a step; 8 per GPU")
    parser.add_argument("--capacity", type=int, default=0,
                        help="GB: let the tuner prune by this; 0 counts for 32, 40 and 80")
    parser.add_argument("--tuner", type=pathlib.Path, help="auto_tuner.json of `plan --export`")
    arguments = parser.parse_args()
    batch = arguments.batch or 8 * arguments.gpus
    logging.disable(logging.INFO)
    # The tuner runs "python"; let that be a plain one that starts fast.
    os.environ["PATH"] = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"

    if arguments.tuner:
        print(json.dumps(survivors_of(arguments.tuner, arguments.gpus, arguments.capacity)))
        return
    plain = survivors(tuner_config(arguments.gpus, batch, None))
    # With room for everything every survivor carries its estimate.
    most = arguments.capacity or REFUSED_MB
    estimated = survivors(tuner_config(arguments.gpus, batch, most))
    usage = [candidate["estimated_memory_usage"] for candidate in estimated]
    answer = {"gpus": arguments.gpus, "batch": batch, "survivors_without_estimate": len(plain),
              "survivors": len(estimated)}
    if not arguments.capacity:
        answer["refused_by_trainer"] = sum(mb >= REFUSED_MB for mb in usage)
        answer["cannot_fit"] = {f"{gb} GB": sum(gb * 1024 < mb < REFUSED_MB for mb in usage)
                                for gb in CAPACITIES_GB}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
