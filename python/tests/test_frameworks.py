"""What an export gives as objects is what the frameworks' own classes take."""
import json
import os
import subprocess

import pytest

accelerate = pytest.importorskip("accelerate")
transformers = pytest.importorskip("transformers")

from trainwright.answers import Export, answer_of  # noqa: E402
from trainwright.layout import Layout  # noqa: E402


def exported(layout, trainer, *more):
    words = [os.environ["TRAINWRIGHT_BINARY"], "export", layout, "--model", "llama-2-7b", "--on", "8xH100", "--trainer", trainer, *more]
    return answer_of(Export, json.loads(subprocess.run([*words, "--json"], capture_output=True, text=True, check=True).stdout))


@pytest.mark.parametrize("layout, sizes", [
    ("fsdp,mbs=1,gbs=64,seq=4096", {"dp_shard_size": 8}),
    ("hsdp,dp_replicate=2,mbs=1,gbs=64,seq=4096", {"dp_replicate_size": 2, "dp_shard_size": 4}),
    ("tp=2,fsdp,mbs=1,gbs=64,seq=4096", {"tp_size": 2, "dp_shard_size": 4})])
def test_accelerates_parallelism_config_is_made_of_it(layout, sizes):
    given = exported(layout, "accelerate").parallelism_config
    config = accelerate.ParallelismConfig(**given)
    assert {name: getattr(config, name) for name in sizes} == sizes and config.total_size == 8


def test_the_plugin_of_fsdp_is_made_of_it(monkeypatch):
    given = exported("fsdp,mbs=1,gbs=64,seq=4096,recompute=full,offload=parameters", "accelerate").fsdp_plugin
    plugin = accelerate.FullyShardedDataParallelPlugin(**given)
    assert plugin.fsdp_version == 2 and plugin.reshard_after_forward is True and plugin.activation_checkpointing
    assert plugin.cpu_offload  # of FSDP 2 a policy, of `fsdp_offload_params`


def test_training_arguments_are_made_of_it(tmp_path):
    given = exported("fsdp,mbs=2,gbs=64,seq=4096", "accelerate").training_arguments
    arguments = transformers.TrainingArguments(output_dir=str(tmp_path), use_cpu=True, **given)
    assert (arguments.per_device_train_batch_size, arguments.gradient_accumulation_steps) == (2, 4)


def test_deepspeeds_settings_are_its_dict():
    found = exported("zero=3,mbs=1,gbs=64,seq=4096", "deepspeed")
    assert found.config == json.loads(found.file("ds_config.json")) == found.training_arguments["deepspeed"]


def test_pytorchs_device_mesh_is_made_of_a_layout():
    torch = pytest.importorskip("torch")
    from torch.testing._internal.distributed.fake_pg import FakeStore
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=16)
    try:
        mesh = torch.distributed.init_device_mesh("cpu", **Layout(tp=2, pp=2, dp=4, dp_replicate=2).device_mesh())
        assert mesh.mesh_dim_names == ("pp", "dp_replicate", "dp_shard", "tp")
        assert mesh["tp"].mesh.tolist() == [0, 1] and mesh["pp"].mesh.tolist() == [0, 8]  # ranks of tp are neighbours
    finally:
        torch.distributed.destroy_process_group()
