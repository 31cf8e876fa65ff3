"""accelerate's verdict on a configuration: its reader, its launcher's checks, and the plugins that the environment of the
launched processes makes; transformers' verdict on the arguments of its trainer.

    python accelerate_judge.py < questions.jsonl > answers.jsonl

A question has `world`, `text` of the YAML file and `arguments` of the trainer.
"""
import os
import tempfile

from judge import answer_all


def verdict(question):
    from accelerate.commands.config.config_args import load_config_from_file
    from accelerate.commands.launch import _validate_launch_command, launch_command_parser
    from accelerate.parallelism_config import ParallelismConfig
    from accelerate.utils import FullyShardedDataParallelPlugin
    from accelerate.utils.launch import prepare_multi_gpu_env
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", delete=False) as file:
        file.write(question["text"])
    try:
        load_config_from_file(file.name)
        words = launch_command_parser().parse_args(["--config_file", file.name, "train.py"])
        words, _, _ = _validate_launch_command(words)
    finally:
        os.unlink(file.name)
    before = dict(os.environ)
    os.environ.update(prepare_multi_gpu_env(words))
    try:
        if os.environ.get("ACCELERATE_USE_FSDP") == "true":
            FullyShardedDataParallelPlugin()
        if os.environ.get("ACCELERATE_USE_PARALLELISM_CONFIG") == "true":
            sizes = ParallelismConfig()
            assert sizes.total_size == question["world"], f"{sizes.total_size} ranks are not {question['world']}"
    finally:
        os.environ.clear()
        os.environ.update(before)
    check_arguments(question["arguments"])


def check_arguments(arguments):
    import tempfile as folders
    from transformers import TrainingArguments
    with folders.TemporaryDirectory() as folder:
        TrainingArguments(output_dir=folder, use_cpu=True, report_to=[], **arguments)


if __name__ == "__main__":
    answer_all(verdict)
