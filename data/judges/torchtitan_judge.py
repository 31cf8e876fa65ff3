"""torchtitan's verdict on settings: its parser, its sizes of meshes, and what its trainer asks before it starts.

    python torchtitan_judge.py [FOLDER of an unpacked 0.2 wheel] < questions.jsonl > answers.jsonl

A question has `world` and `words` of a command line (0.3) or `text` of a TOML file (0.2). No mesh is made.
"""
import functools
import os
import sys
import tempfile

from judge import answer_all, stand_in_for_triton


@functools.cache
def manager():
    """One: each that is made adds its rules once more to all that is parsed from then on."""
    from torchtitan.config import ConfigManager
    return ConfigManager()


def check_batch(training, dims):
    """As Trainer.__init__ does once it knows the mesh."""
    ranks = training.local_batch_size * dims.dp_replicate * dims.dp_shard
    assert training.global_batch_size % ranks == 0, "global batch size must be multiple of local batch size times dp"


def check_schedule(parallelism):
    """As build_pipeline_schedule and pipeline_llm do: stages in multiples of ranks, several for looped schedules."""
    if parallelism.pipeline_parallel_degree == 1:
        return
    from torch.distributed.pipelining.schedules import PipelineScheduleSingle, get_schedule_class
    single = issubclass(get_schedule_class(parallelism.pipeline_parallel_schedule), PipelineScheduleSingle)
    stages = len(parallelism.module_fqns_per_model_part)
    assert stages % parallelism.pipeline_parallel_degree == 0, "stages are no multiple of ranks"
    assert single == (stages == parallelism.pipeline_parallel_degree), "stages of a rank do not suit the schedule"


def by_command_line(question):
    from torchtitan.distributed.parallel_dims import ParallelDims
    config = manager().parse_args(question["words"])
    dims = ParallelDims.from_config(config.parallelism, question["world"])
    # Trainer.__init__, which needs process groups for the rest.
    whole = (dims.tp if config.parallelism.enable_sequence_parallel else 1) * (2 * dims.cp if dims.cp > 1 else 1)
    assert config.training.seq_len % whole == 0, "sequence length must be divisible for sequence and context parallelism"
    config.model_spec.model.update_from_config(config=config)
    config._validate_cuda_graphs()
    check_batch(config.training, dims)
    check_schedule(config.parallelism)
    assert dims.dp_shard * dims.cp * dims.tp % dims.ep == 0, "dp_shard * cp * tp == efsdp * ep"  # build_mesh


def by_file(question):
    from torchtitan.distributed import ParallelDims
    with tempfile.NamedTemporaryFile("w", suffix=".toml", delete=False) as file:
        file.write(question["text"])
    config = manager().parse_args(["--job.config_file", file.name])
    os.unlink(file.name)
    asked = config.parallelism
    dims = ParallelDims(
        dp_shard=asked.data_parallel_shard_degree, dp_replicate=asked.data_parallel_replicate_degree,
        cp=asked.context_parallel_degree, tp=asked.tensor_parallel_degree, pp=asked.pipeline_parallel_degree,
        ep=asked.expert_parallel_degree, etp=asked.expert_tensor_parallel_degree, world_size=question["world"])
    from torchtitan.protocols.model_converter import _registry_model_converter_cls as converters
    from torchtitan.protocols.train_spec import get_train_spec
    unknown = [name for name in config.model.converters if name not in converters]
    assert not unknown, f"no model converter is called {unknown}"  # ModelConvertersContainer, which asks for a GPU too
    get_train_spec(config.model.name).model_args[config.model.flavor].update_from_config(config)
    assert config.training.seq_len % dims.seq_len_divisor == 0, "seq_len_divisor"  # models/*/infra/parallelize.py
    check_batch(config.training, dims)
    check_schedule(config.parallelism)


def verdict(question):
    (by_command_line if "words" in question else by_file)(question)


if __name__ == "__main__":
    sys.path[:0] = sys.argv[1:]
    stand_in_for_triton()
    answer_all(verdict)
