"""The networks that are shipped, by name; files and importable torch modules by path."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from pathlib import Path

from scalecurve.hardware.names import known_as, unknown
from scalecurve_models.networks.graph import Network
from scalecurve_models.networks.layer import NetworkError, Shape
from scalecurve_models.networks.reading import network_of_text, read_network

SHIPPED = (
    "alexnet", "alexnet_torchvision", "alex_v2", "alex_v2_1gpu", "alex_v2_2gpu", "alex_v2_4gpu", "alex_v2_8gpu",
    "vgg16", "vgg19", "googlenet", "googlenet_torchvision", "inception_v3", "inception_v3_torchvision", "nin",
    "overfeat", "resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "resnet50_v1", "resnet101_v1",
    "resnet152_v1", "resnet50_paleo",
    "resnet20_cifar", "resnet32_cifar", "resnet44_cifar", "resnet56_cifar", "resnet110_cifar",
    "resnet18_cifar_wide", "resnet50_cifar_wide",
)  # fmt: skip

# The worker builds torchvision's variants under the plain names.
_OF_MODEL = {
    "alexnet": "alexnet_torchvision",
    "googlenet": "googlenet_torchvision",
    "inception_v3": "inception_v3_torchvision",
    **{f"resnet{depth}": f"resnet{depth}_cifar" for depth in (20, 32, 44, 56, 110)},
}


# Other names of shipped ones. Without a bottleneck, versions 1 and 1.5 are one network.
_ALIASES = {
    **{f"resnet{depth}_v1.5": f"resnet{depth}" for depth in (18, 34, 50, 101, 152)},
    **{f"resnet{depth}_v1": f"resnet{depth}" for depth in (18, 34)},
    **{f"resnet{depth}": f"resnet{depth}_cifar" for depth in (20, 32, 44, 56, 110)},
}


def shipped(name: str) -> Network:
    """A shipped network; ``VGG-16`` is ``vgg16``. Raises NetworkError with the nearest name for another."""
    found = known_as(name, (*SHIPPED, *_ALIASES))
    if found is None:
        raise NetworkError(unknown("network", name, SHIPPED))
    return _shipped(_ALIASES.get(found, found))


@lru_cache(maxsize=64)
def _shipped(name: str) -> Network:
    text = (files("scalecurve_models.networks") / "shipped" / f"{name}.yaml").read_text(encoding="utf-8")
    return network_of_text(text, f"{name}.yaml")


def network_of_model(model: str) -> Network:
    """The network that the worker's built-in model of this name is. Raises NetworkError for one that is no CNN."""
    name = _OF_MODEL.get(model, model)
    if name not in SHIPPED:
        raise NetworkError(f"model {model!r} has no network here; models with one are convolutional")
    return shipped(name)


def find_network(reference: str, input_shape: Shape | None = None) -> Network:
    """A network by its shipped name, or from a file (.yaml, .yml, .json; ours or Paleo's).

    ``input_shape`` (height, width, channels) takes the place of the network's own. Raises NetworkError.
    """
    path = Path(reference)
    network = read_network(path) if path.suffix.lower() in (".yaml", ".yml", ".json") else shipped(reference)
    return network if input_shape is None else network.with_input(input_shape)
