"""A small Llama of `transformers`, cut into stages: embedding in the first, norm and head in the last."""
import torch
from torch import nn
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRMSNorm, LlamaRotaryEmbedding

from .sleeping import SleepW, SleepX


def llama_config(width: int, heads: int, vocabulary: int, layers: int) -> LlamaConfig:
    """Half as many key and value heads as heads, an MLP of 2.75 times the width."""
    config = LlamaConfig(
        hidden_size=width, intermediate_size=11 * width // 4, num_attention_heads=heads, num_key_value_heads=max(1, heads // 2),
        num_hidden_layers=layers, vocab_size=vocabulary, use_cache=False)
    config._attn_implementation = "eager"
    return config


class LlamaStage(nn.Module):
    """`layers` decoder layers. With `seconds` (F, I, W) the stage also sleeps that long in each, so
    that its time is little disturbed by other processes of the same host."""

    def __init__(self, config: LlamaConfig, layers: int, first: bool, last: bool, seconds: tuple[float, float, float] | None):
        super().__init__()
        self.seconds = seconds
        self.embedding = nn.Embedding(config.vocab_size, config.hidden_size) if first else None
        self.layers = nn.ModuleList(LlamaDecoderLayer(config, layer) for layer in range(layers))
        self.rotary = LlamaRotaryEmbedding(config)
        self.norm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps) if last else None
        self.head = nn.Linear(config.hidden_size, config.vocab_size, bias=False) if last else None
        self.time_weight = nn.Parameter(torch.zeros(1)) if seconds else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = x if self.embedding is None else self.embedding(x)
        if self.seconds:
            hidden = SleepX.apply(hidden, self.seconds[0], self.seconds[1])
        length = hidden.shape[1]
        mask = torch.full((1, 1, length, length), torch.finfo(hidden.dtype).min, dtype=hidden.dtype, device=hidden.device).triu(1)
        positions = self.rotary(hidden, torch.arange(length, device=hidden.device)[None])
        for layer in self.layers:
            hidden = layer(hidden, attention_mask=mask, position_embeddings=positions)
        if self.seconds:
            hidden = hidden + SleepW.apply(self.time_weight, self.seconds[2])
        return hidden if self.norm is None or self.head is None else self.head(self.norm(hidden))


def token_loss(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
