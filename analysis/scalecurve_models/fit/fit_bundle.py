"""Fit every model that a bundle's measurements support, and compare each with them."""

from collections.abc import Collection
from dataclasses import dataclass

from scalecurve.bundle.open import Bundle
from scalecurve.render.table import Cell, Column, Table
from scalecurve_models.collectives.comparison import CollectiveComparison, compare_bundle
from scalecurve_models.collectives.tables import collective_tables
from scalecurve_models.comparison.compare_models import SeriesComparison, compare_models
from scalecurve_models.comparison.tables import comparison_tables
from scalecurve_models.fitting.least_squares import FitError, mean_absolute
from scalecurve_models.fitting.observations import ObservedSeries, observed_series, programs
from scalecurve_models.fitting.parameter_tables import PARAMETER_COLUMNS, PARAMETER_NOTE, parameter_cells
from scalecurve_models.learning_curves.fit import LearningFit, fit_learning
from scalecurve_models.learning_curves.tables import learning_tables
from scalecurve_models.roofline.energy import EnergyFit, fit_energy
from scalecurve_models.roofline.utilization import UtilizationFit, fit_utilization


@dataclass(frozen=True)
class DeviceFit:
    """Utilization and energy of one program's devices, or the reasons why they could not be fitted."""

    series: str
    utilization: UtilizationFit | None
    utilization_failure: str
    energy: EnergyFit | None
    energy_failure: str


@dataclass(frozen=True)
class FitReport:
    """All fits of one bundle; ``failures`` lists the models that it does not support, one line each."""

    bundle: str
    scaling: tuple[SeriesComparison, ...]
    collectives: tuple[CollectiveComparison, ...]
    learning: LearningFit
    devices: tuple[DeviceFit, ...]
    failures: tuple[str, ...]

    def tables(self, *, every_model: bool = True) -> tuple[Table, ...]:
        tables = (
            *comparison_tables(self.scaling, every_model=every_model),
            *collective_tables(self.collectives),
            *learning_tables(self.learning),
            *((_device_table(self.devices),) if self.scaling else ()),
        )
        empty = Table("predicted", "No measured points to fit a model to", (Column("series", "Series"),), ())
        return tuple(table for table in tables if table.rows) or (empty,)


def fit(
    bundle: Bundle, hold_out: Collection[int] = (), level: float = 0.95, *, hold_out_batches: Collection[int] = ()
) -> FitReport:
    """Fit every applicable model.

    ``hold_out`` and ``hold_out_batches`` are worker counts and batches per worker to exclude from the scaling models.
    Raises FitError for one that was not measured, or if nothing is left to fit to.
    """
    series = observed_series(bundle)
    batches = {p.point.batch_per_worker for each in series for p in each.points if p.point.batch_per_worker}
    _check_held_out("worker count", hold_out, {workers for each in series for workers in each.workers})
    _check_held_out("batch", hold_out_batches, batches)
    collectives, failed = compare_bundle(bundle, level=level)
    devices = tuple(_devices(each, level) for each in programs(series).values())
    unfitted = [reason for each in devices for reason in (each.utilization_failure, each.energy_failure) if reason]
    return FitReport(
        bundle=bundle.label,
        scaling=compare_models(bundle, hold_out=hold_out, level=level, hold_out_batches=hold_out_batches),
        collectives=collectives,
        learning=fit_learning(bundle),
        devices=devices,
        failures=(*failed, *unfitted),
    )


def _check_held_out(noun: str, held_out: Collection[int], measured: Collection[int]) -> None:
    if unknown := sorted({*held_out} - {*measured}):
        known = ", ".join(map(str, sorted(measured))) or "none"
        raise FitError(f"cannot hold out {noun} {unknown[0]}: not measured (measured: {known})")
    if held_out and {*measured} <= {*held_out}:
        raise FitError(f"every {noun} is held out; nothing is left to fit to")


def _devices(series: tuple[ObservedSeries, ...], level: float) -> DeviceFit:
    points = [point for each in series for point in each.points]
    alone = [
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
            [batch for batch, _ in alone],
            [seconds for _, seconds in alone],
            flops_per_sample=flops.pop() if len(flops) == 1 else None,
            peak=peaks.pop() if len(peaks) == 1 else None,
            level=level,
        )
    except FitError as error:
        utilization_failure = str(error)
    powered = [(point.workers, point.throughput, point.joules) for point in points if point.joules is not None]
    energy: EnergyFit | None = None
    energy_failure = "" if powered else "energy: no record has power readings"
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
        "utilization: t = t0 + t1 m for m samples per worker, without communication; batch sizes are left out.",
        "energy: J/sample = e + p N/X, with e for the work and p watts per worker while it holds a device.",
        PARAMETER_NOTE,
    ]
    for each in devices:
        for name, fit_ in (("utilization", each.utilization), ("energy", each.energy)):
            if fit_ is not None:
                held_out = None if None in fit_.held_out else mean_absolute(fit_.held_out)
                rows += [(each.series, name, held_out, *parameter_cells(parameter)) for parameter in fit_.parameters]
        notes += [f"{each.series}: {reason}" for reason in (each.utilization_failure, each.energy_failure) if reason]
    return Table("devices", "Devices: utilization and energy", columns, tuple(rows), tuple(notes))
