"""ResNet: He et al., CVPR 2016, arXiv:1512.03385; for large images in the version 1.5 that everybody measures.

Version 1.5 puts a bottleneck's stride on its 3x3 convolution instead of the first 1x1 (as torchvision and
NVIDIA's reference do): a little more work, a little more accuracy, and other FLOPs than the paper's table. For 32x32
images, section 4.2 of the paper: 6n + 2 layers in three stages, with the parameter-free shortcut (option A).
"""

from collections.abc import Callable, Sequence
from functools import partial

import torch.nn.functional as F
from torch import Tensor, nn

from scalecurve_worker.torch.models.layers import classifier_head, conv_norm, gaussian, he_normal, network

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


class PaddedShortcut(nn.Module):
    """Option A: every second row and column, and zeros for the channels that are new."""

    def __init__(self, new_channels: int) -> None:
        super().__init__()
        self.new_channels = new_channels

    def forward(self, x: Tensor) -> Tensor:
        return F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, 0, self.new_channels))


def _projection(channels_in: int, channels_out: int, stride: int) -> nn.Module:
    """Option B: the identity where shapes agree, else a 1x1 convolution."""
    if stride == 1 and channels_in == channels_out:
        return nn.Identity()
    return conv_norm(channels_in, channels_out, 1, stride=stride, relu=False)


def _two_convolutions(channels_in: int, width: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        conv_norm(channels_in, width, 3, stride=stride, padding=1),
        conv_norm(width, width, 3, padding=1, relu=False),
    )


def basic_block(channels_in: int, width: int, stride: int) -> Residual:
    """Build two 3x3 convolutions, giving ``width`` channels."""
    return Residual(_two_convolutions(channels_in, width, stride), _projection(channels_in, width, stride))


def cifar_block(channels_in: int, width: int, stride: int) -> Residual:
    """Build two 3x3 convolutions beside a shortcut without parameters, giving ``width`` channels."""
    shortcut = nn.Identity() if stride == 1 else PaddedShortcut(width - channels_in)
    return Residual(_two_convolutions(channels_in, width, stride), shortcut)


def bottleneck(channels_in: int, width: int, stride: int) -> Residual:
    """Build 1x1, 3x3 (with the stride) and 1x1 convolutions, giving four times ``width`` channels."""
    body = nn.Sequential(
        conv_norm(channels_in, width, 1),
        conv_norm(width, width, 3, stride=stride, padding=1),
        conv_norm(width, 4 * width, 1, relu=False),
    )
    return Residual(body, _projection(channels_in, 4 * width, stride))


def _stages(
    block: Callable[[int, int, int], Residual], widths: Sequence[int], repeats: Sequence[int], expansion: int = 1
) -> nn.Sequential:
    """Blocks over the ``widths[0]`` channels of the stem; every stage but the first begins with a stride of 2."""
    stages, features = [], widths[0]
    for stage, (width, count) in enumerate(zip(widths, repeats, strict=True)):
        for index in range(count):
            stages.append(block(features, width, 2 if stage > 0 and index == 0 else 1))
            features = expansion * width
    return nn.Sequential(*stages)


def resnet(depth: int, *, channels: int, classes: int, zero_init_residual: bool = False) -> nn.Sequential:
    """Build ResNet-18, -34, -50, -101 or -152 for images of any size and any number of channels.

    He's rule; the classifier N(0, 0.01²), and on request a zero γ at the end of every block: P. Goyal et al.,
    "Accurate, large minibatch SGD", arXiv:1706.02677, section 5.1.
    """
    block, expansion, last = (bottleneck, 4, 2) if depth >= 50 else (basic_block, 1, 1)
    model = network(
        stem=nn.Sequential(conv_norm(channels, 64, 7, stride=2, padding=3), nn.MaxPool2d(3, stride=2, padding=1)),
        stages=_stages(block, WIDTHS, BLOCKS[depth], expansion),
        head=classifier_head(expansion * WIDTHS[-1], classes),
    )
    he_normal(model)
    gaussian(model.get_submodule("head"), 0.01)
    if zero_init_residual:
        for name, parameter in model.named_parameters():
            if name.endswith(f"body.{last}.1.weight"):
                nn.init.zeros_(parameter)
    return model


def cifar_resnet(depth: int, *, channels: int, classes: int) -> nn.Sequential:
    """Build ResNet-20, -32, -44, -56 or -110; He's rule for convolutions and classifier, as section 4.2 asks."""
    model = network(
        stem=conv_norm(channels, CIFAR_WIDTHS[0], 3, padding=1),
        stages=_stages(cifar_block, CIFAR_WIDTHS, [(depth - 2) // 6] * 3),
        head=classifier_head(CIFAR_WIDTHS[-1], classes),
    )
    he_normal(model)
    nn.init.kaiming_normal_(model.get_parameter("head.2.weight"), nonlinearity="linear")
    nn.init.zeros_(model.get_parameter("head.2.bias"))
    return model


resnet18 = partial(resnet, 18)
resnet34 = partial(resnet, 34)
resnet50 = partial(resnet, 50)
resnet101 = partial(resnet, 101)
resnet152 = partial(resnet, 152)
resnet20_cifar = partial(cifar_resnet, 20)
resnet32_cifar = partial(cifar_resnet, 32)
resnet44_cifar = partial(cifar_resnet, 44)
resnet56_cifar = partial(cifar_resnet, 56)
resnet110_cifar = partial(cifar_resnet, 110)
