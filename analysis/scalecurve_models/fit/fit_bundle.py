"""Every model that a bundle's measurements can carry, fitted, and set beside them with its error."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from scalecurve.bundle.open import Bundle
from scalecurve.render.table import Cell, Column, Table
from scalecurve_models.collectives.comparison import (
    CollectiveComparison,
    compare_algorithms,
    requested_algorithms,
    timed_points,
)
from scalecurve_models.collectives.tables import collective_tables
from scalecurve_models.comparison.compare_models import SeriesComparison, compare_models
from scalecurve_models.comparison.tables import comparison_tables
from scalecurve_models.fitting.least_squares import FitError
from scalecurve_models.fitting.observations import ObservedSeries, observed_series, programs
from scalecurve_models.fitting.parameter_tables import PARAMETER_COLUMNS, PARAMETER_NOTE, parameter_cells
from scalecurve_models.learning_curves.fit import LearningFit, fit_learning
from scalecurve_models.learning_curves.tables import learning_tables
from scalecurve_models.roofline.energy import EnergyFit, fit_energy
from scalecurve_models.roofline.utilization import UtilizationFit, fit_utilization


@dataclass(frozen=True)
class DeviceFit:
    """What the points of one program tell of its devices; the reasons where they do not."""

    series: str
    utilization: UtilizationFit | None
    utilization_failure: str
    energy: EnergyFit | None
    energy_failure: str


@dataclass(frozen=True)
class FitReport:
    """All fits of one bundle; ``failures`` say which models it cannot carry, one line each."""

    bundle: str
    scaling: tuple[SeriesComparison, ...]
    collectives: tuple[CollectiveComparison, ...]
    learning: LearningFit
    devices: tuple[DeviceFit, ...]
    failures: tuple[str, ...]

    def tables(self, *, every_model: bool = True) -> tuple[Table, ...]:
        found = (
            *comparison_tables(self.scaling, every_model=every_model),
            *collective_tables(self.collectives),
            *learning_tables(self.learning),
            *((_device_table(self.devices),) if self.scaling else ()),
        )
        kept = tuple(table for table in found if table.rows)
        nothing = Table(
            "predicted", "Nothing was measured that a model could be fitted to", (Column("series", "Series"),), ()
        )
        return kept or (nothing,)


def fit(
    bundle: Bundle, hold_out: Collection[int] = (), level: float = 0.95, *, hold_out_batches: Collection[int] = ()
) -> FitReport:
    """Fit every applicable model.

    ``hold_out`` are worker counts that no scaling model may see, ``hold_out_batches`` batches of a worker.

    Raises:
        FitError: a count or a batch to hold out that was not measured, or nothing left to fit to.
    """
    series = observed_series(bundle)
    measured = {workers for each in series for workers in each.workers}
    for workers in hold_out:
        if workers not in measured:
            known = ", ".join(str(n) for n in sorted(measured)) or "none"
            raise FitError(f"hold out {workers}: no point of {workers} workers was measured; measured: {known}")
    batches = {p.point.batch_per_worker for each in series for p in each.points if p.point.batch_per_worker}
    for batch in hold_out_batches:
        if batch not in batches:
            known = ", ".join(str(b) for b in sorted(batches)) or "none"
            raise FitError(f"hold out a batch of {batch}: no point had it; measured: {known}")
    if hold_out_batches and batches <= {*hold_out_batches}:
        raise FitError("hold out every batch: nothing is left to fit to")
    failures: list[str] = []
    collectives = []
    asked = requested_algorithms(bundle)
    for name, points in timed_points(bundle).items():
        try:
            collectives.append(compare_algorithms(points, series=name, level=level, requested=asked.get(name)))
        except FitError as error:
            failures.append(f"{name}: {error}")
    devices = tuple(_devices(each, level) for each in programs(series).values())
    failures += [reason for each in devices for reason in (each.utilization_failure, each.energy_failure) if reason]
    return FitReport(
        bundle=bundle.label,
        scaling=compare_models(bundle, hold_out=hold_out, level=level, hold_out_batches=hold_out_batches),
        collectives=tuple(collectives),
        learning=fit_learning(bundle),
        devices=devices,
        failures=tuple(failures),
    )


def _devices(series: tuple[ObservedSeries, ...], level: float) -> DeviceFit:
    points = [point for each in series for point in each.points]
    own = [
        (point.batch_per_worker, seconds)
        for point in points
        for each in point.repetitions
        if (seconds := each.step_s if point.workers == 1 else each.compute_s) is not None
    ]
    flops = {point.flops_per_sample for point in points}
    peaks = {point.peak_flops for point in points}
    utilization: UtilizationFit | None = None
    utilization_failure = ""
    try:
        utilization = fit_utilization(
            [batch for batch, _ in own],
            [seconds for _, seconds in own],
            flops_per_sample=flops.pop() if len(flops) == 1 else None,
            peak=peaks.pop() if len(peaks) == 1 else None,
            level=level,
        )
    except FitError as error:
        utilization_failure = str(error)
    powered = [(point.workers, point.throughput, point.joules) for point in points if point.joules is not None]
    energy: EnergyFit | None = None
    energy_failure = "" if powered else "energy: no record has power"
    if powered:
        try:
            energy = fit_energy(
                [n for n, _, _ in powered], [rate for _, rate, _ in powered], [j for _, _, j in powered], level
            )
        except FitError as error:
            energy_failure = str(error)
    names = "; ".join(each.name for each in series)
    return DeviceFit(names, utilization, utilization_failure, energy, energy_failure)


def _device_table(devices: tuple[DeviceFit, ...]) -> Table:
    columns = (
        Column("series", "Series"),
        Column("model", "Model"),
        Column("held_out", "Mean error, left out", "percent"),
        *PARAMETER_COLUMNS,
    )
    rows: list[tuple[Cell, ...]] = []
    notes = [
        "utilization: t = t0 + t1 m for m samples a worker, without communication; held out are whole batch sizes.",
        "energy: J/sample = e + p N/X, e for the work and p watts a worker for as long as it holds a device.",
        PARAMETER_NOTE,
    ]
    for each in devices:
        for name, fit_ in (("utilization", each.utilization), ("energy", each.energy)):
            if fit_ is not None:
                known = [abs(error) for error in fit_.held_out if error is not None]
                held = sum(known) / len(known) if known and len(known) == len(fit_.held_out) else None
                rows += [(each.series, name, held, *parameter_cells(parameter)) for parameter in fit_.parameters]
        notes += [f"{each.series}: {reason}" for reason in (each.utilization_failure, each.energy_failure) if reason]
    return Table("devices", "Devices: time over the batch, and energy", columns, tuple(rows), tuple(notes))
