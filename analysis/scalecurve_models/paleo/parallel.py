"""Model and hybrid parallelism: layers named ``x@k`` run on device k, the others on one device of their own.

As TalwalkarLab/paleo, paleo/simulation.py and ``_estimate_remote_fetch`` of paleo/profilers/flops_profiler.py, with
their errors, unless ``corrected``:

- a layer that is not split counts as being on a device of its own, so that split 0 also fetches from it;
- in model parallelism values are fetched at the device's memory bandwidth, not the link's;
- every parent in another group of four devices halves the bandwidth once more, for the parents after it too;
- hybrid parallelism counts the values of the last unsplit layer, not their bytes, as what pipelining saves.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from scalecurve_models.networks.graph import Network
from scalecurve_models.networks.layer import AnyLayer, NetworkError
from scalecurve_models.paleo.costs import PARAMETER_BYTES, Array, Rates, costs_of, update_ms
from scalecurve_models.paleo.nesting import bounds, nest
from scalecurve_models.paleo.scaling import SCHEMES, Platform, check_counts, exchange_ms
from scalecurve_models.paleo.terms import HEAD, PaleoError, Variant

GROUP = 4  # devices that share a host
_DIVIDED = ("filters", "features")


@dataclass(frozen=True)
class PassBounds:
    """Bounds on a pass under model parallelism in milliseconds: branches in parallel, and in sequence."""

    name: str
    least_ms: float
    most_ms: float


@dataclass(frozen=True)
class ModelParallelStep:
    """A step of one batch with a network over ``workers`` devices, in milliseconds.

    ``alone_ms`` is the step of the network that is not split; as in the authors' code there is no update.
    """

    workers: int
    batch: int
    passes: tuple[PassBounds, ...]
    alone_ms: float

    @property
    def step_ms(self) -> float:
        """Time with branches in parallel; on one device they run in sequence."""
        return self.most_ms if self.workers == 1 else sum(each.least_ms for each in self.passes)

    @property
    def most_ms(self) -> float:
        return sum(each.most_ms for each in self.passes)

    @property
    def throughput(self) -> float:
        return self.batch / self.step_ms * 1e3

    @property
    def speedup(self) -> float:
        """Time on one machine over time on all: "average training speed-up" of Dean et al., NIPS 2012, Figure 3."""
        return self.alone_ms / self.step_ms

    def plain(self) -> dict[str, object]:
        passes = {each.name: {"lower_ms": each.least_ms, "upper_ms": each.most_ms} for each in self.passes}
        values = {"step_ms": self.step_ms, "throughput": self.throughput, "speedup": self.speedup}
        return {"workers": self.workers, **passes, **values}


@dataclass(frozen=True)
class HybridPart:
    """The data-parallel or the model-parallel layers of a hybrid step, in milliseconds."""

    part: str
    workers: int
    batch: int
    forward_ms: float
    backward_ms: float
    update_ms: float
    communication_ms: float


def predict_model_parallel(
    network: Network, platform: Platform, *, batch: int, variant: Variant = HEAD
) -> list[PassBounds]:
    """Predict bounds of the forward and the backward pass, each split on its own device. Raises PaleoError."""
    check_counts(batch, 1, "weak")
    if network.splits > GROUP and not variant.corrected:
        raise PaleoError(
            f"network {network.name}: {network.splits} splits: the authors' code supports at most {GROUP} under model "
            "parallelism; use the corrected arithmetic or hybrid parallelism"
        )
    costs = costs_of(network, variant)
    link = platform.link.gbps / 8 if variant.corrected else platform.device.memory_gb_s
    fetches = _fetches(network, platform, batch, link, variant.corrected)
    rates = Rates.of(platform.device, platform.ppp_comp, platform.precision)
    items = nest(network)
    passes = []
    for name, part in (("forward", costs.forward), ("backward", costs.backward)):
        times = np.add(*part.layer_times(batch, rates)) + fetches
        passes.append(PassBounds(name, *bounds(items, dict(zip(costs.names, times.tolist(), strict=True)))))
    return passes


def predict_model_scaling(
    network: Network, platform: Platform, *, batch: int, workers: Sequence[int], variant: Variant = HEAD
) -> list[ModelParallelStep]:
    """Predict a step of the same global batch with the split layers over each number of workers.

    Raises PaleoError for counts that cannot be, NetworkError where the network cannot be split over a count.
    """
    for n in workers:
        check_counts(batch, n, "strong")

    def passes(devices: int) -> tuple[PassBounds, ...]:
        return tuple(predict_model_parallel(split_over(network, devices), platform, batch=batch, variant=variant))

    alone_ms = sum(each.most_ms for each in passes(1))
    return [ModelParallelStep(n, batch, passes(n), alone_ms) for n in workers]


def split_over(network: Network, devices: int) -> Network:
    """Return the network with its split layers, each with its share of filters, over ``devices``; over one, unsplit.

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
            layers.append(layer.model_copy(update={"parents": _split_parents(network, layer, devices)}))
        elif layer.device == kept:
            layers += (_share(network, layer, device, devices) for device in range(devices))
    return Network(network.name, tuple(layers), network.title, network.source, network.notes)


def predict_hybrid(
    network: Network, platform: Platform, *, batch: int, workers: int, variant: Variant = HEAD
) -> list[HybridPart]:
    """Predict a step of "one weird trick": unsplit layers are data parallel, split ones model parallel.

    ``batch`` is per worker. The split layers run once per worker's batch; only the first fetch is not hidden.
    Raises PaleoError.
    """
    check_counts(batch, workers, "weak")
    costs = costs_of(network, variant)
    fetches = _fetches(network, platform, batch, platform.link.gbps / 8, variant.corrected)
    hidden = _overlap_ms(network, platform, batch, workers, variant.corrected)
    names = {layer.name for layer in network.main_layers if layer.device is not None}
    split = np.array([name in names for name in costs.names])
    model_bytes, data_bytes = (PARAMETER_BYTES * int(np.array(costs.parameters)[of].sum()) for of in (split, ~split))
    items = nest(network)
    rates = Rates.of(platform.device, platform.ppp_comp, platform.precision)
    data_ms, model_ms = [], []
    for part in (costs.forward, costs.backward):
        compute, move = part.layer_times(batch, rates)
        move = move + fetches
        data_ms.append(float((np.maximum(compute, move) if variant.pipeline else compute + move)[~split].sum()))
        split_ms = {
            name: time for name, time in zip(costs.names, (compute + move).tolist(), strict=True) if name in names
        }
        once = bounds(items, split_ms)[0]
        model_ms.append(once if hidden is None else (once - hidden) * workers + hidden)
    # The release uses the full update although it has just computed the pipelined one.
    data_update = update_ms(data_bytes, platform.device, variant.pipeline and variant.revision == "head")
    exchange = exchange_ms(data_bytes, platform.link, workers, SCHEMES["tree"], platform.ppp_comm)
    model_update = update_ms(model_bytes, platform.device)
    return [
        HybridPart("data", workers, batch * workers, data_ms[0], data_ms[1], data_update, exchange),
        HybridPart("model", workers, batch * workers, model_ms[0], model_ms[1], model_update, 0.0),
    ]


def _overlap_ms(network: Network, platform: Platform, batch: int, workers: int, corrected: bool) -> float | None:
    """Milliseconds of fetching hidden by a pipeline over the workers' batches; None for an unsplit network."""
    first = next((layer for layer in network.main_layers if layer.device is not None), None)
    if first is None:
        return None
    values = batch * prod(network.shapes[first.parents[0]])
    if corrected:
        return _fetch_ms(values * PARAMETER_BYTES, platform.link.gbps / 8, platform) * (workers - 1)
    return values / 2**30 / (platform.link.gbps / 8) * 1e3 * (workers - 1)


def _fetches(network: Network, platform: Platform, batch: int, bandwidth: float, corrected: bool) -> Array:
    """Milliseconds that each layer needs to fetch its parents' outputs from other devices; bandwidth in GiB/s."""
    return np.array([_layer_fetch_ms(network, x, platform, batch, bandwidth, corrected) for x in network.main_layers])


def _layer_fetch_ms(
    network: Network, layer: AnyLayer, platform: Platform, batch: int, bandwidth: float, corrected: bool
) -> float:
    total = 0.0
    for parent in network.parents_of(layer):
        size = batch * prod(network.shapes[parent.name]) * PARAMETER_BYTES
        if corrected:
            if (layer.device or 0) != (parent.device or 0):
                total += _fetch_ms(size, bandwidth if _same_host(layer, parent) else bandwidth / 2, platform)
        elif layer.device != parent.device:
            if len(layer.parents) > 1 and not _same_host(layer, parent):
                bandwidth /= 2
            total += _fetch_ms(size, bandwidth, platform)
    return total


def _same_host(layer: AnyLayer, parent: AnyLayer) -> bool:
    return (layer.device or 0) // GROUP == (parent.device or 0) // GROUP


def _fetch_ms(bytes_: float, gib_per_second: float, platform: Platform) -> float:
    cycle = 1 / platform.device.clock_mhz / 1e3
    return max(cycle, bytes_ / 2**30 / gib_per_second * 1e3 / platform.ppp_comm)


def _share(network: Network, layer: AnyLayer, device: int, devices: int) -> AnyLayer:
    changed = {
        "name": _name_on(layer.name, device, devices),
        "parents": _split_parents(network, layer, devices, device),
    }
    for field in _DIVIDED:
        if (share := getattr(layer, field, None)) is not None:
            if share * network.splits % devices:
                raise NetworkError(
                    f"layer {layer.name}: {field} {share * network.splits}: cannot be split over {devices} devices"
                )
            changed[field] = share * network.splits // devices
    return layer.model_copy(update={**changed, "device": device if devices > 1 else None})


def _split_parents(network: Network, layer: AnyLayer, devices: int, device: int | None = None) -> tuple[str, ...]:
    """All copies of a parent where it reads several of them, else the one on its own ``device``."""
    split = [parent for parent in layer.parents if network.by_name[parent].device is not None]
    parts = [parent.rpartition("@")[0] for parent in split]
    parents: dict[str, None] = {}
    for parent in layer.parents:
        if parent not in split:
            parents[parent] = None
            continue
        every = device is None or parts.count(parent.rpartition("@")[0]) > 1
        parents |= dict.fromkeys(_name_on(parent, on, devices) for on in (range(devices) if every else (device,)))
    return tuple(parents)


def _name_on(name: str, device: int | None, devices: int) -> str:
    part = name.rpartition("@")[0]
    return part if devices == 1 else f"{part}@{device}"
