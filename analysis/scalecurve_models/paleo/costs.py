"""A network's charges as arrays, so that timing a pass on a device for any batch takes microseconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from scalecurve.hardware.devices import DeviceSpec, Precision
from scalecurve_models.networks.graph import Network
from scalecurve_models.paleo.terms import HEAD, Charge, Variant, check_ppp, layer_terms

Array = npt.NDArray[np.float64]
PARAMETER_BYTES = 4


@dataclass(frozen=True)
class Rates:
    """The speed of a device: milliseconds per FLOP, per byte, and per clock cycle.

    The peak and the memory bandwidth are both divided by ``ppp``, the platform percent of peak (Paleo has one for
    compute and memory, another for the network). Memory bandwidth counts in GiB/s, as in Paleo.
    """

    flop_ms: float
    byte_ms: float
    cycle_ms: float
    value_bytes: int = 4

    @classmethod
    def of(cls, device: DeviceSpec, ppp: float = 1.0, precision: Precision = "fp32") -> Rates:
        """Raises PaleoError for a PPP that is not positive, HardwareError for a precision without a peak."""
        check_ppp("ppp", ppp)
        return cls(
            flop_ms=1e3 / (device.peak(precision) * 1e9) / ppp,
            byte_ms=1e3 / (device.memory_gb_s * 2**30) / ppp,
            cycle_ms=1 / device.clock_mhz / 1e3,
            value_bytes=4 if precision in ("fp32", "tf32") else 2,
        )


@dataclass(frozen=True)
class PassCosts:
    """Charges of a pass, one entry per product and per move, each with its layer."""

    layers: int
    flops: Array
    flops_layer: npt.NDArray[np.intp]
    each: Array
    once: Array
    moved_layer: npt.NDArray[np.intp]

    @classmethod
    def of(cls, charges: Sequence[Charge]) -> PassCosts:
        flops = [(index, flop) for index, charge in enumerate(charges) for flop in charge.flops if flop > 0]
        moved = [(index, move) for index, charge in enumerate(charges) for move in charge.moved]
        return cls(
            layers=len(charges),
            flops=np.array([flop for _, flop in flops]),
            flops_layer=np.array([index for index, _ in flops], dtype=np.intp),
            each=np.array([move.each for _, move in moved], dtype=np.float64),
            once=np.array([move.once for _, move in moved], dtype=np.float64),
            moved_layer=np.array([index for index, _ in moved], dtype=np.intp),
        )

    def total(self, batch: int, rates: Rates, pipeline: bool = False) -> float:
        """Milliseconds of the pass: each layer computes, then moves; with ``pipeline`` the longer of the two."""
        if pipeline:
            return float(np.maximum(*self.layer_times(batch, rates)).sum())
        compute, move = self._times(batch, rates)
        return float(compute.sum() + move.sum())

    def layer_times(self, batch: int, rates: Rates) -> tuple[Array, Array]:
        compute, move = self._times(batch, rates)
        computing, moving = np.zeros(self.layers), np.zeros(self.layers)
        np.add.at(computing, self.flops_layer, compute)
        np.add.at(moving, self.moved_layer, move)
        return computing, moving

    def _times(self, batch: int, rates: Rates) -> tuple[Array, Array]:
        compute = np.maximum(self.flops * (batch * rates.flop_ms), rates.cycle_ms)
        values = self.each * batch + self.once
        return compute, np.maximum(values * (rates.value_bytes * rates.byte_ms), rates.cycle_ms)


@dataclass(frozen=True)
class NetworkCosts:
    """A network's passes and parameters. ``parameters`` are Paleo's: a bias for every filter, no normalisation."""

    names: tuple[str, ...]
    forward: PassCosts
    backward: PassCosts
    parameters: tuple[int, ...]

    @property
    def parameter_bytes(self) -> int:
        """Bytes updated and sent in every step, in single precision."""
        return PARAMETER_BYTES * sum(self.parameters)


@lru_cache(maxsize=256)
def costs_of(network: Network, variant: Variant = HEAD) -> NetworkCosts:
    """The network's charges, computed once per network object."""
    terms = layer_terms(network, variant)
    return NetworkCosts(
        names=tuple(layer.name for layer in terms),
        forward=PassCosts.of([layer.forward for layer in terms]),
        backward=PassCosts.of([layer.backward for layer in terms]),
        parameters=tuple(layer.parameters for layer in terms),
    )


def update_ms(parameter_bytes: int, device: DeviceSpec, pipeline: bool = False) -> float:
    """Milliseconds of w -= rate * gradient: two FLOPs per parameter, three moves, at full peak regardless of PPP."""
    # A TPU has no fp32 peak; its slowest path stands for it, and hardly matters: an update is bound by memory.
    rates = Rates.of(device, precision="fp32" if "fp32" in device.gflops else min(device.gflops, key=device.peak))
    flops = 2 * (parameter_bytes // PARAMETER_BYTES)
    compute = max(flops * rates.flop_ms, rates.cycle_ms) if flops else 0.0
    move = 3 * max(parameter_bytes * rates.byte_ms, rates.cycle_ms)
    return max(compute, move) if pipeline else compute + move
