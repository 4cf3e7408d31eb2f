"""The convolution, batch-norm, ReLU triple that ResNet, GoogLeNet and Inception are made of."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def conv_norm(
    channels_in: int,
    channels_out: int,
    kernel: int | tuple[int, int],
    *,
    stride: int = 1,
    padding: int | tuple[int, int] = 0,
    relu: bool = True,
    eps: float = 1e-5,
) -> nn.Sequential:
    """A convolution without bias, batch normalisation, and a ReLU unless ``relu`` is false."""
    layers: list[nn.Module] = [
        nn.Conv2d(channels_in, channels_out, kernel, stride=stride, padding=padding, bias=False),
        nn.BatchNorm2d(channels_out, eps=eps),
    ]
    if relu:
        layers.append(nn.ReLU(inplace=True))
    return nn.Sequential(*layers)


class Branches(nn.Module):
    """Parallel branches over one input, joined along the channels."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self.branches], dim=1)


def classifier_head(features: int, classes: int, dropout: float) -> nn.Sequential:
    """Global average pooling, dropout if any, and the linear layer that gives the logits."""
    layers: list[nn.Module] = [nn.AdaptiveAvgPool2d(1), nn.Flatten(1)]
    if dropout > 0:
        layers.append(nn.Dropout(dropout))
    layers.append(nn.Linear(features, classes))
    return nn.Sequential(*layers)
