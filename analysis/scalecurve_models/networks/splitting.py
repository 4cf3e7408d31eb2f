"""The split layers of a network over another number of devices, each with its share of the filters."""

from scalecurve_models.networks.graph import Network
from scalecurve_models.networks.layer import AnyLayer, NetworkError

_SHARED = ("filters", "features")


def split_over(network: Network, devices: int) -> Network:
    """The same network with its split layers over ``devices``; over one, nothing is split.

    Raises NetworkError for a network in which nothing is split, or for filters that ``devices`` does not divide.
    """
    if devices == network.splits:
        return network
    if network.splits == 1:
        raise NetworkError(
            f"network {network.name}: no layer is split, so {devices} devices compute as one; expected a network with "
            "splits, such as alex_v2_4gpu"
        )
    kept = min(layer.device for layer in network.layers if layer.device is not None)
    layers: list[AnyLayer] = []
    for layer in network.layers:
        if layer.device is None:
            layers.append(layer.model_copy(update={"parents": _parents(network, layer, devices)}))
        elif layer.device == kept:
            layers += (_copy(network, layer, device, devices) for device in range(devices))
    return Network(network.name, tuple(layers), network.title, network.source, network.notes)


def _copy(network: Network, layer: AnyLayer, device: int, devices: int) -> AnyLayer:
    changed = {"name": _name(layer.name, device, devices), "parents": _parents(network, layer, devices, device)}
    for field in _SHARED:
        if (share := getattr(layer, field, None)) is not None:
            if share * network.splits % devices:
                raise NetworkError(
                    f"layer {layer.name}: {field} {share * network.splits}: cannot be split over {devices} devices"
                )
            changed[field] = share * network.splits // devices
    return layer.model_copy(update={**changed, "device": device if devices > 1 else None})


def _parents(network: Network, layer: AnyLayer, devices: int, device: int | None = None) -> tuple[str, ...]:
    """All copies of a parent where it reads several of them, else the one on its own ``device``."""
    split = [parent for parent in layer.parents if network.by_name[parent].device is not None]
    parts = [parent.rpartition("@")[0] for parent in split]
    parents: dict[str, None] = {}
    for parent in layer.parents:
        if parent not in split:
            parents[parent] = None
            continue
        every = device is None or parts.count(parent.rpartition("@")[0]) > 1
        parents |= dict.fromkeys(_name(parent, on, devices) for on in (range(devices) if every else (device,)))
    return tuple(parents)


def _name(name: str, device: int | None, devices: int) -> str:
    part = name.rpartition("@")[0]
    return part if devices == 1 else f"{part}@{device}"
