"""Lossy encodings of a gradient vector; the caller keeps the error."""

import math
from typing import Protocol

import torch
from torch import Tensor

BLOCK = 1024  # elements that share one scale
_BITS = 8


class Code(Protocol):
    """An encoding into bytes of a length that depends on the vector's length alone."""

    name: str

    def encode(self, values: Tensor) -> Tensor:
        """Encode fp32 values of shape (n,) as uint8."""

    def decode(self, message: Tensor, elements: int) -> Tensor:
        """Decode the uint8 of ``encode`` to fp32 values of shape (n,)."""


class TopK:
    """The share ``density`` of elements that are largest in size, each as its number and value.

    A. F. Aji, K. Heafield, "Sparse communication for distributed gradient descent", arXiv:1704.05021.
    """

    def __init__(self, density: float) -> None:
        self.density = density
        self.name = f"all-gather of the largest {density:.3g} of elements, 8 bytes each"

    def encode(self, values: Tensor) -> Tensor:
        count = max(1, math.ceil(self.density * values.numel()))
        places = torch.topk(values.abs(), count, sorted=False).indices
        return torch.cat([values[places].view(torch.uint8), places.to(torch.int32).view(torch.uint8)])

    def decode(self, message: Tensor, elements: int) -> Tensor:
        values, places = message.clone().chunk(2)
        gradients = torch.zeros(elements, device=message.device)
        return gradients.index_copy_(0, places.view(torch.int32).long(), values.view(torch.float32))


class EightBit:
    """Each element as one of 255 levels between plus and minus the largest of its block of 1024.

    T. Dettmers, "8-bit approximations for parallelism in deep learning", arXiv:1511.04561, with linear levels.
    """

    name = f"all-gather of int8, one fp32 scale for {BLOCK} elements"

    def encode(self, values: Tensor) -> Tensor:
        blocks = _blocks(values)
        scales = blocks.abs().amax(dim=1).clamp_(min=torch.finfo(torch.float32).tiny) / 127
        levels = (blocks / scales[:, None]).round_().to(torch.int8)
        return torch.cat([scales.view(torch.uint8), levels.flatten().view(torch.uint8)])

    def decode(self, message: Tensor, elements: int) -> Tensor:
        count = -(-elements // BLOCK)
        scales = message[: 4 * count].clone().view(torch.float32)
        levels = message[4 * count :].view(torch.int8).view(count, BLOCK)
        return (levels * scales[:, None]).flatten()[:elements]


class OneBit:
    """Each element's sign; a block's positive ones become their mean, and so do the negative ones.

    F. Seide et al., "1-bit stochastic gradient descent and its application to data-parallel distributed training of
    speech DNNs", Interspeech 2014.
    """

    name = f"all-gather of one bit an element, two fp32 means for {BLOCK} elements"

    def encode(self, values: Tensor) -> Tensor:
        """Encode the means of each block's negative and other elements, then one bit for each element, lowest first."""
        blocks = _blocks(values)
        signs = blocks >= 0
        above = signs.sum(dim=1)
        high = (blocks * signs).sum(dim=1) / above.clamp(min=1)
        low = (blocks * ~signs).sum(dim=1) / (BLOCK - above).clamp(min=1)
        weights = 2 ** torch.arange(_BITS, device=values.device, dtype=torch.uint8)
        bits = (signs.view(-1, _BITS).to(torch.uint8) * weights).sum(dim=1, dtype=torch.uint8)
        return torch.cat([torch.stack([low, high]).flatten().view(torch.uint8), bits])

    def decode(self, message: Tensor, elements: int) -> Tensor:
        count = -(-elements // BLOCK)
        low, high = message[: 8 * count].clone().view(torch.float32).view(2, count, 1)
        weights = 2 ** torch.arange(_BITS, device=message.device, dtype=torch.uint8)
        signs = (message[8 * count :, None] & weights).bool().view(count, BLOCK)
        return torch.where(signs, high, low).flatten()[:elements]


def _blocks(values: Tensor) -> Tensor:
    """(n,) -> (blocks, BLOCK), with zeros behind the last."""
    return torch.nn.functional.pad(values, (0, -values.numel() % BLOCK)).view(-1, BLOCK)
