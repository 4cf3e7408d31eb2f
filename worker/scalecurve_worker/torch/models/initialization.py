"""Initial parameters, by the rules of the papers. Each function walks a module and changes it in place."""

from __future__ import annotations

from typing import Literal

from torch import nn


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
