"""Fit every model that a bundle's measurements support, and compare each with them."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TypedDict

from scalecurve.bundle.open import Bundle
from scalecurve.curves.compute import believable
from scalecurve.curves.missing import nothing_valid
from scalecurve.render.table import Column, Table
from scalecurve_models.collectives.comparison import CollectiveComparison, compare_bundle
from scalecurve_models.collectives.tables import collective_tables
from scalecurve_models.comparison.compare_models import SeriesComparison, compare_models
from scalecurve_models.comparison.factors import factor_table
from scalecurve_models.comparison.tables import comparison_tables
from scalecurve_models.fit.devices import DeviceFit, device_table, fit_device
from scalecurve_models.fitting.least_squares import FitError
from scalecurve_models.fitting.observations import observed_series, programs
from scalecurve_models.learning_curves.fit import LearningFit, depth_of, fit_learning
from scalecurve_models.learning_curves.servers import ServedProgram, served_tables, server_programs
from scalecurve_models.learning_curves.tables import depth_tables, loss_models_table, tabulate_learning
from scalecurve_models.optimus.depth import DepthRegression, LeftOutDepth


class FitOptions(TypedDict):
    """What a fit of one bundle or of several leaves out."""

    hold_out_batches: Collection[int]
    include_unproved: bool
    training: bool


@dataclass(frozen=True)
class FitReport:
    """All fits of one bundle; ``failures`` lists the models that it does not support, one line each."""

    bundle: str
    scaling: tuple[SeriesComparison, ...]
    collectives: tuple[CollectiveComparison, ...]
    learning: LearningFit
    devices: tuple[DeviceFit, ...]
    failures: tuple[str, ...]
    served: tuple[ServedProgram, ...] = ()

    def tables(self, *, every_model: bool = True) -> tuple[Table, ...]:
        return fit_tables([self], every_model=every_model)


@dataclass(frozen=True)
class FittedBundles:
    """The tables of several bundles, and the loss curves of depths left out of one regression over all of them."""

    tables: tuple[Table, ...]
    left_out: tuple[LeftOutDepth, ...]


def fit_tables(reports: Sequence[FitReport], factors: Table | None = None, *, every_model: bool) -> tuple[Table, ...]:
    """The fits of one bundle or several in one set of tables; ``factors`` compares the curves of several.

    Where training losses were fitted, the other models are shown only with ``every_model``.
    """
    trained = [(report.bundle, report.learning) for report in reports if report.learning.training]
    if not every_model and any(learning.points for _, learning in trained):
        models = loss_models_table(trained)
        models = replace(models, notes=(*models.notes, "Other models, and the tables of each bundle: --all."))
        learning = tabulate_learning(trained[0][1]) if len(trained) == 1 else ()
        return tuple(table for table in (models, *learning) if table.rows)
    scaling = tuple(comparison for report in reports for comparison in report.scaling)
    first, *rest = comparison_tables(scaling, every_model=every_model) or (None,)
    tables = (
        loss_models_table(trained) if trained else None,
        first,
        factors,
        *rest,
        *collective_tables([comparison for report in reports for comparison in report.collectives]),
        *(
            table if number == 1 else replace(table, name=f"{table.name}-{number}", title=f"{table.title}: {label}")
            for number, (label, learning) in enumerate(
                [(r.bundle, r.learning) for r in reports if r.learning.points], 1
            )
            for table in tabulate_learning(learning)
        ),
        *served_tables([program for report in reports for program in report.served]),
        *((device_table([device for report in reports for device in report.devices]),) if scaling else ()),
    )
    reasons = tuple(reason for report in reports for reason in report.failures)
    empty = Table("predicted", "No measured points to fit a model to", (Column("series", "Series"),), (), reasons)
    return tuple(table for table in tables if table and table.rows) or (empty,)


def fit_several(
    bundles: Sequence[Bundle],
    hold_out: Collection[int] = (),
    *,
    hold_out_batches: Collection[int] = (),
    include_unproved: bool = False,
    training: bool = False,
    every_model: bool = True,
) -> FittedBundles:
    """Fit several bundles, each for itself, and compare their curves by factor; see ``fit``.

    A held-out worker count may be measured in some of the bundles only.
    """
    used = [believable(bundle, include_unproved) for bundle in bundles]
    measured = [{point.workers for series in observed_series(bundle) for point in series.points} for bundle in used]
    _check_held_out("worker count", hold_out, set().union(*measured))
    reports = [
        fit(
            bundle,
            [workers for workers in hold_out if workers in counts],
            hold_out_batches=hold_out_batches,
            include_unproved=True,
            training=training,
            prefix=f"{bundle.label}: ",
        )
        for bundle, counts in zip(used, measured, strict=True)
    ]
    tables = fit_tables(reports, factor_table(used), every_model=every_model)
    depth, left_out, notes = regress_loss_curves(reports)
    over_all = depth_tables(depth, left_out, training) if sum(bool(r.learning.points) for r in reports) > 1 else ()
    all_bundles = [
        replace(table, name=f"{table.name}_all", title=f"{table.title}: all bundles", notes=(*table.notes, *notes))
        for table in over_all
        if table.rows
    ]
    return FittedBundles((*tables, *all_bundles), left_out)


def regress_loss_curves(
    reports: Sequence[FitReport],
) -> tuple[DepthRegression | None, tuple[LeftOutDepth, ...], list[str]]:
    """One regression of the loss curves of all bundles over model size and device."""
    notes: list[str] = []
    curves = [curve for report in reports for point in report.learning.points for curve in point.curves]
    return *depth_of(curves, notes), notes


def fit(
    bundle: Bundle,
    hold_out: Collection[int] = (),
    *,
    hold_out_batches: Collection[int] = (),
    include_unproved: bool = False,
    training: bool = False,
    prefix: str = "",
) -> FitReport:
    """Fit every applicable model; ``prefix`` stands before the names of curves in tables that lack the bundle.

    ``hold_out`` and ``hold_out_batches`` are worker counts and batches per worker to exclude from the scaling models.
    Points that do not count (``scalecurve.curves.doubts``) are left out unless ``include_unproved`` is set. Losses are
    those on held-out data, or with ``training`` those that were trained on.
    Raises FitError for one that was not measured, or if nothing is left to fit to.
    """
    bundle = believable(bundle, include_unproved)
    series = observed_series(bundle)
    batches = {p.point.batch_per_worker for each in series for p in each.points if p.point.batch_per_worker}
    _check_held_out("worker count", hold_out, {workers for each in series for workers in each.workers})
    _check_held_out("batch", hold_out_batches, batches)
    collectives, failed = compare_bundle(bundle, prefix)
    devices = tuple(fit_device(each, prefix) for each in programs(series).values())
    learning = fit_learning(bundle, training=training)
    void = [f"{prefix}{why}"] if (why := nothing_valid(bundle)) else []
    return FitReport(
        bundle=bundle.label,
        scaling=compare_models(bundle, hold_out=hold_out, hold_out_batches=hold_out_batches, include_unproved=True),
        collectives=collectives,
        learning=learning,
        served=server_programs(bundle, learning),
        devices=devices,
        failures=(*void, *failed, *(reason for each in devices for reason in each.failures)),
    )


def _check_held_out(noun: str, held_out: Collection[int], measured: Collection[int]) -> None:
    if unknown := sorted({*held_out} - {*measured}):
        known = ", ".join(map(str, sorted(measured))) or "none"
        raise FitError(f"cannot hold out {noun} {unknown[0]}: not measured (measured: {known})")
    if held_out and {*measured} <= {*held_out}:
        raise FitError(f"every {noun} is held out; nothing is left to fit to")
