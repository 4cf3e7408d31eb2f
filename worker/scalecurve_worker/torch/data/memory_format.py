"""How a batch of images lies in memory when the model gets it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class BatchFormat:
    """Device, type and memory format of the inputs."""

    device: torch.device
    dtype: torch.dtype
    channels_last: bool

    def lay(self, x: Tensor) -> Tensor:
        """Bring inputs (batch, ...) to the type and, if they are images, the memory format; a no-op if they are."""
        x = x.to(self.dtype)
        last = self.channels_last and x.dim() == 4
        return x.contiguous(memory_format=torch.channels_last if last else torch.contiguous_format)


class Normaliser:
    """(bytes - mean) / deviation by channel, as fp32, on a device; both on the scale of the bytes."""

    def __init__(self, mean: Sequence[float], deviation: Sequence[float], device: torch.device) -> None:
        self.mean = torch.tensor(mean, device=device).view(1, -1, 1, 1)
        self.scale = 1 / torch.tensor(deviation, device=device).view(1, -1, 1, 1)

    def __call__(self, images: Tensor) -> Tensor:
        return images.float().sub_(self.mean).mul_(self.scale)

    def undo(self, x: Tensor) -> Tensor:
        return x.float() / self.scale + self.mean
