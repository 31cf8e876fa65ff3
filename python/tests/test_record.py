"""The recorder against PyTorch's MemTracker, the process's allocator and the program's replay, to the byte.

Every model is run for three steps; a run's first n steps are the program of n steps, so each run is
three programs. tools/soak/record_check.py runs every combination.
"""
import doctest
import functools
import importlib
import itertools
import json

import programs
import pytest
import torch
from programs import SIZES, counted, memtracker, memtracker_faults, recorded, replay_faults, replayed, small

import trainwright
from trainwright.engine.causal_lm import CHECKPOINTING, OPTIMIZERS, build

ADAMW_AND_SGD = tuple(name for name in OPTIMIZERS if name != "none")
# Every model with every checkpointing, the optimizers in turn.
REAL = [(kind, how, ADAMW_AND_SGD[(row + column) % 4])
        for (row, kind), (column, how) in itertools.product(enumerate(SIZES), enumerate(CHECKPOINTING))]
FAKE = REAL[::3]
STEPS = 3


def test_the_example_in_the_docstring_is_true():
    assert doctest.testmod(importlib.import_module("trainwright.engine.record")) == (0, 5)


@functools.cache
def counted_real(kind, how, optimizer):
    return counted(recorded(small(kind, how), optimizer, STEPS, fake=False))


@pytest.mark.parametrize("kind,how,optimizer", REAL)
def test_real_tensors_count_as_memtracker_counts(kind, how, optimizer):
    theirs = memtracker(small(kind, how), optimizer, STEPS, fake=False)
    assert memtracker_faults(theirs, counted_real(kind, how, optimizer), how == "reentrant") == []


@pytest.mark.parametrize("kind,how,optimizer", FAKE)
def test_fake_tensors_count_as_memtracker_and_as_real_ones_do(kind, how, optimizer):
    spec = small(kind, how)
    ours = counted(recorded(spec, optimizer, 2, fake=True))
    assert memtracker_faults(memtracker(spec, optimizer, 2, fake=True), ours, how == "reentrant") == []
    assert ours == counted_real(kind, how, optimizer)[:2]


@pytest.mark.parametrize("kind", ["llama", "gpt_neox"])
def test_the_allocator_sides_with_the_recorder_where_memtracker_differs(kind):
    """Reentrant checkpointing: MemTracker's hooks form cycles with autograd's nodes, which keep what
    the checkpointed call was given. Unwatched, the process holds after each step what we count;
    watched, it really holds what MemTracker counts."""
    spec = small(kind, "reentrant")
    ours = [step["live"] for step in counted(recorded(spec, "sgd", STEPS, fake=False))]
    theirs = [step["live"] for step in memtracker(spec, "sgd", STEPS, fake=False)]
    assert programs.allocator_live(spec, "sgd", STEPS, watched=False) == ours
    assert all(their > our for their, our in zip(theirs, ours))
    assert programs.allocator_live(spec, "sgd", STEPS, watched=True) == theirs


def test_without_checkpointing_the_allocator_holds_what_is_counted():
    for kind in SIZES:
        spec = small(kind)
        ours = [step["live"] for step in counted(recorded(spec, "adamw", 2, fake=False))]
        assert programs.allocator_live(spec, "adamw", 2, watched=False) == ours, kind


@pytest.mark.skipif(not programs.program(), reason="no program that replays in TRAINWRIGHT_BINARY")
@pytest.mark.parametrize("kind,how,optimizer", REAL[::5] + [("llama", "none", "adamw-foreach")])
def test_the_program_replays_a_trace_to_the_same_bytes(kind, how, optimizer, tmp_path):
    path = str(tmp_path / "trace.jsonl")
    recording = recorded(small(kind, how), optimizer, 2, fake=False, path=path)
    assert replay_faults(recording, replayed(path)) == []


def test_with_sdpa_transformers_reads_the_masks_values_so_fake_differs():
    """A real mask that is all ones is left out, and attention gets `is_causal`; a fake one has no
    values to look at, so the mask is built. Each equals MemTracker in its own mode."""
    spec = small("llama", attention="sdpa")
    real, fake = (counted(recorded(spec, "sgd", 1, fake=mode)) for mode in (False, True))
    assert memtracker_faults(memtracker(spec, "sgd", 1, fake=False), real, False) == []
    assert memtracker_faults(memtracker(spec, "sgd", 1, fake=True), fake, False) == []
    assert fake[0]["peak"] > real[0]["peak"]


def events_of(text: str) -> tuple[list[str], list[list[int]]]:
    values = [json.loads(line) for line in text.splitlines()]
    return [value for value in values if isinstance(value, str)], [value for value in values if isinstance(value, list)]


def test_views_and_in_place_ops_make_nothing_and_storages_die_once():
    def program(x):
        y = x * 2
        y.add_(1)
        return y.view(-1)[:4].sum()

    recording = trainwright.record(program, (torch.ones(4, 4),))
    texts, events = events_of(recording.text)
    ops = [(texts[event[1]], *_lists(event)) for event in events if event[0] == 0]
    # x is storage 0 (64 bytes), y 1 (64 bytes), the sum 2 (4 bytes).
    assert ops == [("aten.mul.Tensor", [0], [], [1, 64, 4]), ("aten.add_.Tensor", [], [1], []),
                   ("aten.view.default", [1], [], []), ("aten.slice.Tensor", [1], [], []), ("aten.sum.default", [1], [], [2, 4, 4])]
    assert [number for event in events if event[0] == 1 for number in event[1:]] == [1, 2]
    assert recording.peak == 64 + 64 + 4


def _lists(event: list[int]) -> tuple[list[int], list[int], list[int]]:
    reads = event[4]
    writes = event[5 + reads]
    return event[5:5 + reads], event[6 + reads:6 + reads + writes], event[7 + reads + writes:]


def test_resizing_a_storage_directly_is_seen():
    tensor = torch.ones(256)

    def program(x):
        x.untyped_storage().resize_(0)
        x.untyped_storage().resize_(2048)

    recording = trainwright.record(program, (tensor,))
    assert [event for event in events_of(recording.text)[1] if event[0] == 3] == [[3, 0, 0], [3, 0, 2048]]
    assert recording.after_step[0].live == 2048


def test_meta_tensors_beside_real_ones_have_no_memory():
    recording = trainwright.record(lambda x: (torch.empty(1000, device="meta") * 2).sum().new_zeros((), device="cpu") + x.sum(),
                                   (torch.ones(4),))
    assert recording.peak <= 16 + 3 * 4


def test_ops_carry_their_module_and_phase():
    model, inputs = build(small("llama", "non-reentrant"), fake=True)
    texts, events = events_of(trainwright.record(model, inputs, torch.optim.SGD).text)
    where = {(event[2], texts[event[3]] if event[3] >= 0 else None) for event in events if event[0] == 0}
    layer = "LlamaForCausalLM.model.layers.1.mlp.down_proj"
    assert {(0, layer), (1, layer), (2, layer)} <= where  # forward, backward, recompute
    assert (3, None) in where


def test_the_command_writes_a_trace_of_a_large_fake_model(tmp_path):
    from trainwright.engine.__main__ import main

    path = tmp_path / "trace.jsonl"
    # One layer with the widths of Llama 70B, whose weights alone would be 5.6 GB with the embeddings.
    sizes = ["hidden_size=8192", "intermediate_size=28672", "num_attention_heads=64", "num_key_value_heads=8",
             "num_hidden_layers=1", "vocab_size=128256"]
    options = [part for size in sizes for part in ("--set", size)]
    assert main(["record", "llama", *options, "--dtype", "bfloat16", "--sequence", "4096", "--output", str(path)]) == 0
    header = json.loads(path.read_text().splitlines()[0])
    assert header["trainwright_trace"] == 1 and header["program"].startswith("llama")
