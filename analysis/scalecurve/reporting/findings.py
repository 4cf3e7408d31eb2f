"""All that a report computes from its bundles, each step table read once: what sections and plots draw from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from scalecurve.bundle.differences import Difference
from scalecurve.bundle.measurement import MeasuredSeries, measure
from scalecurve.bundle.open import Bundle
from scalecurve.bundle.step_summary import StepSummaries, summarize_steps
from scalecurve.checks.comparability import differences
from scalecurve.checks.diagnose import Diagnosis, diagnose_from
from scalecurve.curves.along_axes import ValueResult, along_axes
from scalecurve.curves.compute import believable, scaling
from scalecurve.curves.cost import CostReport, cost_of
from scalecurve.curves.doubts import all_counted
from scalecurve.curves.missing import MissingCurve, missing_curves
from scalecurve.curves.results import PointResult, ScalingResult
from scalecurve.curves.stated import StatedCurve
from scalecurve_api.spec.experiment import Cost
from scalecurve_api.spec.trial import Point

T = TypeVar("T")
WORKERS = "workers"


@dataclass(frozen=True)
class PredictionTarget:
    """What a priori models predict for: a device and a link by name or file, and a network in place of the workload's.

    Names are resolved by the models; empty ones stand for their defaults.
    """

    device: str
    link: str = ""
    network: str = ""


@dataclass(frozen=True)
class Analysis:
    """All that a report computes from its ``bundles``.

    ``price`` replaces what the experiments state; ``curves`` are the series that train something.

    ``published`` curves are those of a file of the user's. ``target`` is what to predict beside the measurement.

    ``x`` is the axis that the first figure is over, "" for the worker count, or what varies where it does not.

    Of points that do not count, headlines, ``costs`` and models have none unless ``include_unproved`` is set.
    """

    bundles: tuple[Bundle, ...]
    price: Cost | None
    measured: tuple[MeasuredSeries, ...]
    scaling: ScalingResult
    curves: ScalingResult
    costs: CostReport
    step_summaries: StepSummaries
    diagnosis: Diagnosis
    differences: tuple[Difference, ...]
    missing: tuple[MissingCurve, ...] = ()
    published: tuple[StatedCurve, ...] = ()
    include_unproved: bool = False
    target: PredictionTarget | None = None
    x: str = ""
    _cache: dict[Callable[[Analysis], Any], Any] = field(default_factory=dict, repr=False, compare=False)

    def once(self, compute: Callable[[Analysis], T]) -> T:
        """``compute(self)``, computed once: what several sections and plots of a feature share."""
        if compute not in self._cache:
            self._cache[compute] = compute(self)
        return cast(T, self._cache[compute])

    def result_of(self, bundle: str, series: str, point: Point) -> PointResult:
        """What became of a point of a series."""
        return self.once(_results)[bundle, series, point.name]


def _results(analysis: Analysis) -> dict[tuple[str, str, str], PointResult]:
    return {(s.bundle, s.name, p.point.name): p for s in analysis.scaling.series for p in s.points}


def axis_results(analysis: Analysis) -> tuple[ValueResult, ...]:
    """Every axis of the experiments, without points that do not count."""
    return along_axes(select_counted_series(analysis))


def select_counted_series(analysis: Analysis) -> Sequence[MeasuredSeries]:
    """Return what was measured, without points that do not count."""
    return analysis.measured if analysis.include_unproved else all_counted(analysis.measured, analysis.scaling)


def x_axes(analysis: Analysis) -> list[str]:
    """What a first figure can be over: the worker count, and each axis with several values."""
    counts = {p.workers for series in analysis.curves.series for p in series.measured}
    axes = [result.axis for result in analysis.once(axis_results)]
    return [*([WORKERS] if len(counts) > 1 else []), *dict.fromkeys(axes)]


def report_axis(analysis: Analysis) -> str:
    """The axis that an experiment states for its report, the first that varies here; "" where none does."""
    stated = (bundle.experiment.spec.report.x for bundle in analysis.bundles if bundle.experiment is not None)
    axes = x_axes(analysis)
    return next((x for x in stated if x in axes), "") or ""


def analyze(
    bundles: Sequence[Bundle],
    price: Cost | None = None,
    price_notes: Sequence[str] = (),
    published: Sequence[StatedCurve] = (),
    include_unproved: bool = False,
    target: PredictionTarget | None = None,
    x: str = "",
) -> Analysis:
    """Read and analyze; nothing is drawn yet."""
    result = scaling(bundles, include_unproved=include_unproved)
    believed = [believable(bundle, include_unproved) for bundle in bundles]
    step_summaries = summarize_steps(bundles)
    measured = tuple(series for bundle in bundles for series in measure(bundle))
    return Analysis(
        bundles=tuple(bundles),
        price=price,
        measured=measured,
        scaling=result,
        curves=result.curves(),
        costs=cost_of(scaling(believed).curves(), bundles, price, price_notes),
        step_summaries=step_summaries,
        diagnosis=diagnose_from(bundles, step_summaries),
        differences=differences(bundles),
        missing=missing_curves(bundles, result),
        published=tuple(published),
        include_unproved=include_unproved,
        x=x,
        target=target,
    )
