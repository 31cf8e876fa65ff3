"""NeMo AutoModel's verdict on a recipe: its reader, and its meshes on a process group that moves nothing.

    python automodel_judge.py [FOLDER] < questions.jsonl > answers.jsonl

FOLDER holds an unpacked wheel, if it is not installed. A question has `world` and `text` of the recipe.
"""
import sys

import yaml
from judge import answer_all


def verdict(question):
    import torch.distributed as dist
    from nemo_automodel.components.distributed.config import DistributedSetup
    from nemo_automodel.recipes._dist_utils import parse_distributed_section
    from torch.testing._internal.distributed.fake_pg import FakeStore
    recipe, world = yaml.safe_load(question["text"]), question["world"]
    dist.init_process_group("fake", rank=0, world_size=world, store=FakeStore())
    try:
        read = parse_distributed_section(recipe["distributed"])
        setup = DistributedSetup.build(read["strategy_config"], read["parallelism_sizes"], read["pipeline_config"],
                                       read["moe_parallel_config"], read["activation_checkpointing"], world_size=world)
        check_batch(recipe["step_scheduler"], setup, recipe["distributed"], world)
    finally:
        dist.destroy_process_group()


def check_batch(steps, setup, asked, world):
    """As StepScheduler.__init__ does, which needs data; a pipeline counts its own micro-batches."""
    ranks = world // (asked.get("tp_size", 1) * asked.get("pp_size", 1) * asked.get("cp_size", 1))
    assert steps["global_batch_size"] % (steps["local_batch_size"] * ranks) == 0, "global_batch_size must be divisible"
    pipeline = asked.get("pipeline", {})
    assert pipeline.get("pp_batch_size", 1) % pipeline.get("pp_microbatch_size", 1) == 0, "pp_batch_size"


if __name__ == "__main__":
    sys.path[:0] = sys.argv[1:]
    answer_all(verdict)
