"""A training step of a whole model on processes, as jobs for `ranks.Ranks`: what PyTorch's own trackers and the
engines' own tensors say each rank holds, in bytes."""
import dataclasses
import io

import torch
import torch.distributed as dist
from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker
from torch.distributed._tools.mem_tracker import MemTracker
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import parallelize_module

from kept_storages import Layer, configuration
from split_layers import llama_plan
from trainwright.engine.recorder import Recorder
from trainwright.engine.trace import TraceWriter

MICRO_BATCHES = 2


@dataclasses.dataclass(frozen=True)
class Held:
    """What one rank holds: standing bytes from the tensors themselves; `forward` and `peak` are the tracker's
    categories after the last forward pass and at the highest moment of the last step."""
    weights: int
    gradients: int
    states: int
    forward: dict[str, int]
    peak: dict[str, int]
    buckets: int = 0


def storage_bytes(tensors) -> int:
    """Of the distinct storages behind these tensors, of DTensors the local ones."""
    local = (one.to_local() if isinstance(one, DTensor) else one for one in tensors)
    return sum({one._cdata: one.nbytes() for one in (tensor.untyped_storage() for tensor in local)}.values())


def causal_model(spec: Layer) -> torch.nn.Module:
    from transformers import AutoModelForCausalLM

    config = configuration(spec)
    return AutoModelForCausalLM.from_config(config).to(spec.dtype).train()


def state_tensors(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """Without the counts of steps, one number per weight, which PyTorch keeps on the host."""
    return [value for state in optimizer.state.values() for value in state.values()
            if isinstance(value, torch.Tensor) and value.dim() > 0]


def categories(tracker: MemTracker, which: str) -> dict[str, int]:
    [snapshot] = tracker.get_tracker_snapshot(which).values()
    return {str(getattr(kind, "value", kind)): size for kind, size in snapshot.items()}


def train(model: torch.nn.Module, wrapped: torch.nn.Module, spec: Layer, tracker: MemTracker, buckets=lambda: 0) -> Held:
    """`wrapped` is called; `model` has the parameters. A first step makes the states, the tracker sees the second."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
    ids = torch.randint(0, model.config.vocab_size, (spec.batch, spec.sequence))

    def micro_batch(look=lambda: None) -> None:
        loss = wrapped(input_ids=ids, labels=ids, use_cache=False).loss
        look()
        loss.backward()

    for _ in range(MICRO_BATCHES):
        micro_batch()
    optimizer.step()
    optimizer.zero_grad()
    forward: dict[str, int] = {}
    tracker.track_external(model, optimizer, ids)
    with tracker:
        for _ in range(MICRO_BATCHES):
            tracker.reset_mod_stats()
            micro_batch(lambda: forward.update(categories(tracker, "current")))
    return Held(storage_bytes(model.parameters()), storage_bytes(one.grad for one in model.parameters()),
                storage_bytes(state_tensors(optimizer)), forward, categories(tracker, "peak"), buckets())


def fully_sharded(spec: Layer, shard: int, replicate: int, reshard: bool = True, root: bool = False) -> Held | None:
    """FSDP2, or HSDP when there are replicas: embedding, every layer, and norm with head are units; `root`: layers, and
    what is left is the root's."""
    if replicate > 1:
        mesh = DeviceMesh("cpu", torch.arange(shard * replicate).view(replicate, shard), mesh_dim_names=("replicate", "shard"))
    else:
        mesh = DeviceMesh("cpu", torch.arange(shard))
    if dist.get_rank() >= shard * replicate:
        return None
    model = causal_model(spec)
    units = [*model.model.layers]
    if not root:
        model.lm_head = torch.nn.Sequential(model.model.norm, model.lm_head)
        model.model.norm = torch.nn.Identity()
        units = [model.model.embed_tokens, *units, model.lm_head]
    for unit in units:
        fully_shard(unit, mesh=mesh, reshard_after_forward=reshard)
    fully_shard(model, mesh=mesh)
    return train(model, model, spec, FSDPMemTracker(model))


def replicated(spec: Layer, degree: int) -> Held | None:
    group = dist.new_group(list(range(degree)))
    if dist.get_rank() >= degree:
        return None
    model = causal_model(spec)
    wrapped = torch.nn.parallel.DistributedDataParallel(model, process_group=group)

    def buckets() -> int:
        return sum(int(one) for one in wrapped._get_ddp_logging_data()["rebuilt_bucket_sizes"].split(","))
    return train(model, wrapped, spec, MemTracker(), buckets)


def tensor_parallel(spec: Layer, degree: int) -> Held | None:
    """torchtitan's plan on every layer; embedding and head whole on every rank, as the profile says."""
    mesh = DeviceMesh("cpu", torch.arange(degree))
    if dist.get_rank() >= degree:
        return None
    model = causal_model(spec)
    for layer in model.model.layers:
        parallelize_module(layer, mesh, llama_plan(False))
    return train(model, model, spec, MemTracker())


class Stage(torch.nn.Module):
    """Consecutive layers of a model, with embedding or head at the ends; their parameters are those of the model."""

    def __init__(self, model: torch.nn.Module, index: int, stages: int):
        super().__init__()
        inner = model.model
        share = len(inner.layers) // stages
        self.embedding = inner.embed_tokens if index == 0 else None
        self.layers = inner.layers[index * share:(index + 1) * share]
        self.rotary = inner.rotary_emb
        self.head = torch.nn.Sequential(inner.norm, model.lm_head) if index == stages - 1 else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.embedding is not None:
            x = self.embedding(x)
        positions = torch.arange(x.shape[1]).unsqueeze(0)
        tables = self.rotary(x, positions)
        for layer in self.layers:
            x = layer(x, attention_mask=None, position_ids=positions, position_embeddings=tables)
        return x if self.head is None else self.head(x)


def pipeline(spec: Layer, stages: int, microbatches: int, schedule: str) -> Held | None:
    """torch.distributed.pipelining; `peak` has the recorder's total alone."""
    from torch.distributed import pipelining

    group = dist.new_group(list(range(stages)))
    rank = dist.get_rank()
    if rank >= stages:
        return None
    model = causal_model(spec)
    module = Stage(model, rank, stages)
    stage = pipelining.PipelineStage(module, rank, stages, torch.device("cpu"), group=group)
    vocabulary = model.config.vocab_size

    def loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return model.loss_function(logits=logits, labels=labels, vocab_size=vocabulary)

    runner = getattr(pipelining, schedule)(stage, microbatches, loss_fn=loss, scale_grads=False)
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3, foreach=False)
    generator = torch.Generator().manual_seed(3)
    ids = torch.randint(0, vocabulary, (microbatches * spec.batch, spec.sequence), generator=generator)
    inputs = (ids,) if rank == 0 else ()
    labels = {"target": ids} if rank == stages - 1 else {}
    runner.step(*inputs, **labels, return_outputs=False)
    optimizer.step()
    optimizer.zero_grad()
    writer = TraceWriter(io.StringIO(), "stage", "cpu")
    recorder = Recorder(writer, fake=False)
    received = [*stage.args_recv_info.values(), *stage.grad_recv_info.values()]
    buffers = [info.buffer for infos in received for info in infos if getattr(info, "buffer", None) is not None]
    recorder.exist(module, optimizer, inputs, labels, buffers)
    with recorder:
        runner.step(*inputs, **labels, return_outputs=False)
    gradients = storage_bytes(one.grad for one in module.parameters())
    scalars = sum(value.nbytes for state in optimizer.state.values() for value in state.values() if value.dim() == 0)
    return Held(storage_bytes(module.parameters()), gradients, storage_bytes(state_tensors(optimizer)), {},
                {"Total": writer.peak - scalars - sum(one.nbytes for one in module.buffers()), "Received": storage_bytes(buffers)})
