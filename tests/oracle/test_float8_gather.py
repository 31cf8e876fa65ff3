"""What PyTorch's FSDP2 holds of weights that torchao gathers in 8 bits: fp32 shards all the same, as estimated to the byte,
and 8 bits of a matrix while it is gathered."""
import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(os.environ.get("TRAINWRIGHT_TORCHAO", str(ROOT / "build/torchao")))

torch = pytest.importorskip("torch")
pytest.importorskip("torchao", reason="no torchao: tools/make/make_venv.sh brings it")

from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.testing._internal.distributed.fake_pg import FakeStore
from torchao.float8 import Float8LinearConfig, convert_to_float8_training
from transformers import LlamaConfig, LlamaForCausalLM

CONFIG = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "num_hidden_layers": 2,
          "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 640,
          "max_position_embeddings": 64, "tie_word_embeddings": False, "rms_norm_eps": 1e-5}


@pytest.fixture(autouse=True)
def two_ranks():
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    yield
    torch.distributed.destroy_process_group()


def sharded(gather):
    model = LlamaForCausalLM(LlamaConfig(**CONFIG))
    settings = Float8LinearConfig(enable_fsdp_float8_all_gather=gather, emulate=True)
    convert_to_float8_training(model, config=settings, module_filter_fn=lambda _, name: "lm_head" not in name)
    options = {"mesh": torch.distributed.device_mesh.init_device_mesh("cpu", (2,)),
               "mp_policy": MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)}
    for layer in model.model.layers:
        fully_shard(layer, **options)
    return fully_shard(model, **options)


def size(tensor):
    return tensor.numel() * tensor.element_size()


def estimated(tmp_path, switch):
    config = tmp_path / "config.json"
    config.write_text(json.dumps(CONFIG))
    layout = f"dp=2,sharding=fsdp,zero=3,mbs=1,gbs=2,seq=64,precision=fp8-tensorwise{switch}"
    command = [os.environ["TRAINWRIGHT_BINARY"], "estimate", str(config), "--on", "2xH100", "--trainer", "torchtitan@0.2",
               "--layout", layout, "--json"]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr + run.stdout
    return json.loads(run.stdout)["memory"]["classes"][0]["bytes"]["weights"]


@pytest.mark.parametrize("switch, gather", [("", False), (",on=fp8-parameter-gather", True)])
def test_shards_are_in_fp32_as_estimated(tmp_path, switch, gather):
    shards = [parameter.to_local() for parameter in sharded(gather).parameters()]
    held = [getattr(shard, "_tensor", shard) for shard in shards]
    assert any(shard is not inner for shard, inner in zip(shards, held)) == gather
    assert all(inner.dtype == torch.float32 for inner in held)
    assert estimated(tmp_path, switch) == sum(map(size, held))


@pytest.mark.parametrize("gather, each", [(False, 2), (True, 1)])
def test_a_matrix_is_gathered_in_as_many_bytes(gather, each):
    layer = sharded(gather).model.layers[0]
    layer.unshard()
    matrix = layer.mlp.up_proj.weight
    assert size(getattr(matrix, "_data", matrix)) == each * 64 * 128
