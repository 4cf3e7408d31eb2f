"""Layers that several architectures share, and initial parameters by the rules of the papers."""

from typing import Literal

import torch
from torch import Tensor, nn


def he_normal(module: nn.Module, *, fan: Literal["fan_in", "fan_out"] = "fan_out") -> None:
    """Convolutions N(0, 2/fan) with zero bias, normalisation layers 1 and 0.

    K. He et al., "Delving deep into rectifiers", ICCV 2015, arXiv:1502.01852.
    """
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode=fan, nonlinearity="relu")
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
        elif isinstance(layer, nn.BatchNorm2d):
            layer.reset_parameters()


def gaussian(
    module: nn.Module, kinds: type[nn.Module] | tuple[type[nn.Module], ...], std: float, *, bias: float = 0.0
) -> None:
    """Layers of ``kinds`` to N(0, std²), their biases to a constant."""
    for layer in module.modules():
        if isinstance(layer, kinds) and isinstance(layer, nn.Conv2d | nn.Linear | nn.Embedding):
            nn.init.normal_(layer.weight, std=std)
            if not isinstance(layer, nn.Embedding) and layer.bias is not None:
                nn.init.constant_(layer.bias, bias)


def truncated_gaussian(module: nn.Module, std: float) -> None:
    """Convolutions and linear layers to N(0, std²) cut at two deviations, as the Inception papers' code does."""
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.trunc_normal_(layer.weight, std=std, a=-2 * std, b=2 * std)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
        elif isinstance(layer, nn.BatchNorm2d):
            layer.reset_parameters()


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
