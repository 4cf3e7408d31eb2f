"""The quantizer: real numbers to whole ones and back, symmetric around zero (section 2.1 with zero-point 0)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

Scheme = Literal["tensor", "channel"]

SMALLEST_CHANNEL = 2.0**-16
"""Least range of a channel, as a share of its tensor's: a dead channel's step would make its bias overflow."""

NOTHING = 2.0**-126
"""What a float32 cannot hold in full is taken for zero."""


@dataclass(frozen=True)
class Grid:
    """Whole numbers ``lowest`` .. ``highest``, each worth ``step``: a scalar, or one a channel shaped to broadcast.

    Zero is on every grid. A number between the ends is at most half a step from its place; one beyond goes to an end.
    """

    step: Tensor
    lowest: int
    highest: int

    def whole(self, x: Tensor) -> Tensor:
        """The place of each number, a whole number in float64; ties go to the even one."""
        return torch.round(x.double() / self.step).clamp_(self.lowest, self.highest)

    def real(self, q: Tensor) -> Tensor:
        return q.double() * self.step

    def nearest(self, x: Tensor) -> Tensor:
        return self.real(self.whole(x))


def signed_grid(limit: Tensor, bits: int) -> Grid:
    """2^bits - 1 places from -``limit`` to ``limit`` (a float64 tensor, all above zero)."""
    highest = 2 ** (bits - 1) - 1
    return Grid(limit / highest, -highest, highest)


def activation_grid(low: float, high: float, bits: int, device: torch.device) -> Grid:
    """Of what was seen between ``low`` and ``high``; where nothing is negative all 2^bits places lie above zero."""
    reach = max(-low, high)
    limit = torch.tensor(reach if reach > NOTHING else 1.0, dtype=torch.float64, device=device)
    if low < 0:
        return signed_grid(limit, bits)
    highest = 2**bits - 1
    return Grid(limit / highest, 0, highest)


def weight_grid(weight: Tensor, bits: int, scheme: Scheme) -> Grid:
    """One step for the tensor, or one for each output channel (the first axis)."""
    size = weight.detach().double().abs()
    whole = size.max()
    whole = torch.where(whole > 0, whole, torch.ones_like(whole))
    if scheme == "tensor":
        return signed_grid(whole, bits)
    limit = size.flatten(1).amax(1).maximum(whole * SMALLEST_CHANNEL)
    return signed_grid(limit.view(-1, *[1] * (weight.dim() - 1)), bits)
