"""Shipped networks by name, and networks from files."""

from functools import lru_cache
from importlib.resources import files
from pathlib import Path

from scalecurve.hardware.names import known_as, unknown
from scalecurve_api.programs.model_catalog import MODELS
from scalecurve_api.programs.workload import Workload
from scalecurve_api.registry import RegistryError, load
from scalecurve_models.networks.graph import Network
from scalecurve_models.networks.layer import NetworkError, Shape
from scalecurve_models.networks.reading import network_of_text, read_network

_FOLDER = files("scalecurve_models.networks") / "shipped"
SHIPPED = tuple(sorted(file.name.removesuffix(".yaml") for file in _FOLDER.iterdir() if file.name.endswith(".yaml")))

# Other names of shipped networks. Without bottlenecks, versions 1 and 1.5 are the same network.
_ALIASES = {
    **{f"resnet{depth}_v1.5": f"resnet{depth}" for depth in (18, 34, 50, 101, 152)},
    **{f"resnet{depth}_v1": f"resnet{depth}" for depth in (18, 34)},
    **{f"resnet{depth}": f"resnet{depth}_cifar" for depth in (20, 32, 44, 56, 110)},
}


def shipped(name: str) -> Network:
    """Return a shipped network; ``VGG-16`` is ``vgg16``. Raises NetworkError with a suggestion for an unknown one."""
    key = known_as(name, (*SHIPPED, *_ALIASES))
    if key is None:
        raise NetworkError(unknown("network", name, SHIPPED))
    return _load_shipped(_ALIASES.get(key, key))


@lru_cache(maxsize=64)
def _load_shipped(name: str) -> Network:
    text = (_FOLDER / f"{name}.yaml").read_text(encoding="utf-8")
    return network_of_text(text, f"{name}.yaml")


def network_of_model(model: str) -> Network:
    """Find the network that the catalog names for a model. Raises NetworkError if there is none."""
    try:
        reference = MODELS.get(model).network
    except RegistryError as error:
        raise NetworkError(str(error)) from error
    if not reference:
        raise NetworkError(f"model {model!r} has no network; only convolutional models have one")
    if ":" in reference:
        network: Network = load(reference)()
        return network
    return shipped(reference)


def network_of(workload: Workload) -> Network:
    """Return the network of a built-in training program, with images as the data has them (channels first).

    Raises NetworkError for a program without a built-in network, a model that is no CNN, or a shape that it does not
    take.
    """
    if not workload.runs or not workload.takes_batch:
        raise NetworkError(f"program {workload.program} has no known network; name one with --network")
    network = network_of_model(workload.model)
    shape = workload.data.sample_shape
    if shape is None:
        return network
    if len(shape) != 3:
        raise NetworkError(f"workload.data.shape: {network.name} expects [channels, height, width], got {list(shape)}")
    channels, height, width = shape
    return network.with_input((height, width, channels))


def images_per_sample(workload: Workload) -> int:
    """Return how many images a step computes for each sample that it counts: ``data.instances`` of augmented copies."""
    return workload.data.images_per_sample


def find_network(reference: str, input_shape: Shape | None = None) -> Network:
    """Find a network by its shipped name, or read it from a file (.yaml, .yml, .json; our format or Paleo's).

    ``input_shape`` (height, width, channels) replaces the network's own. Raises NetworkError.
    """
    path = Path(reference)
    network = read_network(path) if path.suffix.lower() in (".yaml", ".yml", ".json") else shipped(reference)
    return network if input_shape is None else network.with_input(input_shape)
