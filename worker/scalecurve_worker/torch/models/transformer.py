"""Decoder transformers in the shapes of GPT-2, Llama and mixtures of experts: token numbers in, next-token logits out.

GPT-2: A. Radford et al., "Language models are unsupervised multitask learners", 2019. Llama: H. Touvron et al.,
arXiv:2302.13971, and the Llama 3 herd, arXiv:2407.21783; rotary positions J. Su et al., arXiv:2104.09864; grouped
queries J. Ainslie et al., arXiv:2305.13245; SwiGLU N. Shazeer, arXiv:2002.05202.
"""

from collections.abc import Callable
from functools import partial
from math import sqrt
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from scalecurve_worker.torch.models.layers import gaussian
from scalecurve_worker.torch.models.mixture import Experts, MixtureOfExperts
from scalecurve_worker.training.models import ModelError

STD = 0.02


class GPT2Size(NamedTuple):
    """Layers, width and heads."""

    layers: int
    width: int
    heads: int


class LlamaSize(NamedTuple):
    """Layers, width, query heads, key and value heads, width of the feed-forward layer, shared embedding or not.

    With ``experts`` above 1, of which ``active`` have each token, these are the feed-forward layers.
    """

    layers: int
    width: int
    heads: int
    kv_heads: int
    feed_forward: int
    tied: bool
    theta: float = 500_000.0
    experts: int = 1
    active: int = 1


class GPT2Block(nn.Module):
    """x + attention(norm(x)), then x + feed-forward(norm(x)), all with biases."""

    def __init__(self, size: GPT2Size, dropout: float) -> None:
        super().__init__()
        self.attend: Callable[..., Tensor] = F.scaled_dot_product_attention
        self.heads = size.heads
        self.dropout = dropout
        self.norm_attention = nn.LayerNorm(size.width)
        self.qkv = nn.Linear(size.width, 3 * size.width)
        self.attention_out = nn.Linear(size.width, size.width)
        self.norm_feed_forward = nn.LayerNorm(size.width)
        self.up = nn.Linear(size.width, 4 * size.width)
        self.down = nn.Linear(4 * size.width, size.width)

    def _attention(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        query, key, value = self.qkv(x).view(batch, length, 3, self.heads, -1).transpose(1, 3).unbind(2)
        dropout = self.dropout if self.training else 0.0
        mixed = self.attend(query, key, value, dropout_p=dropout, is_causal=True)
        out: Tensor = self.attention_out(mixed.transpose(1, 2).flatten(2))
        return out

    def forward(self, x: Tensor) -> Tensor:
        x = x + F.dropout(self._attention(self.norm_attention(x)), self.dropout, self.training)
        hidden = F.gelu(self.up(self.norm_feed_forward(x)), approximate="tanh")
        return x + F.dropout(self.down(hidden), self.dropout, self.training)


def _initialize(model: nn.Module, layers: int) -> None:
    """N(0, 0.02²), biases zero; layers that end one of the ``2 * layers`` residual branches by 1 / sqrt of these."""
    gaussian(model, STD)
    ends = STD / sqrt(2 * layers)
    for module in model.modules():
        if isinstance(module, Experts):
            nn.init.normal_(module.gate, std=STD)
            nn.init.normal_(module.up, std=STD)
            nn.init.normal_(module.down, std=ends)
        elif isinstance(module, GPT2Block | LlamaBlock):
            nn.init.normal_(module.attention_out.weight, std=ends)
            if isinstance(module, GPT2Block) or module.mixture is None:
                nn.init.normal_(module.down.weight, std=ends)


class GPT2(nn.Module):
    """GPT-2 with learnt positions and the output layer tied to the embedding.

    ``context`` is the longest sequence. ``dropout`` is 0 unless asked for, as in today's pre-training.
    """

    def __init__(self, size: GPT2Size, *, vocabulary: int, context: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.size = size
        self.dropout = dropout
        self.tokens = nn.Embedding(vocabulary, size.width)
        self.positions = nn.Embedding(context, size.width)
        self.blocks = nn.Sequential(*(GPT2Block(size, dropout) for _ in range(size.layers)))
        self.norm = nn.LayerNorm(size.width)
        _initialize(self, size.layers)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        x = self.blocks(F.dropout(x, self.dropout, self.training))
        return F.linear(self.norm(x), self.tokens.weight)


def rotary_tables(length: int, head_width: int, theta: float, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return cosines and sines (length, head_width / 2) of position times theta^(-2i / head_width), fp32."""
    exponents = torch.arange(0, head_width, 2, device=device, dtype=torch.float32) / head_width
    angles = torch.outer(torch.arange(length, device=device, dtype=torch.float32), theta**-exponents)
    return angles.cos(), angles.sin()


def rotate(x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """Turn each pair (x[i], x[i + half]) of (batch, heads, length, head_width) by its angle."""
    first, second = x.float().chunk(2, dim=-1)
    turned = torch.cat([first * cosines - second * sines, second * cosines + first * sines], dim=-1)
    return turned.type_as(x)


class LlamaBlock(nn.Module):
    """x + attention(norm(x)), then x + feed-forward(norm(x)), without biases."""

    def __init__(self, size: LlamaSize) -> None:
        super().__init__()
        self.attend: Callable[..., Tensor] = F.scaled_dot_product_attention
        self.head_width = head_width = size.width // size.heads
        self.grouped = size.kv_heads != size.heads
        self.norm_attention = nn.RMSNorm(size.width, eps=1e-5)
        self.query = nn.Linear(size.width, size.heads * head_width, bias=False)
        self.key = nn.Linear(size.width, size.kv_heads * head_width, bias=False)
        self.value = nn.Linear(size.width, size.kv_heads * head_width, bias=False)
        self.attention_out = nn.Linear(size.heads * head_width, size.width, bias=False)
        self.norm_feed_forward = nn.RMSNorm(size.width, eps=1e-5)
        self.mixture: MixtureOfExperts | None = None
        if size.experts > 1:
            self.mixture = MixtureOfExperts(size.width, size.feed_forward, size.experts, size.active)
            return
        self.gate = nn.Linear(size.width, size.feed_forward, bias=False)
        self.up = nn.Linear(size.width, size.feed_forward, bias=False)
        self.down = nn.Linear(size.feed_forward, size.width, bias=False)

    def _heads(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        return x.view(batch, length, -1, self.head_width).transpose(1, 2)

    def _attention(self, x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
        query = rotate(self._heads(self.query(x)), cosines, sines)
        key = rotate(self._heads(self.key(x)), cosines, sines)
        value = self._heads(self.value(x))
        mixed = self.attend(query, key, value, is_causal=True, enable_gqa=self.grouped)
        out: Tensor = self.attention_out(mixed.transpose(1, 2).flatten(2))
        return out

    def forward(self, x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
        x = x + self._attention(self.norm_attention(x), cosines, sines)
        return x + self._feed_forward(self.norm_feed_forward(x))

    def _feed_forward(self, x: Tensor) -> Tensor:
        mixture = self.mixture
        out: Tensor = self.down(F.silu(self.gate(x)) * self.up(x)) if mixture is None else mixture(x)
        return out


class Llama(nn.Module):
    """Llama: rotary positions, RMS normalization, SwiGLU, grouped key and value heads.

    The rotary tables are made in each forward pass, not kept as buffers: DDP would send them to every worker in
    each step, and making them costs a few small kernels.
    """

    def __init__(self, size: LlamaSize, *, vocabulary: int) -> None:
        super().__init__()
        self.size = size
        self.tokens = nn.Embedding(vocabulary, size.width)
        self.blocks = nn.ModuleList(LlamaBlock(size) for _ in range(size.layers))
        self.norm = nn.RMSNorm(size.width, eps=1e-5)
        self.head = None if size.tied else nn.Linear(size.width, vocabulary, bias=False)
        _initialize(self, size.layers)

    def forward(self, tokens: Tensor) -> Tensor:
        cosines, sines = rotary_tables(
            tokens.shape[1], self.size.width // self.size.heads, self.size.theta, tokens.device
        )
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x, cosines, sines)
        weight = self.tokens.weight if self.head is None else self.head.weight
        return F.linear(self.norm(x), weight)


def _gpt2(size: GPT2Size, *, vocabulary: int, length: int, context: int = 1024, dropout: float = 0.0) -> GPT2:
    if length > context:
        raise ModelError(f"sequence length {length}: this model has {context} positions; set option context")
    return GPT2(size, vocabulary=vocabulary, context=context, dropout=dropout)


def _llama(size: LlamaSize, *, vocabulary: int, length: int) -> Llama:
    if length * size.active % size.experts:
        raise ModelError(f"sequence length {length}: {size.active} of {size.experts} experts a token do not share it")
    return Llama(size, vocabulary=vocabulary)


gpt2_small = partial(_gpt2, GPT2Size(12, 768, 12))
gpt2_medium = partial(_gpt2, GPT2Size(24, 1024, 16))
gpt2_large = partial(_gpt2, GPT2Size(36, 1280, 20))
gpt2_xl = partial(_gpt2, GPT2Size(48, 1600, 25))
gpt2_tiny = partial(_gpt2, GPT2Size(2, 64, 4), context=256)
llama_160m = partial(_llama, LlamaSize(12, 768, 12, 12, 3072, tied=False, theta=10_000.0))
llama_1b = partial(_llama, LlamaSize(16, 2048, 32, 8, 8192, tied=True))
llama_3b = partial(_llama, LlamaSize(28, 3072, 24, 8, 8192, tied=True))
llama_8b = partial(_llama, LlamaSize(32, 4096, 32, 8, 14_336, tied=False))
llama_tiny = partial(_llama, LlamaSize(2, 64, 4, 2, 192, tied=True))
mixtral_8x7b = partial(_llama, LlamaSize(32, 4096, 32, 8, 14_336, tied=False, theta=1e6, experts=8, active=2))
olmoe_1b_7b = partial(_llama, LlamaSize(16, 2048, 16, 16, 1024, tied=False, theta=10_000.0, experts=64, active=8))
mixture_tiny = partial(_llama, LlamaSize(2, 64, 4, 2, 96, tied=True, experts=4, active=2))
