"""Decoder transformers in the shapes of GPT-2 and Llama: token numbers in, next-token logits out.

GPT-2: A. Radford et al., "Language models are unsupervised multitask learners", 2019. Llama: H. Touvron et al.,
arXiv:2302.13971, and the Llama 3 herd, arXiv:2407.21783; rotary positions J. Su et al., arXiv:2104.09864; grouped
queries J. Ainslie et al., arXiv:2305.13245; SwiGLU N. Shazeer, arXiv:2002.05202.
"""

from dataclasses import dataclass
from functools import partial
from math import sqrt

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from scalecurve_worker.torch.models.layers import gaussian
from scalecurve_worker.training.models import ModelError

STD = 0.02


@dataclass(frozen=True)
class GPT2Size:
    """Layers, width and heads."""

    layers: int
    width: int
    heads: int


@dataclass(frozen=True)
class LlamaSize:
    """Layers, width, query heads, key and value heads, width of the feed-forward layer, shared embedding or not."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    feed_forward: int
    tied: bool
    theta: float = 500_000.0


class GPT2Block(nn.Module):
    """x + attention(norm(x)), then x + feed-forward(norm(x)), all with biases."""

    def __init__(self, size: GPT2Size, dropout: float) -> None:
        super().__init__()
        self.heads = size.heads
        self.dropout = dropout
        self.norm_attention = nn.LayerNorm(size.width)
        self.qkv = nn.Linear(size.width, 3 * size.width)
        self.attention_out = nn.Linear(size.width, size.width)
        self.norm_feed_forward = nn.LayerNorm(size.width)
        self.up = nn.Linear(size.width, 4 * size.width)
        self.down = nn.Linear(4 * size.width, size.width)

    def _attention(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        split = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).transpose(1, 3)
        query, key, value = split.unbind(2)
        dropout = self.dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(query, key, value, dropout_p=dropout, is_causal=True)
        out: Tensor = self.attention_out(mixed.transpose(1, 2).reshape(batch, length, width))
        return out

    def forward(self, x: Tensor) -> Tensor:
        x = x + F.dropout(self._attention(self.norm_attention(x)), self.dropout, self.training)
        hidden = F.gelu(self.up(self.norm_feed_forward(x)), approximate="tanh")
        return x + F.dropout(self.down(hidden), self.dropout, self.training)


def _initialise(model: nn.Module, *, branches: int) -> None:
    gaussian(model, (nn.Linear, nn.Embedding), STD)
    for module in model.modules():
        if isinstance(module, nn.LayerNorm | nn.RMSNorm):
            module.reset_parameters()
        elif isinstance(module, GPT2Block | LlamaBlock):
            for layer in (module.attention_out, module.down):
                nn.init.normal_(layer.weight, std=STD / sqrt(branches))


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
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """N(0, 0.02²), biases zero; layers that end a residual branch are scaled by 1 / sqrt(branches)."""
        _initialise(self, branches=2 * self.size.layers)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        x = self.blocks(F.dropout(x, self.dropout, self.training))
        return F.linear(self.norm(x), self.tokens.weight)


def rotary_tables(length: int, head_width: int, theta: float, device: torch.device) -> tuple[Tensor, Tensor]:
    """Cosines and sines (length, head_width / 2) of position times frequency theta^(-2i / head_width), fp32."""
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
        head_width = size.width // size.heads
        self.head_width = head_width
        self.grouped = size.kv_heads != size.heads
        self.norm_attention = nn.RMSNorm(size.width, eps=1e-5)
        self.query = nn.Linear(size.width, size.heads * head_width, bias=False)
        self.key = nn.Linear(size.width, size.kv_heads * head_width, bias=False)
        self.value = nn.Linear(size.width, size.kv_heads * head_width, bias=False)
        self.attention_out = nn.Linear(size.heads * head_width, size.width, bias=False)
        self.norm_feed_forward = nn.RMSNorm(size.width, eps=1e-5)
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
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=self.grouped)
        out: Tensor = self.attention_out(mixed.transpose(1, 2).flatten(2))
        return out

    def forward(self, x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
        x = x + self._attention(self.norm_attention(x), cosines, sines)
        normed = self.norm_feed_forward(x)
        out: Tensor = x + self.down(F.silu(self.gate(normed)) * self.up(normed))
        return out


class Llama(nn.Module):
    """Llama: rotary positions, RMS normalisation, SwiGLU, grouped key and value heads.

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
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """N(0, 0.02²); layers that end a residual branch are scaled by 1 / sqrt(branches), as for GPT-2."""
        _initialise(self, branches=2 * self.size.layers)

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
