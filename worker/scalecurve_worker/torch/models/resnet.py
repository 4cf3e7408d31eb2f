"""ResNet: He et al., CVPR 2016, arXiv:1512.03385; for large images in the version 1.5 that everybody measures.

Version 1.5 puts a bottleneck's stride on its 3x3 convolution instead of the first 1x1 (as torchvision and
NVIDIA's reference do): a little more work, a little more accuracy, and other FLOPs than the paper's table. For 32x32
images, section 4.2 of the paper: 6n + 2 layers in three stages, with the parameter-free shortcut (option A).
"""

from functools import partial

import torch.nn.functional as F
from torch import Tensor, nn

from scalecurve_worker.torch.models.layers import classifier_head, conv_norm, gaussian, he_normal

WIDTHS = (64, 128, 256, 512)
CIFAR_WIDTHS = (16, 32, 64)
BLOCKS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}


class Residual(nn.Module):
    """relu(body(x) + shortcut(x))."""

    def __init__(self, body: nn.Sequential, shortcut: nn.Module) -> None:
        super().__init__()
        self.body = body
        self.shortcut = shortcut

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.body(x).add_(self.shortcut(x)), inplace=True)


def _shortcut(channels_in: int, channels_out: int, stride: int) -> nn.Module:
    """RankIdentity where shapes agree, else a projection (option B of the paper)."""
    if stride == 1 and channels_in == channels_out:
        return nn.Identity()
    return conv_norm(channels_in, channels_out, 1, stride=stride, relu=False)


def basic_block(channels_in: int, width: int, stride: int) -> Residual:
    """Two 3x3 convolutions; gives ``width`` channels."""
    body = nn.Sequential(
        conv_norm(channels_in, width, 3, stride=stride, padding=1),
        conv_norm(width, width, 3, padding=1, relu=False),
    )
    return Residual(body, _shortcut(channels_in, width, stride))


def bottleneck(channels_in: int, width: int, stride: int) -> Residual:
    """1x1, 3x3 (with the stride), 1x1; gives four times ``width`` channels."""
    body = nn.Sequential(
        conv_norm(channels_in, width, 1),
        conv_norm(width, width, 3, stride=stride, padding=1),
        conv_norm(width, 4 * width, 1, relu=False),
    )
    return Residual(body, _shortcut(channels_in, 4 * width, stride))


class ResNet(nn.Module):
    """ResNet-18, -34, -50, -101 or -152 for images of any size and any number of channels."""

    def __init__(self, depth: int, *, channels: int, classes: int, zero_init_residual: bool = False) -> None:
        super().__init__()
        block, expansion = (bottleneck, 4) if depth >= 50 else (basic_block, 1)
        self.zero_init_residual = zero_init_residual
        self.stem = nn.Sequential(conv_norm(channels, 64, 7, stride=2, padding=3), nn.MaxPool2d(3, stride=2, padding=1))
        stages: list[nn.Module] = []
        features = 64
        for stage, (width, repeats) in enumerate(zip(WIDTHS, BLOCKS[depth], strict=True)):
            for index in range(repeats):
                stages.append(block(features, width, 2 if stage > 0 and index == 0 else 1))
                features = expansion * width
        self.stages = nn.Sequential(*stages)
        self.head = classifier_head(features, classes, dropout=0.0)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """He's rule; the classifier N(0, 0.01²), and on request a zero γ at the end of every block.

        The last two are P. Goyal et al., "Accurate, large minibatch SGD", arXiv:1706.02677, section 5.1.
        """
        he_normal(self)
        gaussian(self.head, nn.Linear, 0.01)
        if self.zero_init_residual:
            for layer in self.stages:
                assert isinstance(layer, Residual)
                last = layer.body[-1]
                assert isinstance(last, nn.Sequential)
                norm = last[-1]
                assert isinstance(norm, nn.BatchNorm2d)
                nn.init.zeros_(norm.weight)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.stages(self.stem(x)))
        return logits


resnet18 = partial(ResNet, 18)
resnet34 = partial(ResNet, 34)
resnet50 = partial(ResNet, 50)
resnet101 = partial(ResNet, 101)
resnet152 = partial(ResNet, 152)


class PaddedShortcut(nn.Module):
    """Option A: every second row and column, and zeros for the channels that are new."""

    def __init__(self, new_channels: int) -> None:
        super().__init__()
        self.new_channels = new_channels

    def forward(self, x: Tensor) -> Tensor:
        return F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, 0, self.new_channels))


def _cifar_block(channels_in: int, width: int) -> Residual:
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
        self.stem = conv_norm(channels, CIFAR_WIDTHS[0], 3, padding=1)
        stages: list[nn.Module] = []
        features = CIFAR_WIDTHS[0]
        for width in CIFAR_WIDTHS:
            for _ in range(repeats):
                stages.append(_cifar_block(features, width))
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
