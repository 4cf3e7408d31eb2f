"""What a device does at a batch size, and the energy that it takes: compute time, share of the peak, and power.

Compute time of a worker's step over its batch, and the share of the device's peak that a batch can use (MFU):

    t(m) = t0 + t1 m         MFU(m) = F m / (peak · t(m)), which tends to F/(peak · t1); half of that at m = t0/t1

R. W. Hockney's r∞ and n½ (Parallel Computing 5 (1987)) for a training step. F is the FLOPs per sample of a step.

Energy per sample: the energy of its arithmetic, and the power that devices draw while they hold it:

    J/sample = e + P · N/X       N workers, X samples/s: N/X are the worker-seconds per sample

e and P are separable where the same samples were processed at different efficiencies (or batches).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from scalecurve.render.table import Cell, Column, Table, columns_of
from scalecurve_models.fitting.least_squares import (
    FitError,
    Parameter,
    SumFit,
    fit_sum,
    mean_absolute,
    positive_array,
    same_length,
)
from scalecurve_models.fitting.observations import ObservedSeries
from scalecurve_models.fitting.parameter_tables import PARAMETER_COLUMNS, PARAMETER_NOTE, parameter_cells


@dataclass(frozen=True)
class DeviceFit:
    """Utilization and energy of one program's devices, or the reasons why they could not be fitted."""

    series: str
    utilization: SumFit | None
    energy: SumFit | None
    failures: tuple[str, ...]


def fit_device(series: tuple[ObservedSeries, ...], prefix: str) -> DeviceFit:
    """Fit utilization and energy of the devices of one program to all of its curves; ``prefix`` is for their names."""
    points = [point for each in series for point in each.points]
    alone = [
        (point.batch_per_worker, seconds)
        for point in points
        for each in point.repetitions
        if (seconds := each.step_s if point.workers == 1 else each.compute_s) is not None and seconds > 0
    ]
    flops = {point.flops_per_sample for point in points}
    peaks = {point.peak_flops for point in points}
    utilization: SumFit | None = None
    energy: SumFit | None = None
    failures = []
    try:
        utilization = fit_utilization(
            [batch for batch, _ in alone],
            [seconds for _, seconds in alone],
            flops_per_sample=flops.pop() if len(flops) == 1 else None,
            peak=peaks.pop() if len(peaks) == 1 else None,
        )
    except FitError as error:
        failures.append(str(error))
    powered = [(point.workers, point.throughput, point.joules) for point in points if point.joules is not None]
    try:
        if not powered:
            raise FitError("energy: no record has power readings")
        energy = fit_energy([n for n, _, _ in powered], [rate for _, rate, _ in powered], [j for _, _, j in powered])
    except FitError as error:
        failures.append(str(error))
    return DeviceFit(prefix + "; ".join(each.name for each in series), utilization, energy, tuple(failures))


def fit_utilization(
    batches: Sequence[float],
    seconds: Sequence[float],
    *,
    flops_per_sample: float | None = None,
    peak: float | None = None,
) -> SumFit:
    """Fit t0, t1, the half-speed batch and, where FLOPs and peak are known, the maximum MFU; batches are held out.

    Fitted to (samples per worker's step, its seconds without communication). Raises FitError for fewer than two
    different batches, or numbers that are not positive.
    """
    model = "utilization"
    m, t = positive_array(model, "batches", batches), positive_array(model, "times", seconds)
    same_length(model, {"batches": m, "times": t})
    different = len(set(m.tolist()))
    if different < 2:
        raise FitError(f"{model}: t0 and t1 need at least 2 different batches per worker, got {different}")
    fit = fit_sum([np.ones_like(m), m], t, m, t0="s", t1="s/sample")
    t0, t1 = fit.parameters
    half = Parameter("half_batch", unit="samples", note="the time does not grow with the batch")
    if t1.value:
        note = "half of the maximum MFU is reached here"
        half = Parameter("half_batch", (t0.value or 0.0) / t1.value, unit="samples", note=note)
    return replace(fit, parameters=(t0, t1, half, *_most(t1, flops_per_sample, peak)))


def _most(t1: Parameter, flops: float | None, peak: float | None) -> list[Parameter]:
    if not (flops and peak and t1.value):
        return []
    low = None if t1.high is None else flops / peak / t1.high
    high = None if not t1.low else flops / peak / t1.low
    return [Parameter("mfu_max", flops / peak / t1.value, low, high)]


def fit_energy(workers: Sequence[int], throughput: Sequence[float], joules: Sequence[float]) -> SumFit:
    """Fit ``e`` in J/sample and ``p`` in W per worker to (workers, samples/s over all, joules per sample over all).

    Raises FitError for fewer than two points, or numbers that are not positive.
    """
    model = "energy"
    n, x = positive_array(model, "worker counts", workers), positive_array(model, "throughputs", throughput)
    j = positive_array(model, "energies", joules)
    if same_length(model, {"worker counts": n, "throughputs": x, "energies": j}) < 2:
        raise FitError(f"{model}: e and P need at least 2 points, got {len(n)}")
    return fit_sum([np.ones_like(n), n / x], j, n, e="J/sample", p="W")


def device_table(devices: Sequence[DeviceFit]) -> Table:
    """Tabulate the parameters of all devices, and why a fit is missing."""
    columns = (
        *columns_of("text", series="Series", model="Model"),
        Column("held_out", "Mean error, left out", "percent"),
        *PARAMETER_COLUMNS,
    )
    rows: list[tuple[Cell, ...]] = []
    notes = [
        "utilization: t = t0 + t1 m for m samples per worker, without communication; batch sizes are not in it.",
        "energy: J/sample = e + p N/X, with e for the work and p watts per worker while it holds a device.",
        PARAMETER_NOTE,
    ]
    for each in devices:
        for name, fit_ in (("utilization", each.utilization), ("energy", each.energy)):
            if fit_ is not None:
                held_out = None if None in fit_.held_out else mean_absolute(fit_.held_out)
                rows += [(each.series, name, held_out, *parameter_cells(parameter)) for parameter in fit_.parameters]
        notes += [f"{each.series}: {reason}" for reason in each.failures]
    return Table("devices", "Devices: utilization and energy", columns, tuple(rows), tuple(notes))
