"""Layers split over processes, as jobs for `ranks.Ranks`: what each rank keeps for backward, and which
collectives it calls in the forward and in the backward pass, with their bytes."""
import dataclasses
import functools

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput, PrepareModuleOutput, RowwiseParallel,
                                               SequenceParallel, parallelize_module)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from kept_storages import Kept, Layer, Watch, build_layer

# What the list calls a collective, by the name of its op.
KINDS = {"all_reduce": "all-reduce", "allreduce_": "all-reduce", "all_gather_into_tensor": "all-gather",
         "_allgather_base_": "all-gather", "reduce_scatter_tensor": "reduce-scatter", "_reduce_scatter_base_": "reduce-scatter",
         "all_to_all_single": "all-to-all", "alltoall_base_": "all-to-all", "send": "ring"}


# FSDP2's copies from the buffer of a gather to its weights, and from gradients to the one that is reduced.
COPIES = ("split_with_sizes_copy", "chunk_cat")


@dataclasses.dataclass(frozen=True)
class Call:
    """One collective, bytes of the larger side on this rank; or one copy of FSDP2, bytes read and written."""
    kind: str
    backward: bool
    size: int
    dtype: torch.dtype


class Calls(TorchDispatchMode):
    """Collects the collectives, and FSDP2's copies, called while it is entered."""

    def __init__(self):
        super().__init__()
        self.calls: list[Call] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if DTensor in types:
            return NotImplemented
        results = function(*args, **(kwargs or {}))
        if function.namespace in ("_c10d_functional", "c10d", "_c10d_functional_autograd"):
            name = function._schema.name.partition("::")[2]
            if name in KINDS:
                tensors = [leaf for leaf in tree_leaves((args, results)) if isinstance(leaf, torch.Tensor)]
                backward = torch._C._current_graph_task_id() != -1
                self.calls.append(Call(KINDS[name], backward, max(one.nbytes for one in tensors), tensors[0].dtype))
        if function.namespace == "fsdp" and function._schema.name.partition("::")[2] in COPIES:
            tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
            self.calls.append(Call("copy", torch._C._current_graph_task_id() != -1, sum(one.nbytes for one in tensors), tensors[0].dtype))
        return results


def llama_plan(sequence_parallel: bool) -> dict:
    """The plan of torchtitan for a Llama block, on the names of transformers."""
    outside = Shard(1) if sequence_parallel else Replicate()
    plan = {
        "self_attn": PrepareModuleInput(input_kwarg_layouts={"hidden_states": outside},
                                        desired_input_kwarg_layouts={"hidden_states": Replicate()}),
        "self_attn.q_proj": ColwiseParallel(),
        "self_attn.k_proj": ColwiseParallel(),
        "self_attn.v_proj": ColwiseParallel(),
        "self_attn.o_proj": RowwiseParallel(output_layouts=outside),
        "mlp": PrepareModuleInput(input_layouts=(outside,), desired_input_layouts=(Replicate(),)),
        "mlp.gate_proj": ColwiseParallel(),
        "mlp.up_proj": ColwiseParallel(),
        "mlp.down_proj": RowwiseParallel(output_layouts=outside),
    }
    if sequence_parallel:
        norm = SequenceParallel(use_local_output=True)
        plan |= {"input_layernorm": norm, "post_attention_layernorm": norm}
    return plan


def tensor_parallel_layer(spec: Layer, degree: int, sequence_parallel: bool):
    """Runs forward and backward; (kept storages, collectives), or None on ranks that take no part."""
    mesh = DeviceMesh("cpu", torch.arange(degree))
    if dist.get_rank() >= degree:
        return None
    layer, x, args, kwargs = build_layer(spec)
    parallelize_module(layer, mesh, llama_plan(sequence_parallel))
    if sequence_parallel:
        x = x.chunk(degree, dim=1)[mesh.get_local_rank()].contiguous()
    return run_layer(layer, x, args, kwargs)


def run_layer(layer, x, args, kwargs) -> tuple[list[Kept], list[Call]]:
    """Forward and backward of a layer that is split already."""
    calls = Calls()
    with Watch(layer, x, args, kwargs) as watch, calls:
        def forward():
            output = layer(watch.input(x), *args, **kwargs)
            return [output[0] if isinstance(output, tuple) else output]
        outputs = forward()
        shape, dtype = outputs[0].shape, outputs[0].dtype
        kept = watch.kept(outputs.pop())
        watch.backward(torch.ones(shape, dtype=dtype))
    return kept, calls.calls


def sharded_layer(spec: Layer, shard: int, replicate: int):
    """FSDP2, or HSDP when there are replicas, around one layer."""
    from torch.distributed.fsdp import fully_shard

    if replicate > 1:
        mesh = DeviceMesh("cpu", torch.arange(shard * replicate).view(replicate, shard), mesh_dim_names=("replicate", "shard"))
    else:
        mesh = DeviceMesh("cpu", torch.arange(shard))
    if dist.get_rank() >= shard * replicate:
        return None
    layer, x, args, kwargs = build_layer(spec)
    fully_shard(layer, mesh=mesh, reshard_after_forward=True)
    return run_layer(layer, x, args, kwargs)


def _difference(found: torch.Tensor, expected: torch.Tensor) -> float:
    return ((found - expected).abs().max() / expected.abs().max()).item()


def context_parallel_layer(spec: Layer, degree: int, kind: str):
    """A layer whose sequence is cut; (kept, collectives, largest difference of output and gradients to the unsplit
    layer). The weights' gradients are summed over the ranks first."""
    from transformers import AttentionInterface

    import split_attention

    group = dist.new_group(list(range(degree)))
    if dist.get_rank() >= degree:
        return None
    layer, x, args, kwargs = build_layer(spec)
    whole = x.clone().requires_grad_()
    expected = layer(whole, *args, **kwargs)
    expected = expected[0] if isinstance(expected, tuple) else expected
    gradient = torch.randn(expected.shape, generator=torch.Generator().manual_seed(2)).to(x.dtype)
    expected.backward(gradient)
    wanted = [parameter.grad.clone() for parameter in layer.parameters()]
    layer.zero_grad()
    mine = functools.partial(_chunk, degree=degree, rank=dist.get_rank())
    kwargs["position_embeddings"] = tuple(mine(table) for table in kwargs["position_embeddings"])
    kwargs["position_ids"] = mine(kwargs["position_ids"])
    AttentionInterface.register("split", functools.partial(getattr(split_attention, f"{kind}_attention"), group=group))
    layer.self_attn.config._attn_implementation = "split"
    part = mine(x).clone().requires_grad_()
    found = layer(part, *args, **kwargs)
    found = found[0] if isinstance(found, tuple) else found
    found.backward(mine(gradient))
    differences = [_difference(found, mine(expected)), _difference(part.grad, mine(whole.grad))]
    for parameter, one in zip(layer.parameters(), wanted):
        dist.all_reduce(parameter.grad, group=group)
        differences.append(_difference(parameter.grad, one))
    layer.zero_grad()
    kept, calls = run_layer(layer, mine(x), args, kwargs)
    return kept, calls, max(differences)


def _chunk(x: torch.Tensor, degree: int, rank: int) -> torch.Tensor:
    return x.chunk(degree, dim=1)[rank].contiguous()
