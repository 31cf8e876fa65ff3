"""Exports judged by the target's own code: every plan that we export is accepted, and no key is outside the closed list.

The files are judged as they are written: scripts by a shell, the others by the target's reader. `TRAINWRIGHT_PLANS=500`
exports as many of each.
"""
import json
import os
import random
import subprocess

import pytest
from layouts import case_text, export_words, legal_exports, random_case
from program import answered
from trainer_oracles import JUDGES, ORACLES, needed

PLANS = int(os.environ.get("TRAINWRIGHT_PLANS", "200"))
TARGETS = [name for name in ORACLES if name not in ("megatron-core 0.16.1", "megatron-core 0.17.1")]


@pytest.mark.parametrize("oracle", TARGETS, indirect=True, scope="session")
def test_exported_plans_are_accepted(oracle, request):
    name = request.node.callspec.id
    plans = legal_exports(oracle.space, random.Random(f"exports {name}"), PLANS)
    assert len(plans) == PLANS, f"only {len(plans)} of {PLANS} plans"
    questions = [oracle.of_files(case, {file["path"]: file["text"] for file in answer["files"]}) for case, answer in plans]
    refused = [f"{case_text(case)}: {reason}" for (case, _), reason in zip(plans, oracle.answers(questions)) if reason]
    print(f"\n{name}: {PLANS - len(refused)} of {PLANS} exported plans accepted")
    assert not refused, "\n".join(refused[:20])


@pytest.mark.parametrize("name", TARGETS)
def test_the_program_exports_what_is_judged(name):
    """The others ask one process for many exports; each is what the program prints when it is started for it."""
    space, pick = ORACLES[name].space, random.Random(f"program {name}")
    questions = [export_words(space, random_case(space, pick)) for _ in range(6)]
    for words, answer in zip(questions, answered(questions)):
        run = subprocess.run([os.environ["TRAINWRIGHT_BINARY"], *words], capture_output=True, text=True)
        assert [run.returncode, run.stdout, run.stderr] == answer


def options_in(shown, inside=False):
    """Every --option that the settings of a trainer's file name."""
    if isinstance(shown, dict):
        return {option for key, value in shown.items() for option in options_in(value, inside or key in ("setting", "settings"))}
    if isinstance(shown, list):
        return {option for value in shown for option in options_in(value, inside)}
    return {word for word in shown.split() if word.startswith("--")} if inside and isinstance(shown, str) else set()


@pytest.mark.parametrize("oracle", ["megatron-core 0.17.1", "megatron-core 0.19.2"], indirect=True, scope="session")
def test_every_option_is_one_of_megatrons(oracle):
    shown = subprocess.run([os.environ["TRAINWRIGHT_BINARY"], "show", "trainer", oracle.space.trainer, "--json"],
                           capture_output=True, text=True, check=True).stdout
    options = sorted(options_in(json.loads(shown)))
    assert len(options) > 40, options
    question = {"world": 8, "environment": {}, "capability": (9, 0), "transformer_engine": "2.13.0"}
    *answers, wrong = oracle.answers([question | {"option": option} for option in [*options, "--not-there"]])
    assert wrong
    assert not [option for option, answer in zip(options, answers) if answer]


def test_a_converter_that_torchtitan_has_not_is_refused():
    oracle = needed(ORACLES["torchtitan 0.2.2"])
    text = """[model]
name = "llama3"
flavor = "8B"
converters = ["{}"]
[training]
local_batch_size = 1
global_batch_size = 8
[parallelism]
data_parallel_shard_degree = 8
"""
    right, *stale = oracle.answers([{"world": 8, "text": text.format(name)} for name in ("quantize.linear.float8", "float8", "mx")])
    oracle.dismiss()
    assert not right
    assert all("no model converter" in reason for reason in stale)


CHECKED = {"deepspeed 0.19.8": "zero=3,mbs=1,gbs=64,seq=4096", "torchtitan 0.3.0": "fsdp,mbs=1,gbs=64,seq=4096",
           "megatron-core 0.19.2": "tp=2,pp=2,sp,zero=1,mbs=1,gbs=64,seq=4096"}


@pytest.mark.parametrize("name", CHECKED)
def test_check_tells_what_the_target_says(name):
    oracle = needed(ORACLES[name])
    path = {"PYTHONPATH": str(oracle.place)} if oracle.folder else {}
    run = subprocess.run([os.environ["TRAINWRIGHT_BINARY"], "export", CHECKED[name], "--model", "llama-3.1-8b", "--on", "8xH100",
                          "--trainer", oracle.space.trainer, "--check", "--python", str(oracle.python), "--json"],
                         capture_output=True, text=True, env={**os.environ, **path})
    assert json.loads(run.stdout)["check"] == {"verdict": "accepted", "by": name}, run.stdout[-500:] + run.stderr
    assert run.returncode == 0


def test_check_tells_what_the_target_refuses(tmp_path):
    oracle = needed(ORACLES["deepspeed 0.19.8"])
    wrong = {"train_batch_size": 63, "train_micro_batch_size_per_gpu": 8, "gradient_accumulation_steps": 1}
    question = {"target": "deepspeed", "form": "words", "world": 8, "stages": 1, "settings": [], "text": json.dumps(wrong)}
    (tmp_path / "question.json").write_text(json.dumps(question))
    subprocess.run([oracle.python, JUDGES / "check.py", tmp_path / "question.json", tmp_path / "answer.json"], check=True,
                   capture_output=True)
    answer = json.loads((tmp_path / "answer.json").read_text())
    assert answer["verdict"] == "refused" and "63 != 8 * 1 * 8" in answer["reason"]
