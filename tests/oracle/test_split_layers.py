"""Layers split over real processes (Gloo): every rank keeps for backward what the operator list says, and the
collectives are those of the list, by kind, pass, number and bytes.

Not in the list: the exchange of how many tokens each expert gets, 8 bytes for each expert, before tokens are sent."""
import collections
import dataclasses

import pytest
import torch

import split_experts
import split_layers
from kept_storages import Layer
from ranks import Ranks
from test_kept_storages import differences
from work_lists import lists, request

_SIZES = {"vocab_size": 96, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 1, "num_attention_heads": 8,
          "num_key_value_heads": 4, "head_dim": 8, "max_position_embeddings": 64}
LLAMA = Layer({"model_type": "llama", **_SIZES}, batch=2, sequence=16)
MIXTRAL = Layer({"model_type": "mixtral", **_SIZES, "num_local_experts": 4, "num_experts_per_tok": 2,
                 "experts_implementation": "grouped_mm"}, batch=2, sequence=16)
BF16_TOLERANCE = 0.02  # of sums in another order, over the largest
FP32_TOLERANCE = 1e-5  # of gradients, over their largest


@pytest.fixture(scope="module")
def ranks():
    group = Ranks(4)
    yield group
    group.close()


def calls_of(listed: dict) -> collections.Counter:
    """(kind, whether in backward, bytes) of every collective of a list."""
    return collections.Counter((call["kind"], call["pass"] != "forward", call["bytes"])
                               for operator in listed["operators"] for call in operator["collectives"])


def made(calls: list[split_layers.Call]) -> collections.Counter:
    return collections.Counter((call.kind, call.backward, call.size) for call in calls if call.dtype != torch.int64)


def agree(listed: dict, answers: list, expected: collections.Counter | None = None) -> None:
    """All ranks that took part kept and called what the list says."""
    for kept, calls, *_ in filter(None, answers):
        assert not differences(listed["kept"], kept)
        assert made(calls) == (calls_of(listed) if expected is None else expected)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("sequence_parallel", [False, True])
@pytest.mark.parametrize("degree", [2, 4])
def test_tensor_parallel_layers(ranks, degree, sequence_parallel, attention):
    spec = dataclasses.replace(LLAMA, attention=attention)
    [listed] = lists([request(spec, tp=degree, sp=sequence_parallel)])
    agree(listed, ranks.run(split_layers.tensor_parallel_layer, spec, degree, sequence_parallel))


@pytest.mark.parametrize("shard, replicate", [(2, 1), (4, 1), (2, 2)])
def test_sharded_layers(ranks, shard, replicate):
    layout = {"dp_shard": shard, "dp_replicate": replicate, "hsdp" if replicate > 1 else "fsdp": True, "zero": 3}
    [listed] = lists([request(LLAMA, **layout)])
    expected = collections.Counter((call["kind"], call["pass"] != "forward", call["bytes"]) for call in listed["parameters"])
    copied = collections.Counter(("copy", call["pass"] != "forward", call["copied"]) for call in listed["parameters"] if call["copied"])
    assert copied.total() == 3  # out of both gathers, into the reduction
    expected += copied
    assert all(call["calls"] == 1 for call in listed["parameters"])
    agree(listed, ranks.run(split_layers.sharded_layer, LLAMA, shard, replicate), expected)


def test_expert_parallel_layers(ranks):
    [listed] = lists([request(MIXTRAL, ep=2, dp=2)])
    answers = ranks.run(split_experts.expert_parallel_layer, MIXTRAL, 2)
    agree(listed, answers)
    counts = [call for call in answers[0][1] if call.dtype == torch.int64]
    assert [call.size for call in counts] == [8 * MIXTRAL.config["num_local_experts"]]
    assert all(difference == 0 for _, _, difference in filter(None, answers)), "not the unsplit layer"


@pytest.mark.parametrize("degree", [2, 4])
def test_tensor_parallel_experts(ranks, degree):
    [listed] = lists([request(MIXTRAL, tp=degree)])
    answers = ranks.run(split_experts.tensor_parallel_layer, MIXTRAL, degree)
    agree(listed, answers)
    assert all(difference < BF16_TOLERANCE for _, _, difference in filter(None, answers)), "not the unsplit layer"


@pytest.mark.parametrize("degree", [2, 4])
@pytest.mark.parametrize("kind", ["ring", "ulysses"])
def test_context_parallel_layers(ranks, kind, degree):
    [listed] = lists([request(LLAMA, cp=degree, cp_kind=kind)])
    answers = ranks.run(split_layers.context_parallel_layer, LLAMA, degree, kind)
    if kind == "ulysses":
        agree(listed, answers)
        return
    # A ring of the list is all its steps; here each is a call.
    for kept, calls, _ in filter(None, answers):
        assert not differences(listed["kept"], kept)
        for backward in (False, True):
            sent = sum(call.size for call in calls if call.kind == "ring" and call.backward == backward)
            assert sent == sum(size for _, again, size in calls_of(listed).elements() if again == backward)


@pytest.mark.parametrize("kind", ["ring", "ulysses"])
def test_split_attention_has_the_gradients_of_the_unsplit_one(ranks, kind):
    spec = dataclasses.replace(LLAMA, dtype=torch.float32)
    answers = ranks.run(split_layers.context_parallel_layer, spec, 4, kind)
    assert max(difference for _, _, difference in answers) < FP32_TOLERANCE
