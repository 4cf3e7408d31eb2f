"""The roofline (S. Williams, A. Waterman, D. Patterson, CACM 52 (2009)): P = min(peak, bandwidth · intensity).

A multiply-add is two FLOPs, in the work and in the peak; intensity is FLOPs per byte of memory traffic.
"""

import math
from dataclasses import dataclass
from typing import Literal

from scalecurve.hardware.devices import find_device
from scalecurve.render.table import Column, Table, columns_of
from scalecurve_models.fitting.least_squares import FitError

MODEL = "roofline"
Limit = Literal["compute", "memory"]


@dataclass(frozen=True)
class Roof:
    """A device: peak in FLOP/s, memory bandwidth in B/s. Raises FitError unless both are positive."""

    peak: float
    bandwidth: float

    def __post_init__(self) -> None:
        for name in ("peak", "bandwidth"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise FitError(f"{MODEL}: {name} must be a finite positive number, got {value:g}")

    @property
    def ridge(self) -> float:
        return self.peak / self.bandwidth

    def seconds(self, flops: float, moved: float) -> tuple[float, Limit]:
        """The lower bound on the time of this work, and what sets it.

        Raises FitError for numbers that are negative, or both 0.
        """
        if not (flops >= 0 and moved >= 0 and 0 < flops + moved < math.inf):
            raise FitError(f"{MODEL}: work must be positive, got {flops:g} FLOP and {moved:g} B")
        compute, memory = flops / self.peak, moved / self.bandwidth
        return (compute, "compute") if compute >= memory else (memory, "memory")


def roof_of(device: str, precision: str = "fp32") -> Roof:
    """The roof of a shipped device, or of one from a YAML file.

    Raises HardwareError for a device or precision that is not known.
    """
    spec = find_device(device)
    return Roof(spec.peak(precision) * 1e9, spec.memory_gb_s * 1e9)


def roofline_table(device: str, precision: str, flops: float, moved: float) -> Table:
    """One row: the device, its ridge, the work's intensity, the lower bound on its time and what sets it.

    Raises HardwareError for a device or precision that is not known, FitError for work that is negative or nothing.
    """
    roof = roof_of(device, precision)
    seconds, limit = roof.seconds(flops, moved)
    columns = (
        *columns_of("text", device="Device", precision="Precision"),
        Column("peak_tflops", "Peak", "number", "TFLOP/s"),
        Column("bandwidth_gb_s", "Memory", "number", "GB/s"),
        *columns_of("number", "FLOP/B", ridge="Ridge", intensity="Intensity"),
        Column("limit", "Limited by"),
        Column("ms", "Lower bound", "number", "ms"),
        Column("share", "Max. share of peak", "percent"),
    )
    intensity = flops / moved if moved else None
    row = (device, precision, roof.peak / 1e12, roof.bandwidth / 1e9, roof.ridge, intensity, limit)
    share = flops / roof.peak / seconds
    return Table("roofline", "Roofline", columns, ((*row, seconds * 1e3, share),))
