"""Layers that several architectures share, initial parameters by the rules of the papers, and the loss."""

from collections import OrderedDict
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def network(**parts: nn.Module) -> nn.Sequential:
    """Build a network of parts that run one after another, by name."""
    return nn.Sequential(OrderedDict(parts))


def he_normal(module: nn.Module) -> None:
    """Initialize convolutions N(0, 2 / fan out) with zero bias: K. He et al., ICCV 2015, arXiv:1502.01852."""
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


def gaussian(module: nn.Module, std: float, *, truncated: bool = False) -> None:
    """Draw weights N(0, std²), cut at two deviations if ``truncated``, as the Inception papers' code; zero biases."""
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear | nn.Embedding):
            if truncated:
                nn.init.trunc_normal_(layer.weight, std=std, a=-2 * std, b=2 * std)
            else:
                nn.init.normal_(layer.weight, std=std)
            if not isinstance(layer, nn.Embedding) and layer.bias is not None:
                nn.init.zeros_(layer.bias)


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
    """Build a convolution without bias, batch normalization, and a ReLU unless ``relu`` is false."""
    return nn.Sequential(
        nn.Conv2d(channels_in, channels_out, kernel, stride=stride, padding=padding, bias=False),
        nn.BatchNorm2d(channels_out, eps=eps),
        *([nn.ReLU(inplace=True)] if relu else []),
    )


class Branches(nn.Module):
    """Parallel branches over one input, joined along the channels."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self.branches], dim=1)


def classifier_head(features: int, classes: int, dropout: float = 0.0) -> nn.Sequential:
    """Build global average pooling, dropout if any, and the linear layer that gives the logits."""
    drop = [nn.Dropout(dropout)] if dropout > 0 else []
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(1), *drop, nn.Linear(features, classes))


class AuxiliaryLogits(NamedTuple):
    """Output, in training mode, of a network with auxiliary classifiers: its logits and theirs."""

    logits: Tensor
    auxiliary: tuple[Tensor, ...]


def cross_entropy(logits: Tensor, target: Tensor, *, smoothing: float = 0.0) -> Tensor:
    """Compute mean cross entropy, in fp32.

    Logits are (batch, classes) or (batch, length, classes), target without the last axis.

    ``smoothing`` is the share of each target spread over all classes alike: C. Szegedy et al., CVPR 2016,
    arXiv:1512.00567, section 7.
    """
    return F.cross_entropy(logits.flatten(0, -2).float(), target.flatten(), label_smoothing=smoothing)


def training_loss(
    output: Tensor | AuxiliaryLogits, target: Tensor, *, auxiliary_weight: float = 0.3, smoothing: float = 0.0
) -> Tensor:
    """Add to the logits' cross entropy, labels smoothed, the weighted one of each auxiliary classifier, if any.

    0.3 is the weight of section 5 of C. Szegedy et al., "Going deeper with convolutions", CVPR 2015; a model's own
    weight is ``ModelEntry.auxiliary_weight``.
    """
    main, auxiliary = output if isinstance(output, AuxiliaryLogits) else (output, ())
    loss = cross_entropy(main, target, smoothing=smoothing)
    for logits in auxiliary:
        loss = loss + auxiliary_weight * cross_entropy(logits, target, smoothing=smoothing)
    return loss
