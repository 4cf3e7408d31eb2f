"""GoogLeNet: C. Szegedy et al., "Going deeper with convolutions", CVPR 2015, arXiv:1409.4842.

With batch normalisation, and a 3x3 where the paper has a 5x5, as torchvision has had them since its first
version: the network that is called GoogLeNet in PyTorch benchmarks.
"""

from functools import partial

from torch import Tensor, nn

from scalecurve_worker.torch.models.layers import AuxiliaryLogits, Branches, classifier_head, conv_norm, gaussian

conv = partial(conv_norm, eps=1e-3)

# Table 1: channels in; 1x1; 3x3 reduce, 3x3; "5x5" reduce, "5x5"; pool projection.
BLOCKS = {
    "3a": (192, 64, 96, 128, 16, 32, 32),
    "3b": (256, 128, 128, 192, 32, 96, 64),
    "4a": (480, 192, 96, 208, 16, 48, 64),
    "4b": (512, 160, 112, 224, 24, 64, 64),
    "4c": (512, 128, 128, 256, 24, 64, 64),
    "4d": (512, 112, 144, 288, 32, 64, 64),
    "4e": (528, 256, 160, 320, 32, 128, 128),
    "5a": (832, 256, 160, 320, 32, 128, 128),
    "5b": (832, 384, 192, 384, 48, 128, 128),
}


def _pool(kernel: int = 3) -> nn.MaxPool2d:
    return nn.MaxPool2d(kernel, stride=2, ceil_mode=True)


def _inception(name: str) -> Branches:
    channels, one, reduce3, three, reduce5, five, projection = BLOCKS[name]
    return Branches(
        conv(channels, one, 1),
        nn.Sequential(conv(channels, reduce3, 1), conv(reduce3, three, 3, padding=1)),
        nn.Sequential(conv(channels, reduce5, 1), conv(reduce5, five, 3, padding=1)),
        nn.Sequential(nn.MaxPool2d(3, stride=1, padding=1, ceil_mode=True), conv(channels, projection, 1)),
    )


def _auxiliary(channels: int, classes: int) -> nn.Sequential:
    return nn.Sequential(
        nn.AdaptiveAvgPool2d(4),
        conv(channels, 128, 1),
        nn.Flatten(1),
        nn.Linear(128 * 4 * 4, 1024),
        nn.ReLU(inplace=True),
        nn.Dropout(0.7),
        nn.Linear(1024, classes),
    )


class GoogLeNet(nn.Module):
    """GoogLeNet; ``auxiliary`` adds the two classifiers that the paper trains with."""

    def __init__(self, *, channels: int, classes: int, auxiliary: bool = False, dropout: float = 0.2) -> None:
        super().__init__()
        self.to_4a = nn.Sequential(
            conv(channels, 64, 7, stride=2, padding=3),
            _pool(),
            conv(64, 64, 1),
            conv(64, 192, 3, padding=1),
            _pool(),
            _inception("3a"),
            _inception("3b"),
            _pool(),
            _inception("4a"),
        )
        self.to_4d = nn.Sequential(_inception("4b"), _inception("4c"), _inception("4d"))
        self.to_5b = nn.Sequential(_inception("4e"), _pool(2), _inception("5a"), _inception("5b"))
        self.head = classifier_head(1024, classes, dropout)
        self.auxiliary_4a = _auxiliary(512, classes) if auxiliary else None
        self.auxiliary_4d = _auxiliary(528, classes) if auxiliary else None
        gaussian(self, 0.01, truncated=True)

    def forward(self, x: Tensor) -> Tensor | AuxiliaryLogits:
        at_4a = self.to_4a(x)
        at_4d = self.to_4d(at_4a)
        logits: Tensor = self.head(self.to_5b(at_4d))
        if self.training and self.auxiliary_4a is not None and self.auxiliary_4d is not None:
            return AuxiliaryLogits(logits, (self.auxiliary_4a(at_4a), self.auxiliary_4d(at_4d)))
        return logits


googlenet = GoogLeNet
