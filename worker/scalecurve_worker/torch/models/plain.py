"""Sequential networks: AlexNet, VGG and the multilayer perceptron."""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from math import prod

from torch import nn

from scalecurve_worker.torch.models.layers import conv_norm, gaussian, he_normal, network

# Channels of the 3x3 convolutions, a max pool after each group: columns D (16 layers) and E (19 layers) of table 1.
VGG_GROUPS = {
    16: ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512)),
    19: ((64, 64), (128, 128), (256,) * 4, (512,) * 4, (512,) * 4),
}


def _add_relu(layer: nn.Module, dropout: float = 0.0) -> list[nn.Module]:
    return [layer, nn.ReLU(inplace=True), *([nn.Dropout(dropout)] if dropout > 0 else [])]


def alexnet(*, channels: int, classes: int, dropout: float = 0.5) -> nn.Sequential:
    """Build AlexNet in its one-column form (A. Krizhevsky, arXiv:1404.5997), as torchvision builds it; no LRN.

    N(0, 0.01²); bias 1 in the second, fourth and fifth convolution and the hidden linear layers, else 0: section 5 of
    A. Krizhevsky et al., "ImageNet classification with deep CNNs", NIPS 2012.
    """
    features = nn.Sequential(
        *_add_relu(nn.Conv2d(channels, 64, 11, stride=4, padding=2)),
        nn.MaxPool2d(3, stride=2),
        *_add_relu(nn.Conv2d(64, 192, 5, padding=2)),
        nn.MaxPool2d(3, stride=2),
        *_add_relu(nn.Conv2d(192, 384, 3, padding=1)),
        *_add_relu(nn.Conv2d(384, 256, 3, padding=1)),
        *_add_relu(nn.Conv2d(256, 256, 3, padding=1)),
        nn.MaxPool2d(3, stride=2),
    )
    head = nn.Sequential(
        nn.AdaptiveAvgPool2d(6),
        nn.Flatten(1),
        *([nn.Dropout(dropout)] if dropout > 0 else []),
        *_add_relu(nn.Linear(256 * 6 * 6, 4096), dropout),
        *_add_relu(nn.Linear(4096, 4096)),
        nn.Linear(4096, classes),
    )
    model = network(features=features, head=head)
    gaussian(model, 0.01)
    biases = [parameter for name, parameter in model.named_parameters() if name.endswith(".bias")]
    for index in (1, 3, 4, 5, 6):
        nn.init.ones_(biases[index])
    return model


def vgg(depth: int, *, channels: int, classes: int, batch_norm: bool = False, dropout: float = 0.5) -> nn.Sequential:
    """Build VGG-16 or -19: K. Simonyan and A. Zisserman, arXiv:1409.1556; ``batch_norm`` is the later variant.

    He's rule, which trains the deep columns from scratch; linear layers N(0, 0.01²) as the paper's.
    """
    features: list[nn.Module] = []
    for group in VGG_GROUPS[depth]:
        for width in group:
            if batch_norm:
                features.append(conv_norm(channels, width, 3, padding=1))
            else:
                features += _add_relu(nn.Conv2d(channels, width, 3, padding=1))
            channels = width
        features.append(nn.MaxPool2d(2))
    head = nn.Sequential(
        nn.AdaptiveAvgPool2d(7),
        nn.Flatten(1),
        *_add_relu(nn.Linear(512 * 7 * 7, 4096), dropout),
        *_add_relu(nn.Linear(4096, 4096), dropout),
        nn.Linear(4096, classes),
    )
    model = network(features=nn.Sequential(*features), head=head)
    he_normal(model)
    gaussian(head, 0.01)
    return model


def mlp(*, input_shape: Sequence[int], classes: int, hidden: Sequence[int] = (512, 512)) -> nn.Sequential:
    """Build a multilayer perceptron over the flattened sample, of any shape; He's rule (fan-in), biases zero."""
    sizes = [prod(input_shape), *hidden]
    layers: list[nn.Module] = [nn.Flatten(1)]
    for features_in, features_out in pairwise(sizes):
        layers += _add_relu(nn.Linear(features_in, features_out))
    layers.append(nn.Linear(sizes[-1], classes))
    for layer in layers:
        if isinstance(layer, nn.Linear):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.bias)
    return network(layers=nn.Sequential(*layers))


vgg16, vgg19 = partial(vgg, 16), partial(vgg, 19)
