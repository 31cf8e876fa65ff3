"""A mixture of experts over processes: the layer of Mixtral with its experts dealt out and its tokens sent to them
by `all_to_all_single`. A steering term makes the router's choice even, as the operator list takes it to be."""
import torch
import torch.distributed as dist
import torch.nn.functional as F

from kept_storages import Layer, build_layer
from split_layers import llama_plan, run_layer


class Exchange(torch.autograd.Function):
    """Rows to the ranks that need them; backward they come back."""

    @staticmethod
    def forward(context, x, received, sent, group):
        context.sizes, context.group = (received, sent), group
        result = x.new_empty(sum(received), x.shape[1])
        dist.all_to_all_single(result, x, received, sent, group=group)
        return result

    @staticmethod
    def backward(context, gradient):
        received, sent = context.sizes
        return Exchange.apply(gradient.contiguous(), sent, received, context.group), None, None, None


class SteeredRouter(torch.nn.Module):
    """Mixtral's router with a term that prefers experts in turn, so that all get as many tokens."""

    def __init__(self, router: torch.nn.Module):
        super().__init__()
        self.weight, self.top_k, self.num_experts = router.weight, router.top_k, router.num_experts

    def forward(self, x):
        logits = F.linear(x, self.weight)
        places = torch.arange(len(x)).unsqueeze(1) * self.top_k + torch.arange(self.top_k)
        steering = torch.zeros_like(logits).scatter_(1, places % self.num_experts, 8.0)
        probabilities = F.softmax((logits + steering).float(), dim=-1)
        values, indices = torch.topk(probabilities, self.top_k, dim=-1)
        values /= values.sum(dim=-1, keepdim=True)
        return logits, values, indices


def _sorted_by_expert(counts: torch.Tensor) -> torch.Tensor:
    """Received rows lie by rank and then by expert; their order by expert. `counts`: ranks x experts."""
    expert = torch.arange(counts.shape[1]).repeat(counts.shape[0]).repeat_interleave(counts.reshape(-1))
    return torch.argsort(expert, stable=True)


def spread_experts(experts: torch.nn.Module, group):
    """The forward function of a rank that holds a part of the experts."""
    world, local = dist.get_world_size(group), experts.gate_up_proj.shape[0]

    def forward(x, chosen, scores):
        per_token = chosen.shape[1]
        expert, order = torch.sort(chosen.reshape(-1))
        rows = x[order // per_token]
        scores = scores.reshape(-1)[order]
        counts = torch.bincount(expert, minlength=world * local)
        theirs = torch.empty_like(counts)
        dist.all_to_all_single(theirs, counts, group=group)
        theirs = theirs.view(world, local)
        received, sent = theirs.sum(1).tolist(), counts.view(world, local).sum(1).tolist()
        rows = Exchange.apply(rows, received, sent, group)
        by_expert = _sorted_by_expert(theirs)
        rows = rows[by_expert]
        offsets = theirs.sum(0).cumsum(0).to(torch.int32)
        both = F.grouped_mm(rows, experts.gate_up_proj.transpose(-2, -1), offs=offsets)
        gate, up = both.chunk(2, dim=-1)
        rows = F.grouped_mm(experts.act_fn(gate) * up, experts.down_proj.transpose(-2, -1), offs=offsets)
        rows = Exchange.apply(rows[torch.argsort(by_expert)], sent, received, group)
        rows = (rows * scores.unsqueeze(-1))[torch.argsort(order)]
        return rows.view(len(x), per_token, -1).sum(1).to(x.dtype)

    return forward


def expert_parallel_layer(spec: Layer, degree: int):
    """(kept, collectives, largest difference of the output to that of the unsplit layer); every rank has tokens
    of its own."""
    group = dist.new_group(list(range(degree)))
    rank = dist.get_rank()
    if rank >= degree:
        return None
    layer, x, args, kwargs = build_layer(spec)
    x = torch.roll(x, rank, dims=1)
    layer.mlp.gate = SteeredRouter(layer.mlp.gate)
    with torch.no_grad():
        expected = layer(x, *args, **kwargs)
    experts = layer.mlp.experts
    for name in ("gate_up_proj", "down_proj"):
        part = getattr(experts, name).detach().chunk(degree)[rank].clone()
        setattr(experts, name, torch.nn.Parameter(part))
    experts.forward = spread_experts(experts, group)
    with torch.no_grad():
        found = layer(x, *args, **kwargs)
    difference = ((found - expected).abs().max() / expected.abs().max()).item()
    return *run_layer(layer, x, args, kwargs), difference


def cut_experts(experts: torch.nn.Module, degree: int, rank: int) -> None:
    """Keeps a rank's columns of gate and up and its rows of down, of every expert."""
    gate, up = experts.gate_up_proj.detach().chunk(2, dim=1)
    parts = [whole.chunk(degree, dim=1)[rank] for whole in (gate, up)]
    experts.gate_up_proj = torch.nn.Parameter(torch.cat(parts, dim=1))
    experts.down_proj = torch.nn.Parameter(experts.down_proj.detach().chunk(degree, dim=2)[rank].contiguous())


def tensor_parallel_layer(spec: Layer, degree: int):
    """As `expert_parallel_layer`, with the attention and every expert cut over the ranks, which all see the same
    tokens. The sums are transformers' own (distributed/tensor_parallel.py, MoeExpertsParallel)."""
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor.parallel import parallelize_module
    from transformers.distributed.parallel_utils import _AllReduceBackward, _AllReduceForward

    mesh = DeviceMesh("cpu", torch.arange(degree))
    if dist.get_rank() >= degree:
        return None
    group = mesh.get_group()
    layer, x, args, kwargs = build_layer(spec)
    layer.mlp.gate = SteeredRouter(layer.mlp.gate)
    with torch.no_grad():
        expected = layer(x, *args, **kwargs)
    parallelize_module(layer, mesh, {name: how for name, how in llama_plan(False).items() if not name.startswith("mlp")})
    experts = layer.mlp.experts
    cut_experts(experts, degree, mesh.get_local_rank())
    whole = experts.forward

    def forward(states, chosen, scores):
        states, scores = _AllReduceBackward.apply(states, group), _AllReduceBackward.apply(scores, group)
        return _AllReduceForward.apply(whole(states, chosen, scores), group)

    experts.forward = forward
    with torch.no_grad():
        found = layer(x, *args, **kwargs)
    difference = ((found - expected).abs().max() / expected.abs().max()).item()
    return *run_layer(layer, x, args, kwargs), difference
