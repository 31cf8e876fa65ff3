"""DeepSpeed's verdict on a configuration: its own reader, given the ranks that an engine would give it.

    python deepspeed_judge.py < questions.jsonl > answers.jsonl

A question has `world`, `text` of a ds_config.json, and `stages` of the pipeline.
"""
import json

from judge import answer_all


def verdict(question):
    import deepspeed.runtime.config as reader
    from deepspeed.runtime.config import DeepSpeedConfig
    config, world = json.loads(question["text"]), question["world"]
    stages = question["stages"]
    tp = config.get("tensor_parallel", {}).get("autotp_size", 1)
    sequence = config.get("sequence_parallel_size", 1)
    assert world % (stages * tp * sequence) == 0, "the world is no multiple of its parts"

    class Ranks:
        get_data_parallel_world_size = staticmethod(lambda: world // (stages * tp * sequence))
        get_model_parallel_world_size = staticmethod(lambda: tp)
        get_sequence_data_parallel_world_size = staticmethod(lambda: world // (stages * tp))
        get_sequence_parallel_world_size = staticmethod(lambda: sequence)
        get_pipeline_model_parallel_world_size = staticmethod(lambda: stages)

    # Without a process group it would take itself for the only rank.
    reader.dist.get_rank = lambda *_: 0
    reader.dist.get_world_size = lambda *_: world
    read = DeepSpeedConfig(config, mpu=Ranks())
    # As PipelineEngine.__init__ does.
    assert stages == 1 or read.zero_optimization_stage < 2, "ZeRO-2 and ZeRO-3 are incompatible with pipeline parallelism"


if __name__ == "__main__":
    answer_all(verdict)
