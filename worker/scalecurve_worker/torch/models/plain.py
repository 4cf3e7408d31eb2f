"""Sequential networks: AlexNet, VGG and the multilayer perceptron."""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from math import prod

from torch import Tensor, nn

from scalecurve_worker.torch.models.layers import conv_norm, gaussian, he_normal

# Channels of the 3x3 convolutions, a max pool after each group: columns D (16 layers) and E (19 layers) of table 1.
VGG_GROUPS = {
    16: ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512)),
    19: ((64, 64), (128, 128), (256,) * 4, (512,) * 4, (512,) * 4),
}


def _hidden(features_in: int, features_out: int, dropout: float) -> list[nn.Module]:
    layers: list[nn.Module] = [nn.Linear(features_in, features_out), nn.ReLU(inplace=True)]
    if dropout > 0:
        layers.append(nn.Dropout(dropout))
    return layers


class AlexNet(nn.Module):
    """AlexNet in its one-column form (A. Krizhevsky, arXiv:1404.5997), as torchvision builds it; no LRN."""

    def __init__(self, *, channels: int, classes: int, dropout: float = 0.5) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(channels, 64, 11, stride=4, padding=2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, stride=2),
            nn.Conv2d(64, 192, 5, padding=2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, stride=2),
            nn.Conv2d(192, 384, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(384, 256, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(256, 256, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, stride=2),
        )
        self.head = nn.Sequential(
            nn.AdaptiveAvgPool2d(6),
            nn.Flatten(1),
            *([nn.Dropout(dropout)] if dropout > 0 else []),
            *_hidden(256 * 6 * 6, 4096, dropout),
            *_hidden(4096, 4096, 0.0),
            nn.Linear(4096, classes),
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """N(0, 0.01²); bias 1 in the second, fourth and fifth convolution and the hidden linear layers, else 0.

        Section 5 of A. Krizhevsky et al., "ImageNet classification with deep CNNs", NIPS 2012.
        """
        gaussian(self, (nn.Conv2d, nn.Linear), 0.01)
        convolutions = [layer for layer in self.features if isinstance(layer, nn.Conv2d)]
        linear = [layer for layer in self.head if isinstance(layer, nn.Linear)]
        for bias in (*(convolutions[index].bias for index in (1, 3, 4)), *(layer.bias for layer in linear[:-1])):
            assert bias is not None
            nn.init.ones_(bias)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.features(x))
        return logits


class VGG(nn.Module):
    """VGG-16 or -19: K. Simonyan and A. Zisserman, arXiv:1409.1556; ``batch_norm`` is the later variant."""

    def __init__(
        self, depth: int, *, channels: int, classes: int, batch_norm: bool = False, dropout: float = 0.5
    ) -> None:
        super().__init__()
        features: list[nn.Module] = []
        for group in VGG_GROUPS[depth]:
            for width in group:
                if batch_norm:
                    features.append(conv_norm(channels, width, 3, padding=1))
                else:
                    features += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(inplace=True)]
                channels = width
            features.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*features)
        self.head = nn.Sequential(
            nn.AdaptiveAvgPool2d(7),
            nn.Flatten(1),
            *_hidden(512 * 7 * 7, 4096, dropout),
            *_hidden(4096, 4096, dropout),
            nn.Linear(4096, classes),
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """He's rule, which trains the deep columns from scratch; linear layers N(0, 0.01²) as the paper's."""
        he_normal(self)
        gaussian(self.head, nn.Linear, 0.01)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.features(x))
        return logits


class MLP(nn.Module):
    """A multilayer perceptron over the flattened sample, of any shape."""

    def __init__(self, *, input_shape: Sequence[int], classes: int, hidden: Sequence[int] = (512, 512)) -> None:
        super().__init__()
        sizes = [prod(input_shape), *hidden]
        layers: list[nn.Module] = [nn.Flatten(1)]
        for features_in, features_out in pairwise(sizes):
            layers += _hidden(features_in, features_out, 0.0)
        self.layers = nn.Sequential(*layers, nn.Linear(sizes[-1], classes))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """He's rule in the fan-in form, biases zero."""
        for layer in self.layers:
            if isinstance(layer, nn.Linear):
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
                nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.layers(x)
        return logits


vgg16, vgg19 = partial(VGG, 16), partial(VGG, 19)
alexnet, mlp = AlexNet, MLP
