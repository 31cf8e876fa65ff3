"""What a target's own code says about one export, for `trainwright export --check`.

    python check.py QUESTION ANSWER

QUESTION is a file as `export --only-settings --json` prints it, with `target`, `form`, `stages`, `capability` of the
accelerator and the version of `transformer_engine`. ANSWER is written: {"verdict": "accepted" or "refused" or "not-checked",
"reason": why, "by": package and version}. Nothing is trained and no accelerator is needed.
"""
import importlib
import importlib.metadata
import importlib.util
import json
import logging
import os
import shlex
import sys
import warnings

# Some packages look for compilers and hubs when they are imported.
ENVIRONMENT = {"DS_ACCELERATOR": "cpu", "CUDA_HOME": "/nonexistent", "HF_HUB_OFFLINE": "1"}
# What a run needs beside a plan. Rotation is fused by Transformer Engine, which is not asked for here.
MEGATRON_REST = ("--train-iters 10 --lr 1e-4 --mock-data --tokenizer-type NullTokenizer --transformer-impl transformer_engine "
                 "--attention-backend flash --no-rope-fusion").split()


def words_and_environment(settings):
    words, environment = [], {}
    for setting in settings:
        if setting["key"].startswith("--"):
            words += [setting["key"], *setting["values"]]
        else:
            environment[setting["key"]] = setting["values"][0]
    return words, environment


def training_arguments(settings):
    import yaml
    return {one["key"].split(".", 1)[1]: yaml.safe_load(one["values"][0]) for one in settings
            if one["key"].startswith("TrainingArguments.")}


def megatron(asked):
    words, environment = words_and_environment(asked["settings"])
    return {"world": asked["world"], "flags": MEGATRON_REST + words, "environment": environment,
            "capability": asked["capability"], "transformer_engine": asked["transformer_engine"]}


def torchtitan(asked):
    settings = {"text": asked["text"]} if asked["form"] == "toml" else {"words": shlex.split(asked["text"])}
    return {"world": asked["world"], **settings}


def by_text(asked):
    return {"world": asked["world"], "text": asked["text"], "stages": asked["stages"]}


def accelerate(asked):
    return {**by_text(asked), "arguments": training_arguments(asked["settings"])}


# By target: the module that has to be there, its package, the judge, and what the judge is asked.
TARGETS = {
    "megatron-lm": ("megatron", "megatron-core", "megatron_judge", megatron),
    "torchtitan": ("torchtitan", "torchtitan", "torchtitan_judge", torchtitan),
    "deepspeed": ("deepspeed", "deepspeed", "deepspeed_judge", by_text),
    "accelerate": ("accelerate", "accelerate", "accelerate_judge", accelerate),
    "nemo-automodel": ("nemo_automodel", "nemo-automodel", "automodel_judge", by_text),
}


def version_of(package):
    try:
        return f"{package} {importlib.metadata.version(package)}"
    except importlib.metadata.PackageNotFoundError:
        return package


def answer(asked):
    if asked["target"] not in TARGETS:
        known = ", ".join(sorted(TARGETS))
        return {"verdict": "not-checked", "reason": f"there is no check for {asked['target']}; there is one for {known}"}
    module, package, judge, question_of = TARGETS[asked["target"]]
    if importlib.util.find_spec(module) is None:
        return {"verdict": "not-checked", "reason": f"{package} is not installed for {sys.executable}"}
    by = version_of(package)
    import judge as judges
    try:
        if judge in ("megatron_judge", "torchtitan_judge"):
            judges.stand_in_for_triton()
        verdict = importlib.import_module(judge).verdict
    except ImportError as fault:
        return {"verdict": "not-checked", "reason": f"{package} cannot be imported: {fault}", "by": by}
    reason = judges.refusal(verdict, question_of(asked))
    if reason is None:
        return {"verdict": "accepted", "by": by}
    missing = reason.startswith(("ImportError", "ModuleNotFoundError"))
    return {"verdict": "not-checked" if missing else "refused", "reason": reason, "by": by}


def main():
    sys.dont_write_bytecode = True  # data is not ours to write to
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    os.environ.update(ENVIRONMENT)
    question, place = sys.argv[1:]  # parsers are given an argv of their own
    with open(question) as file:
        asked = json.load(file)
    found = answer(asked)
    with open(place, "w") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main()
