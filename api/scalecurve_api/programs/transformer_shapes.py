"""Sizes of the catalog's transformers: what a layout must divide, and what memory is estimated from."""

from dataclasses import dataclass, replace

from scalecurve_api.programs.model_catalog import MODELS


@dataclass(frozen=True)
class TransformerShape:
    """A decoder: ``kv_heads`` below ``heads`` are grouped queries, ``gated`` feed-forward layers have three matrices.

    ``positions`` are learnt ones, ``tied`` means that the output layer is the embedding, ``biased`` that linear layers
    and norms have biases. ``experts`` above 1 replace the feed-forward layer, with a router; a token has ``active``.
    """

    layers: int
    width: int
    heads: int
    kv_heads: int
    feed_forward: int
    gated: bool
    tied: bool
    biased: bool = False
    positions: int = 0
    experts: int = 1
    active: int = 1

    @property
    def head_width(self) -> int:
        return self.width // self.heads

    @property
    def attention(self) -> int:
        """Parameters of one layer's attention."""
        keys = self.kv_heads * self.head_width
        matrices = 2 * self.width * self.width + 2 * self.width * keys
        return matrices + (2 * self.width + 2 * keys if self.biased else 0)

    @property
    def expert(self) -> int:
        """Parameters of one layer's feed-forward part, or of one expert of it."""
        matrices = (3 if self.gated else 2) * self.width * self.feed_forward
        return matrices + (self.feed_forward + self.width if self.biased else 0)

    @property
    def norms(self) -> int:
        """Parameters of one layer's norms, with the router of a mixture of experts."""
        router = self.width * self.experts if self.experts > 1 else 0
        return 2 * self.norm + router

    @property
    def norm(self) -> int:
        return self.width * (2 if self.biased else 1)

    def embedding(self, vocabulary: int) -> int:
        return (vocabulary + self.positions) * self.width

    def parameters(self, vocabulary: int) -> int:
        """Of the complete model."""
        layer = self.attention + self.norms + self.experts * self.expert
        head = 0 if self.tied else vocabulary * self.width
        return self.layers * layer + self.embedding(vocabulary) + self.norm + head


def _gpt2(layers: int, width: int, heads: int, positions: int = 1024) -> TransformerShape:
    return TransformerShape(layers, width, heads, heads, 4 * width, False, True, biased=True, positions=positions)


def _llama(layers: int, width: int, heads: int, kv_heads: int, feed_forward: int, tied: bool) -> TransformerShape:
    return TransformerShape(layers, width, heads, kv_heads, feed_forward, gated=True, tied=tied)


def _mixture(shape: TransformerShape, experts: int, active: int) -> TransformerShape:
    return replace(shape, experts=experts, active=active)


SHAPES = {
    "gpt2_small": _gpt2(12, 768, 12),
    "gpt2_medium": _gpt2(24, 1024, 16),
    "gpt2_large": _gpt2(36, 1280, 20),
    "gpt2_xl": _gpt2(48, 1600, 25),
    "gpt2_tiny": _gpt2(2, 64, 4, positions=256),
    "llama_160m": _llama(12, 768, 12, 12, 3072, tied=False),
    "llama_1b": _llama(16, 2048, 32, 8, 8192, tied=True),
    "llama_3b": _llama(28, 3072, 24, 8, 8192, tied=True),
    "llama_8b": _llama(32, 4096, 32, 8, 14_336, tied=False),
    "llama_tiny": _llama(2, 64, 4, 2, 192, tied=True),
    "mixtral_8x7b": _mixture(_llama(32, 4096, 32, 8, 14_336, tied=False), 8, 2),
    "olmoe_1b_7b": _mixture(_llama(16, 2048, 16, 16, 1024, tied=False), 64, 8),
    "mixture_tiny": _mixture(_llama(2, 64, 4, 2, 96, tied=True), 4, 2),
}
"""By the model's name in the catalog."""


def shape_of(model: str) -> TransformerShape | None:
    """The sizes of a transformer of the catalog; None of any other model."""
    return SHAPES.get(MODELS.get(model).name) if model in MODELS.built_in else None
