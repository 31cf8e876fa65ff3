"""Trainers whose own code rules on settings here: what it is asked, where it is, how settings and files become questions.

`tools/make/make_venv.sh` brings them; one that is not there is skipped.
"""
import dataclasses
import json
import os
import pathlib
import shlex
import subprocess
import sys

import pytest
import trainer_spaces as spaces
import yaml

JUDGES = pathlib.Path(__file__).resolve().parents[2] / "data" / "judges"
sys.path.append(str(JUDGES))
import check  # noqa: E402

BUILD = pathlib.Path(os.environ.get("TRAINWRIGHT_ENVIRONMENTS", pathlib.Path(__file__).resolve().parents[2] / "build"))
CAPABILITY = {"H100": (9, 0), "B200": (10, 0), "A100": (8, 0)}


@dataclasses.dataclass
class Oracle:
    space: object
    judge: str
    place: pathlib.Path  # what has to be there
    of_settings: callable  # case, what export answers with --only-settings -> question
    of_files: callable  # case, files by name -> question
    python: str = sys.executable
    folder: bool = False  # the judge is told the place
    layouts: int = 200  # as many as take half a minute
    process: subprocess.Popen = None  # the judge, once it was asked

    def answers(self, questions):
        """Those of the judge, whose imports take longest: it is started once."""
        self.process = self.process or subprocess.Popen(
            [self.python, str(JUDGES / self.judge), *([str(self.place)] if self.folder else [])], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, env={**os.environ, **check.ENVIRONMENT})
        print(json.dumps(questions), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        assert answer, f"{self.judge} ended; see what it said above"
        return json.loads(answer)

    def dismiss(self):
        if self.process:
            self.process.communicate()
            self.process = None


def needed(oracle):
    if not oracle.place.exists():
        pytest.skip(f"no {oracle.place}: tools/make/make_venv.sh brings it")
    return oracle


def world_of(case):
    return case["nodes"] * 8


def shell_arrays(text, *names):
    """The words of bash arrays that a file of settings sets."""
    command = text + "\n" + "; ".join(f'printf "%s\\0" "${{{name}[@]}}"' for name in names)
    run = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    return [word for word in run.stdout.split("\0") if word]


def exported_variables(script):
    lines = [shlex.split(line, comments=True) for line in script.splitlines() if line.startswith("export ")]
    return dict(word.split("=", 1) for line in lines for word in line[1:])


def megatron_question(case, words, environment, trainer):
    shown = subprocess.run([os.environ["TRAINWRIGHT_BINARY"], "show", "trainer", trainer, "--json"], capture_output=True,
                           text=True, check=True).stdout if trainer not in megatron_question.known else None
    if shown:
        libraries = json.loads(shown)["libraries"]
        megatron_question.known[trainer] = libraries.get("transformer_engine", "2.13.0")
    return {"world": world_of(case), "flags": check.MEGATRON_REST + words, "capability": CAPABILITY[case["gpu"]],
            "environment": environment, "transformer_engine": megatron_question.known[trainer]}


megatron_question.known = {}


def megatron(version):
    trainer = f"megatron-core@{version}"

    def of_settings(case, answer):
        return megatron_question(case, *check.words_and_environment(answer["settings"]), trainer)

    def of_files(case, files):
        return megatron_question(case, shell_arrays(files["settings.sh"], "MODEL", "SETTINGS"),
                                 exported_variables(files["launch.sh"]), trainer)

    return Oracle(spaces.megatron(version), "megatron_judge.py",
                  BUILD / ("megatron" if version == "0.16.1" else f"megatron-{version}"), of_settings, of_files, folder=True,
                  layouts=300)


def torchtitan():
    environment = BUILD / "torchtitan"
    return Oracle(
        spaces.torchtitan("0.3"), "torchtitan_judge.py", environment,
        lambda case, answer: {"world": world_of(case), "words": shlex.split(answer["text"])},
        lambda case, files: {"world": world_of(case),
                             "words": shell_arrays(files["settings.sh"], "SETTINGS", "SUBCOMMANDS")},
        python=str(environment / "bin/python"), layouts=60)


def old_torchtitan():
    return Oracle(
        spaces.torchtitan("0.2.2"), "torchtitan_judge.py", BUILD / "torchtitan-0.2.2",
        lambda case, answer: {"world": world_of(case), "text": answer["text"]},
        lambda case, files: {"world": world_of(case), "text": files["torchtitan.toml"]},
        python=str(BUILD / "torchtitan/bin/python"), folder=True, layouts=60)


def deepspeed():
    def question(case, text):
        return {"world": world_of(case), "text": text, "stages": case["layout"].get("pp", 1)}

    return Oracle(spaces.deepspeed("0.19.8"), "deepspeed_judge.py", BUILD / "deepspeed",
                  lambda case, answer: question(case, answer["text"]),
                  lambda case, files: question(case, files["ds_config.json"]), python=str(BUILD / "deepspeed/bin/python"))


def automodel():
    return Oracle(spaces.automodel("0.7"), "automodel_judge.py", BUILD / "automodel",
                  lambda case, answer: {"world": world_of(case), "text": answer["text"]},
                  lambda case, files: {"world": world_of(case), "text": files["recipe.yaml"]}, folder=True)


def accelerate():
    def of_settings(case, answer):
        return {"world": world_of(case), "text": answer["text"], "arguments": check.training_arguments(answer["settings"])}

    def of_files(case, files):
        return {"world": world_of(case), "text": files["accelerate.yaml"],
                "arguments": yaml.safe_load(files["training_arguments.yaml"])}

    return Oracle(spaces.accelerate("1.15"), "accelerate_judge.py", BUILD / "venv", of_settings, of_files)


ORACLES = {"megatron-core 0.16.1": megatron("0.16.1"), "megatron-core 0.17.1": megatron("0.17.1"),
           "megatron-core 0.19.2": megatron("0.19.2"), "torchtitan 0.3.0": torchtitan(), "torchtitan 0.2.2": old_torchtitan(),
           "deepspeed 0.19.8": deepspeed(), "nemo-automodel 0.7.0": automodel(), "accelerate 1.15.0": accelerate()}
