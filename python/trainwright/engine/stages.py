"""The models that schedules are run with, cut into stages.

`block`: each stage is a few pre-norm transformer blocks (layer norm, one attention head, a GELU
layer, residual adds) in float64, so that a pipelined and an unpipelined gradient can be compared to
twelve digits. A stage ends with a residual add, because the engine's input gradient detaches the
output in place and cannot do that to a view (a Linear on a 3-D tensor returns one).

`sleep`: each stage sleeps for given seconds in its forward, its input gradient and its weight
gradient, which the engine's I and W then separate. A step's time is the schedule's then, whatever
the number of cores. On stage 0 the engine's I does nothing and its W does both.

`llama`: each stage is a few decoder layers of a small Llama of `transformers` in float32, the first
with the embedding, the last with norm and head (llama_stages.py); with `seconds` it sleeps as well.
"""
import dataclasses

import torch
from torch import nn

from .sleeping import SleepW, SleepX

KINDS = ("block", "sleep", "llama")


@dataclasses.dataclass(frozen=True)
class ModelSpec:
    """Which model to cut. Lists are per stage and are repeated when there are more stages.

    `layers`: blocks in a stage (uneven stages: 1, 2, 1, ...). `seconds`: F, I, W of a sleeping
    stage; none: a `sleep` takes 40 ms each, others do not sleep. A micro-batch is `microbatch_size` x
    `sequence` x `width` numbers. `heads` and `vocabulary` are those of `llama`.
    """
    kind: str = "block"
    layers: tuple[int, ...] = (1,)
    seconds: tuple[tuple[float, float, float], ...] = ()
    width: int = 16
    sequence: int = 4
    microbatch_size: int = 2
    heads: int = 2
    vocabulary: int = 64
    seed: int = 1

    @property
    def dtype(self) -> torch.dtype:
        return torch.float32 if self.kind == "llama" else torch.float64

    @property
    def tolerance(self) -> float:
        """What is left of a gradient's digits after summing micro-batches in another order."""
        return 1e-4 if self.kind == "llama" else 1e-12

    def seconds_of(self, stage: int) -> tuple[float, float, float] | None:
        seconds = self.seconds or (((0.04, 0.04, 0.04),) if self.kind == "sleep" else ())
        return seconds[stage % len(seconds)] if seconds else None


def model_spec(fields: dict) -> ModelSpec:
    """From JSON; a name that ModelSpec does not have is an error."""
    fields = dict(fields)
    if "layers" in fields:
        fields["layers"] = tuple(fields["layers"])
    if "seconds" in fields:
        fields["seconds"] = tuple(tuple(stage) for stage in fields["seconds"])
    spec = ModelSpec(**fields)
    if spec.kind not in KINDS:
        raise ValueError(f"model kind '{spec.kind}': there are {', '.join(KINDS)}")
    return spec


class Block(nn.Module):
    """x + attention(norm(x)), then x + MLP(norm(x))."""

    def __init__(self, width: int):
        super().__init__()
        self.norm_attention = nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.norm_mlp = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = self.query_key_value(self.norm_attention(x)).chunk(3, dim=-1)
        scores = query @ key.transpose(-1, -2) / x.shape[-1] ** 0.5
        x = x + self.project(torch.softmax(scores, dim=-1) @ value)
        return x + self.down(nn.functional.gelu(self.up(self.norm_mlp(x))))


class SleepStage(nn.Module):
    """`first`: the batch itself needs no gradient, so autograd would skip the input's path of stage
    0 altogether. Real first stages have an embedding below their layers; a weight stands for it."""

    def __init__(self, width: int, seconds: tuple[float, float, float], first: bool):
        super().__init__()
        self.seconds = seconds
        self.weight = nn.Parameter(torch.zeros(width))
        self.embedding = nn.Parameter(torch.zeros(width)) if first else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        forward_seconds, input_seconds, weight_seconds = self.seconds
        x = x if self.embedding is None else x + self.embedding
        return SleepX.apply(x, forward_seconds, input_seconds) + SleepW.apply(self.weight, weight_seconds)


def build_stage(spec: ModelSpec, stage: int, device: torch.device | str = "cpu", stages: int = 0) -> nn.Module:
    """Stage number `stage` of `stages` (a block and a sleep need not know); its weights depend on the
    seed and the stage alone, so any rank can build any stage and gets the same."""
    layers = spec.layers[stage % len(spec.layers)]
    seconds = spec.seconds_of(stage)
    if spec.kind == "sleep":
        assert seconds is not None
        module: nn.Module = SleepStage(spec.width, seconds, stage == 0)
    elif spec.kind == "llama":
        from .llama_stages import LlamaStage, llama_config
        config = llama_config(spec.width, spec.heads, spec.vocabulary, layers)
        module = LlamaStage(config, layers, stage == 0, stage == stages - 1, seconds)
    else:
        module = nn.Sequential(*(Block(spec.width) for _ in range(layers)))
    generator = torch.Generator().manual_seed(spec.seed * 100_003 + stage)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.data = torch.randn(parameter.shape, generator=generator, dtype=torch.float64).to(spec.dtype) * 0.3
    return module.to(device)


def boundary_example(spec: ModelSpec, boundary: int, stages: int) -> torch.Tensor:
    """Shape and type of what goes into stage number `boundary`, or, at `stages`, out of the last."""
    shape: tuple[int, ...]
    shape, dtype = (spec.microbatch_size, spec.sequence, spec.width), spec.dtype
    if spec.kind == "llama" and boundary == 0:
        shape, dtype = shape[:2], torch.int64
    elif spec.kind == "llama" and boundary == stages:
        shape = (*shape[:2], spec.vocabulary)
    return torch.empty(shape, dtype=dtype, device="meta")


def batch(spec: ModelSpec, microbatches: int, device: torch.device | str = "cpu") -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs and targets of one whole step, the micro-batches one after the other."""
    generator = torch.Generator().manual_seed(spec.seed)
    shape = (microbatches * spec.microbatch_size, spec.sequence, spec.width)
    if spec.kind == "llama":
        inputs, targets = (torch.randint(0, spec.vocabulary, shape[:2], generator=generator) for _ in range(2))
    else:
        inputs, targets = (torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(2))
    return inputs.to(device), targets.to(device)


def mean_squared_loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """A mean, so that the engine's division by the number of micro-batches makes it the batch's."""
    return ((output - target) ** 2).mean()


def loss_of(spec: ModelSpec):
    if spec.kind == "llama":
        from .llama_stages import token_loss
        return token_loss
    return mean_squared_loss


@dataclasses.dataclass(frozen=True)
class Reference:
    """What one process gets that runs all stages on the whole batch at once."""
    loss: float
    gradients: tuple[tuple[torch.Tensor, ...], ...]  # of each stage, in the order of parameters()


def unpipelined(spec: ModelSpec, stages: int, microbatches: int, device: torch.device | str = "cpu") -> Reference:
    """Loss and gradients without a pipeline. A sleeping model computes the same without sleeping."""
    if spec.seconds or spec.kind == "sleep":
        spec = dataclasses.replace(spec, seconds=((0.0, 0.0, 0.0),))
    modules = [build_stage(spec, stage, device, stages) for stage in range(stages)]
    inputs, targets = batch(spec, microbatches, device)
    loss = loss_of(spec)(nn.Sequential(*modules)(inputs), targets)
    loss.backward()
    gradients = tuple(tuple(parameter.grad for parameter in module.parameters()) for module in modules)
    return Reference(loss.item(), gradients)
