"""Model and hybrid parallelism: layers named ``x@k`` run on device k, the others on one device of their own.

As TalwalkarLab/paleo, paleo/simulation.py and ``_estimate_remote_fetch`` of paleo/profilers/flops_profiler.py, with
their errors, unless ``corrected``:

- a layer that is not split counts as being on a device of its own, so that split 0 also fetches from it;
- in model parallelism values are fetched at the device's memory bandwidth, not the link's;
- every parent in another group of four devices halves the bandwidth once more, for the parents after it too;
- hybrid parallelism counts the values of the last unsplit layer, not their bytes, as what pipelining saves.
"""

from dataclasses import dataclass
from math import prod

import numpy as np

from scalecurve.hardware.devices import Link
from scalecurve_models.networks.graph import Network
from scalecurve_models.networks.layer import AnyLayer
from scalecurve_models.paleo.communication import SCHEMES, exchange_ms
from scalecurve_models.paleo.costs import (
    PARAMETER_BYTES,
    NetworkCosts,
    PassCosts,
    Rates,
    costs_of,
    update_ms,
)
from scalecurve_models.paleo.nesting import bounds, nest
from scalecurve_models.paleo.scaling import Platform, check_counts
from scalecurve_models.paleo.terms import HEAD, PaleoError, Variant

GROUP = 4
"""Devices that share a host."""


@dataclass(frozen=True)
class PassBounds:
    """Bounds on a pass under model parallelism in milliseconds: branches in parallel, and in sequence."""

    name: str
    least_ms: float
    most_ms: float

    def plain(self) -> dict[str, object]:
        return {"pass": self.name, "lower_ms": self.least_ms, "upper_ms": self.most_ms}


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

    def plain(self) -> dict[str, object]:
        return dict(self.__dict__)


def predict_model_parallel(
    network: Network, platform: Platform, *, batch: int, variant: Variant = HEAD
) -> list[PassBounds]:
    """Bounds of the forward and the backward pass, each split on its own device. Raises PaleoError."""
    check_counts(batch, 1, "weak")
    if network.splits > GROUP and not variant.corrected:
        raise PaleoError(
            f"network {network.name}: {network.splits} splits: the authors' code supports at most {GROUP} under model "
            "parallelism; use the corrected arithmetic or hybrid parallelism"
        )
    costs = costs_of(network, variant)
    fetches = _fetches(network, platform, batch, platform.link if variant.corrected else None, variant.corrected)
    items = nest(network)
    passes = []
    for name, part in (("forward", costs.forward), ("backward", costs.backward)):
        times = _totals(costs, part, platform, batch)
        least, most = bounds(items, {layer: time + fetches[layer] for layer, time in times.items()})
        passes.append(PassBounds(name, least, most))
    return passes


def predict_hybrid(
    network: Network,
    platform: Platform,
    *,
    batch: int,
    workers: int,
    variant: Variant = HEAD,
) -> list[HybridPart]:
    """A step of "one weird trick": unsplit layers are data parallel, split ones model parallel.

    ``batch`` is per worker. The split layers run once per worker's batch; only the first fetch is not hidden.
    Raises PaleoError.
    """
    check_counts(batch, workers, "weak")
    costs = costs_of(network, variant)
    fetches = _fetches(network, platform, batch, platform.link, variant.corrected)
    split = {layer.name for layer in network.main_layers if layer.device is not None}
    sizes = {True: 0, False: 0}
    for name, parameters in zip(costs.names, costs.parameters, strict=True):
        sizes[name in split] += PARAMETER_BYTES * parameters
    items = nest(network)
    rates = Rates.of(platform.device, platform.ppp_comp, platform.precision)
    data_ms, model_ms = [], []
    for part in (costs.forward, costs.backward):
        compute, move = part.by_layer(batch, rates)
        move = move + np.array([fetches[name] for name in costs.names])
        alone = np.array([name not in split for name in costs.names])
        data_ms.append(float((np.maximum(compute, move) if variant.pipeline else compute + move)[alone].sum()))
        split_ms = {name: float(c + m) for name, c, m in zip(costs.names, compute, move, strict=True) if name in split}
        model_ms.append(
            _pipelined(
                bounds(items, split_ms)[0], _hidden(network, platform, batch, workers, variant.corrected), workers
            )
        )
    # The release uses the full update although it has just computed the pipelined one.
    data_update = update_ms(sizes[False], platform.device, variant.pipeline and variant.revision == "head")
    exchange = exchange_ms(sizes[False], platform.link, workers, SCHEMES["tree"], platform.ppp_comm)
    model_update = update_ms(sizes[True], platform.device)
    together = batch * workers
    return [
        HybridPart("data", workers, together, data_ms[0], data_ms[1], data_update, exchange),
        HybridPart("model", workers, together, model_ms[0], model_ms[1], model_update, 0.0),
    ]


def _pipelined(once: float, hidden: float | None, workers: int) -> float:
    return once if hidden is None else (once - hidden) * workers + hidden


def _hidden(network: Network, platform: Platform, batch: int, workers: int, corrected: bool) -> float | None:
    """Milliseconds of fetching hidden by a pipeline over the workers' batches; None for an unsplit network."""
    first = next((layer for layer in network.main_layers if layer.device is not None), None)
    if first is None:
        return None
    values = batch * prod(network.shapes[first.parents[0]])
    if corrected:
        return _fetch_ms(values * PARAMETER_BYTES, platform.link.gbps / 8, platform) * (workers - 1)
    return values / 2**30 / (platform.link.gbps / 8) * 1e3 * (workers - 1)


def _totals(costs: NetworkCosts, part: PassCosts, platform: Platform, batch: int) -> dict[str, float]:
    compute, move = part.by_layer(batch, Rates.of(platform.device, platform.ppp_comp, platform.precision))
    return {name: float(c + m) for name, c, m in zip(costs.names, compute, move, strict=True)}


def _fetches(network: Network, platform: Platform, batch: int, link: Link | None, corrected: bool) -> dict[str, float]:
    """Milliseconds that each layer needs to fetch its parents' outputs from other devices."""
    bandwidth = platform.device.memory_gb_s if link is None else link.gbps / 8
    return {
        layer.name: _fetched(network, layer, platform, batch, bandwidth, corrected) for layer in network.main_layers
    }


def _fetched(
    network: Network, layer: AnyLayer, platform: Platform, batch: int, bandwidth: float, corrected: bool
) -> float:
    total = 0.0
    for parent in network.parents_of(layer):
        values = batch * prod(network.shapes[parent.name])
        if corrected:
            if (layer.device or 0) != (parent.device or 0):
                share = bandwidth / (1 if _same_host(layer, parent) else 2)
                total += _fetch_ms(values * PARAMETER_BYTES, share, platform)
        elif layer.device != parent.device:
            if len(layer.parents) > 1 and not _same_host(layer, parent):
                bandwidth /= 2
            total += _fetch_ms(values * PARAMETER_BYTES, bandwidth, platform)
    return total


def _same_host(layer: AnyLayer, parent: AnyLayer) -> bool:
    return (layer.device or 0) // GROUP == (parent.device or 0) // GROUP


def _fetch_ms(bytes_: float, gib_per_second: float, platform: Platform) -> float:
    cycle = 1 / platform.device.clock_mhz / 1e3
    return max(cycle, bytes_ / 2**30 / gib_per_second * 1e3 / platform.ppp_comm)
