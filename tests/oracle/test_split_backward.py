"""The halves of the backward pass: which kept tensors the input gradients (I) and which the weight gradients (W) need
is what the operator list marks, and the gradients that I leaves for W are as large as it says.

What PyTorch's engine does with that is another matter: the nodes that it keeps for W hold everything before them, so in
a dense layer I releases no saved tensor until W is done, though W never reads those marked for I alone: only what lies
behind the last weight (a dropout's mask) or between router and experts' output goes. docs/work.md names the bytes."""
import dataclasses

import pytest

from kept_storages import Kept
from split_backward import Halves, halves
from test_kept_storages import FAMILIES, WITHOUT_SDPA, as_on_a_gpu
from work_lists import lists, request


def marks(found: Halves) -> list[tuple[int, str, str]]:
    def half(place: int) -> str:
        read = place in found.read_by_input, place in found.read_by_weight
        return {(True, False): "input", (False, True): "weight", (True, True): "both", (False, False): "none"}[read]
    return sorted((one.size, one.dtype, half(place)) for place, one in enumerate(as_on_a_gpu(found.kept)))


def sum_of(kept: list[Kept]) -> int:
    return sum(one.size for one in kept)


@pytest.mark.parametrize("family", FAMILIES)
def test_each_half_reads_what_the_list_marks(family):
    kernels = ("eager",) if family in WITHOUT_SDPA else ("eager", "sdpa")
    specs = [dataclasses.replace(spec, attention=attention) for spec in FAMILIES[family] for attention in kernels]
    for spec, one in zip(specs, lists([request(spec) for spec in specs])):
        found = halves(spec)
        assert marks(found) == sorted((tensor["bytes"], tensor["dtype"], tensor["half"]) for tensor in one["kept"]), spec
        assert sum_of(found.held) == one["totals"]["held_gradients"] and not found.stray, spec
        weights = sum(tensor["bytes"] for tensor in one["kept"] if tensor["half"] != "input")
        assert one["totals"]["kept_for_weights"] == weights
        assert all(place not in found.read_by_weight for place in found.released)
        if family in ("llama", "qwen3", "gpt_neox", "gemma2"):
            assert not found.released, "PyTorch's I releases what it did not before"
