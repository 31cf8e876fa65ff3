"""Every key that is classed as counted in data/imports changes an answer, or what is said of it."""
import json
import os
import pathlib
import re
import sys

import pytest

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[1])]
import asked  # noqa: E402
from test_keys import ROOT, table  # noqa: E402

# Files of each program, behind which a key is set: not every key means something in each of them.
MEGATRON = ("torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 8 --hidden-size 2048 --num-attention-heads 16 --vocab-size 50257"
            " --max-position-embeddings 4096 --seq-length 4096 --micro-batch-size 2 --global-batch-size 64 --bf16 --use-distributed-optimizer")
EXPERTS = " --num-experts 8 --moe-ffn-hidden-size 1024"
TUNED = {"model_name_or_path": "llama-3.1-8b", "per_device_train_batch_size": 2}
LONG = {"cutoff_len": 2048, **TUNED}
LORA = {"finetuning_type": "lora", **LONG}
TRL = {"dataset_train_split": "train", "max_length": 2048, **TUNED}
AXOLOTL = {"base_model": "llama-3.1-8b", "sequence_len": 2048, "micro_batch_size": 2}
ARGUMENTS = {"TrainingArguments": {"per_device_train_batch_size": 2}}
BATCH = {"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2}
FILES = {
    "megatron-lm": [
        MEGATRON,
        f"{MEGATRON}{EXPERTS} --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --expert-model-parallel-size 2 --swiglu"
        " --position-embedding-type rope --sequence-parallel --group-query-attention",
        f"{MEGATRON}{EXPERTS} --multi-latent-attention --q-lora-rank 512",
        f"{MEGATRON} --context-parallel-size 2 --recompute-granularity full --recompute-method block --recompute-num-layers 2",
        f"{MEGATRON} --recompute-granularity selective --fp8-format hybrid --swiglu --optimizer-cpu-offload --mtp-num-layers 1",
        MEGATRON.replace(" --use-distributed-optimizer", "").replace(" --bf16", " --no-gradient-accumulation-fusion"),
        MEGATRON.replace(" --use-distributed-optimizer", " --use-megatron-fsdp --disable-bias-linear"),
        f"{MEGATRON} --pipeline-model-parallel-size 4 --overlap-grad-reduce --overlap-param-gather --num-virtual-stages-per-pipeline-rank 2",
    ],
    "axolotl": [
        AXOLOTL, {**AXOLOTL, "adapter": "lora", "fsdp_version": 2}, {"base_model": "llama-3.1-8b"},
        {**AXOLOTL, "base_model": "qwen3-30b-a3b", "adapter": "qlora", "load_in_4bit": True},
    ],
    "llama-factory": [{"finetuning_type": "full", **LONG}, {"fsdp": "full_shard", **LORA}, {"finetuning_type": "full"},
                      {"fsdp": "full_shard", "gradient_checkpointing": False, **LORA}],
    "trl": [TRL, {"use_peft": True, "fsdp": "full_shard", "gradient_checkpointing": False, **TRL}, {"use_peft": True, "fp16": True, **TRL},
            {"dataset_train_split": "train"}],
    "trainer": [{"max_seq_length": 2048, **TUNED}, {"max_seq_length": 2048, "use_peft": True, "lora_r": 4, "fsdp": "full_shard", **TUNED}, TUNED],
    "accelerate": [
        {"distributed_type": "FSDP", "fsdp_config": {"fsdp_version": 2}, **ARGUMENTS},
        {"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 3}, **ARGUMENTS},
        {"distributed_type": "FSDP", "fsdp_config": {"fsdp_sharding_strategy": "HYBRID_SHARD"}, **ARGUMENTS},
        {"distributed_type": "FSDP", "fsdp_config": {"fsdp_version": 1}, "parallelism_config": {"parallelism_config_cp_size": 2}, **ARGUMENTS},
    ],
    "deepspeed": [
        {"zero_optimization": {"stage": 3}, **BATCH},
        {"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}, **BATCH},
        {"bf16": {"enabled": True}, "zero_optimization": {"stage": 1}, **BATCH},
    ],
}
# What the files leave to others.
BESIDE = {"accelerate": ["llama-3.1-8b", "--seq", "2k", "--batch", "64"], "deepspeed": ["llama-3.1-8b", "--seq", "2k"]}
NAMES = {"megatron-lm": "run.sh", "deepspeed": "run.json"}
# Numbers, switches and a word that nobody has; None is an option that stands alone.
VALUES = [None, 3, True, False, 0.5, "unheard"]
CHOICES = {"attn_implementation": "eager", "cp_comm_type": "a2a"}


def _merged(one, two):
    if not isinstance(one, dict) or not isinstance(two, dict):
        return two
    return {**one, **{key: _merged(one.get(key), value) for key, value in two.items()}}


def _file_text(base, key=None, value=None):
    """The file with that key; nothing where a key cannot stand alone."""
    if isinstance(base, str):
        option = f"--{key.replace('_', '-')}" if key else ""
        rest = re.sub(rf" {option}( [^-]\S*)*(?= |$)", "", base) if key else base
        return f"{rest} {option}{'' if value is None else f' {value}'}".rstrip()
    if key and value is None:
        return None
    inside = value
    for part in reversed(key.split(".") if key else []):
        inside = {part: inside}
    return json.dumps(_merged(base, inside) if key else base)  # which YAML is, too


def _plain(answer):
    """Without how many settings have no part in it."""
    code, output, error = answer
    return code, re.sub(r"\w+ other settings? of \S+ (have|has) no part in this\.", "", " ".join(output.split())), error


def unread(program, keys, build, folder):
    """Those of the keys that no file of the program answers otherwise with than without."""
    def answers(number, texts):
        questions = []
        for at, text in enumerate(texts):
            path = folder / f"{number}-{at}" / NAMES.get(program, "run.yaml")
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
            questions.append(["estimate", *BESIDE.get(program, []), "--config", str(path), "--on", "8xH100"])
        return [_plain(answer) for answer in asked.answered(build, questions)]

    left = list(keys)
    for number, base in enumerate(FILES[program]):
        for value in VALUES:
            texts = {key: _file_text(base, key, CHOICES.get(key, value)) for key in left}
            texts = {key: text for key, text in texts.items() if text is not None}
            without, *with_them = answers(number, [_file_text(base), *texts.values()])
            read = {key for key, answer in zip(texts, with_them) if answer != without}
            left = [key for key in left if key not in read]
    return set(left)


# They ask for flash kernels, which are counted unless others are asked for.
FLASH = {"use_flash_attn", "flash_attn", "flash_attention", "sdp_attention", "xformers_attention"}


def exported_options():
    """Options of Megatron-LM's by which exports say constants of a model: no answer shows them."""
    text = (ROOT / "trainwright/export/megatron_model.cc").read_text()
    return {option.replace("-", "_") for option in re.findall(r'"--([\w-]+)"', text)}


@pytest.mark.parametrize("program", FILES)
def test_every_counted_key_changes_an_answer_or_what_is_said_of_it(program, tmp_path):
    build = pathlib.Path(os.environ.get("TRAINWRIGHT_BUILD", ROOT / "build/release"))
    if not (build / "answers").exists():
        pytest.skip(f"no {build}/answers")
    rules = table(program)
    keys = {key for key, rule in {**rules["keys"], **rules.get("older_keys", {})}.items()
            if (rule if isinstance(rule, str) else rule.get("*", "counted")) == "counted"}
    left = unread(program, keys, build, tmp_path)
    carried = exported_options() if program == "megatron-lm" else set()
    assert left - carried - FLASH == set(), "counted keys that nothing reads"
