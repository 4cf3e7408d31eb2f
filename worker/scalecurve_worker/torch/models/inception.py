"""Inception-v3: C. Szegedy et al., "Rethinking the Inception architecture", CVPR 2016, arXiv:1512.00567.

The layers of the authors' released model (299x299 images), which differ a little from the paper's table 1.
"""

from functools import partial

from torch import Tensor, nn

from scalecurve_worker.torch.models.layers import AuxiliaryLogits, Branches, classifier_head, conv_norm, gaussian

conv = partial(conv_norm, eps=1e-3)

# (channels out, kernel); a kernel keeps height and width here.
Layer = tuple[int, int | tuple[int, int]]


def _chain(channels: int, *layers: Layer) -> nn.Sequential:
    modules = []
    for width, kernel in layers:
        padding = kernel // 2 if isinstance(kernel, int) else (kernel[0] // 2, kernel[1] // 2)
        modules.append(conv(channels, width, kernel, padding=padding))
        channels = width
    return nn.Sequential(*modules)


def _pooled(channels: int, width: int) -> nn.Sequential:
    return nn.Sequential(nn.AvgPool2d(3, stride=1, padding=1), conv(channels, width, 1))


def _shrink(channels: int, width: int) -> nn.Sequential:
    return conv(channels, width, 3, stride=2)


def _block_a(channels: int, pool: int) -> Branches:
    """35x35, figure 5 of the paper; gives 224 + ``pool`` channels."""
    return Branches(
        _chain(channels, (64, 1)),
        _chain(channels, (48, 1), (64, 5)),
        _chain(channels, (64, 1), (96, 3), (96, 3)),
        _pooled(channels, pool),
    )


def _reduce_a(channels: int) -> Branches:
    """35x35 -> 17x17; gives ``channels`` + 480."""
    return Branches(
        _shrink(channels, 384),
        nn.Sequential(_chain(channels, (64, 1), (96, 3)), _shrink(96, 96)),
        nn.MaxPool2d(3, stride=2),
    )


def _block_b(channels: int, inner: int) -> Branches:
    """17x17, figure 6 of the paper with n = 7; gives 768 channels."""
    row, column = (1, 7), (7, 1)
    return Branches(
        _chain(channels, (192, 1)),
        _chain(channels, (inner, 1), (inner, row), (192, column)),
        _chain(channels, (inner, 1), (inner, column), (inner, row), (inner, column), (192, row)),
        _pooled(channels, 192),
    )


def _reduce_b(channels: int) -> Branches:
    """17x17 -> 8x8; gives ``channels`` + 512."""
    return Branches(
        nn.Sequential(_chain(channels, (192, 1)), _shrink(192, 320)),
        nn.Sequential(_chain(channels, (192, 1), (192, (1, 7)), (192, (7, 1))), _shrink(192, 192)),
        nn.MaxPool2d(3, stride=2),
    )


def _block_c(channels: int) -> Branches:
    """8x8, figure 7 of the paper; gives 2048 channels."""

    def split(width: int) -> Branches:
        return Branches(_chain(width, (384, (1, 3))), _chain(width, (384, (3, 1))))

    return Branches(
        _chain(channels, (320, 1)),
        nn.Sequential(_chain(channels, (384, 1)), split(384)),
        nn.Sequential(_chain(channels, (448, 1), (384, 3)), split(384)),
        _pooled(channels, 192),
    )


class InceptionV3(nn.Module):
    """Inception-v3; ``auxiliary`` adds the classifier at 17x17 that it is trained with."""

    def __init__(self, *, channels: int, classes: int, auxiliary: bool = False, dropout: float = 0.5) -> None:
        super().__init__()
        self.to_17 = nn.Sequential(
            _shrink(channels, 32),
            conv(32, 32, 3),
            _chain(32, (64, 3)),
            nn.MaxPool2d(3, stride=2),
            _chain(64, (80, 1)),
            conv(80, 192, 3),
            nn.MaxPool2d(3, stride=2),
            _block_a(192, 32),
            _block_a(256, 64),
            _block_a(288, 64),
            _reduce_a(288),
            _block_b(768, 128),
            _block_b(768, 160),
            _block_b(768, 160),
            _block_b(768, 192),
        )
        self.to_8 = nn.Sequential(_reduce_b(768), _block_c(1280), _block_c(2048))
        self.head = classifier_head(2048, classes, dropout)
        self.auxiliary = (
            nn.Sequential(
                nn.AvgPool2d(5, stride=3),
                conv(768, 128, 1),
                conv(128, 768, 5),
                classifier_head(768, classes),
            )
            if auxiliary
            else None
        )
        gaussian(self, 0.1, truncated=True)
        if self.auxiliary is not None:
            # As the authors' code.
            for part, std in zip(self.auxiliary[1:], (0.01, 0.01, 0.001), strict=True):
                gaussian(part, std, truncated=True)

    def forward(self, x: Tensor) -> Tensor | AuxiliaryLogits:
        at_17 = self.to_17(x)
        logits: Tensor = self.head(self.to_8(at_17))
        if self.training and self.auxiliary is not None:
            return AuxiliaryLogits(logits, (self.auxiliary(at_17),))
        return logits


inception_v3 = InceptionV3
