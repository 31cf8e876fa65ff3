"""The memory estimator in the slot of PaddlePaddle's auto tuner."""

import csv
import json
import os
import pathlib
import resource
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = ROOT / "python" / "trainwright" / "paddle_memory.py"
ENVIRONMENT = {**os.environ, "TRAINWRIGHT": os.environ["TRAINWRIGHT_BINARY"]}
PADDLE = pathlib.Path(os.environ.get("TRAINWRIGHT_PADDLE_PYTHON", ROOT / "build/paddle/bin/python"))


def run(*words):
    return subprocess.run([sys.executable, "-S", str(TOOL), *words], capture_output=True, text=True,
                          env=ENVIRONMENT, check=False)


def megabytes(*words):
    answer = run(*words)
    assert answer.returncode == 0, answer.stderr
    return float(answer.stdout)


SIZES = ("--hidden_size", "4096", "--num_attention_heads", "32", "--num_layers", "32",
         "--max_sequence_length", "4096", "--vocab_size", "32000", "--intermediate_size", "11008")


def test_sharding_over_eight_saves_what_the_states_of_the_other_seven_weigh():
    alone = megabytes("--dp_degree", "8", *SIZES)
    shared = megabytes("--sharding_degree", "8", *SIZES)
    # Llama-2 7B has 6,738,415,616 parameters (every weight once); master and two states of 4 bytes.
    states = 12 * 6738415616 / 2**20
    assert alone - shared == pytest.approx(states * 7 / 8, rel=0.02)


def test_recompute_needs_less_and_a_larger_micro_batch_more():
    plain = megabytes("--mp_degree", "8", *SIZES)
    assert megabytes("--mp_degree", "8", "--use_recompute", "True", "--recompute_granularity",
                     "full", *SIZES) < plain
    assert megabytes("--mp_degree", "8", "--micro_batch_size", "2", *SIZES) > plain


def test_a_candidate_that_the_trainer_refuses_is_dropped_with_the_reason():
    answer = run("--pp_degree", "4", "--sharding_degree", "2", "--sharding_stage", "3", *SIZES)
    assert answer.returncode == 0
    assert float(answer.stdout) == 10**9
    assert "pipeline" in answer.stderr


def test_every_fault_of_the_arguments_is_named():
    answer = run("--mp_degree", "two", "--colour", "red", "--recompute_granularity", "some")
    assert answer.returncode == 2
    for place in ("--mp_degree", "--colour", "--recompute_granularity"):
        assert place in answer.stderr


def cpu_seconds(*words):
    """Of one answer, the program included: the least of ten, since other work on the machine costs caches."""
    taken = []
    for _ in range(10):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert run(*words).returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(taken)


def test_it_starts_in_under_50_ms_and_answers_in_under_100_without_torch_or_paddle():
    assert cpu_seconds("--help") < 0.05
    assert cpu_seconds("--mp_degree", "8", *SIZES) < 0.1
    imports = subprocess.run([sys.executable, "-S", "-X", "importtime", str(TOOL), "--help"],
                             capture_output=True, text=True, env=ENVIRONMENT, check=True).stderr
    assert "torch" not in imports and "paddle" not in imports.replace("paddle_memory", "")


@pytest.mark.skipif(not PADDLE.exists(), reason=f"no paddlepaddle at {PADDLE}")
def test_the_tuner_prunes_its_grid_for_llama_2_7b_on_eight_gpus():
    started = time.monotonic()
    answer = json.loads(subprocess.run(
        [str(PADDLE), str(ROOT / "tools" / "trainers" / "paddle_tuner.py"), "--gpus", "8"], env=ENVIRONMENT,
        capture_output=True, text=True, check=True).stdout.splitlines()[-1])
    print(answer, f"{time.monotonic() - started:.0f} s")
    # The tuner's own rules leave 792 of its grid, none of them checked for memory.
    assert answer["survivors_without_estimate"] == answer["survivors"] == 792
    over = answer["cannot_fit"]
    assert 0 < over["80 GB"] < over["40 GB"] < over["32 GB"] < 792


@pytest.mark.skipif(not PADDLE.exists(), reason=f"no paddlepaddle at {PADDLE}")
def test_the_tuner_tries_the_layouts_of_a_plan_and_no_others(tmp_path):
    words = "plan llama-2-7b --on 8xA100-40GB --batch 64 --seq 4096 --trainer paddlenlp --attention flash --no cp --top 6"
    subprocess.run([ENVIRONMENT["TRAINWRIGHT"], *words.split(), "--export", str(tmp_path)], check=True, capture_output=True)
    with (tmp_path / "auto_tuner.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    answer = json.loads(subprocess.run(
        [str(PADDLE), str(ROOT / "tools" / "trainers" / "paddle_tuner.py"), "--gpus", "8", "--capacity", "40", "--tuner",
         str(tmp_path / "auto_tuner.json")], env=ENVIRONMENT, capture_output=True, text=True, check=True).stdout.splitlines()[-1])
    # In the plan's order, and it ends after the last. Python writes True, and nothing as None.
    as_written = [{key: str(value).lower() if key == "use_recompute" else "" if value is None else str(value)
                   for key, value in one.items()} for one in answer["listed"]]
    assert as_written == rows
    # Of the 792 of its own grid it would still try those whose values some row has, and of them those that fit.
    print(len(rows), answer["grid"], answer["grid_that_fits"])
    assert 792 > answer["grid"] > answer["grid_that_fits"] > 0
