"""ResNet for 32x32 images: section 4.2 of He et al., "Deep residual learning", CVPR 2016, arXiv:1512.03385.

6n + 2 layers in three stages of 16, 32 and 64 channels, with the parameter-free shortcut (option A).
"""

from __future__ import annotations

from functools import partial

import torch.nn.functional as F
from torch import Tensor, nn

from scalecurve_worker.torch.models.layers import classifier_head, conv_norm, he_normal
from scalecurve_worker.torch.models.resnet import Residual

WIDTHS = (16, 32, 64)


class PaddedShortcut(nn.Module):
    """Option A: every second row and column, and zeros for the channels that are new."""

    def __init__(self, new_channels: int) -> None:
        super().__init__()
        self.new_channels = new_channels

    def forward(self, x: Tensor) -> Tensor:
        return F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, 0, self.new_channels))


def _block(channels_in: int, width: int) -> Residual:
    grows = channels_in != width
    body = nn.Sequential(
        conv_norm(channels_in, width, 3, stride=2 if grows else 1, padding=1),
        conv_norm(width, width, 3, padding=1, relu=False),
    )
    return Residual(body, PaddedShortcut(width - channels_in) if grows else nn.Identity())


class CifarResNet(nn.Module):
    """ResNet-20, -32, -44, -56 or -110 (any depth 6n + 2)."""

    def __init__(self, depth: int, *, channels: int, classes: int) -> None:
        super().__init__()
        repeats, rest = divmod(depth - 2, 6)
        if rest or repeats < 1:
            raise ValueError(f"depth {depth}: a CIFAR ResNet has 6n + 2 layers")
        self.stem = conv_norm(channels, WIDTHS[0], 3, padding=1)
        stages: list[nn.Module] = []
        features = WIDTHS[0]
        for width in WIDTHS:
            for _ in range(repeats):
                stages.append(_block(features, width))
                features = width
        self.stages = nn.Sequential(*stages)
        self.head = classifier_head(features, classes, dropout=0.0)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """He's rule for convolutions and the classifier, as the paper's section 4.2 asks."""
        he_normal(self)
        last = self.head[-1]
        assert isinstance(last, nn.Linear)
        nn.init.kaiming_normal_(last.weight, mode="fan_in", nonlinearity="linear")
        nn.init.zeros_(last.bias)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.stages(self.stem(x)))
        return logits


resnet20_cifar = partial(CifarResNet, 20)
resnet32_cifar = partial(CifarResNet, 32)
resnet44_cifar = partial(CifarResNet, 44)
resnet56_cifar = partial(CifarResNet, 56)
resnet110_cifar = partial(CifarResNet, 110)
