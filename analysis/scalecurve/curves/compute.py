"""The scaling curves of bundles: throughput, speed-up, efficiency, the compute and communication split, with intervals.

S(N) = T(N)/T(N0) and E(N) = S(N)·N0/N for strong and weak scaling alike, N0 being the baseline that the spec names.
Only Succeeded trials enter; every other one is listed with its reason. Efficiency above 1 is kept and explained.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from scalecurve.bundle.measurement import MeasuredPoint, MeasuredSeries, measure
from scalecurve.bundle.open import Bundle, Trial
from scalecurve.bundle.problem import Problem
from scalecurve.curves.headline import headline, notes
from scalecurve.statistics.estimate import Estimate
from scalecurve.statistics.intervals import difference, efficiency, ratio, throughput
from scalecurve.statistics.mean import mean
from scalecurve_api.spec.scaling import Mode
from scalecurve_api.spec.trial import Point, TrialPhase

if TYPE_CHECKING:
    import pandas as pd

    from scalecurve.render.table import Table


@dataclass(frozen=True)
class Counts:
    """How the trials of a point stand."""

    planned: int
    succeeded: int
    failed: int
    invalid: int
    cancelled: int
    unfinished: int


@dataclass(frozen=True)
class PointResult:
    """What is known of one point; None is what was not measured.

    ``throughput`` and ``plain_throughput`` are samples/s over all workers, ``step_s``, ``compute_s`` and ``exposed_s``
    seconds a step, ``effective_batch`` samples really used a step, ``energy_j`` joules a sample, ``to_target_s``
    training seconds to the target accuracy of the runs that reached it, ``missed_target`` how many did not where others
    did. ``computing`` is the efficiency of the steps without the all-reduce against the baseline's, so that efficiency
    is ``computing`` times what communication leaves of it.
    """

    point: Point
    counts: Counts
    throughput: Estimate | None = None
    step_s: Estimate | None = None
    speedup: Estimate | None = None
    efficiency: Estimate | None = None
    effective_batch: float | None = None
    compute_s: Estimate | None = None
    exposed_s: Estimate | None = None
    exposed_share: Estimate | None = None
    computing: Estimate | None = None
    plain_throughput: Estimate | None = None
    mfu: Estimate | None = None
    energy_j: Estimate | None = None
    peak_memory_bytes: int | None = None
    best_accuracy: float | None = None
    to_target_s: Estimate | None = None
    missed_target: int = 0

    @property
    def workers(self) -> int:
        """The worker count."""
        return self.point.workers

    @property
    def measured(self) -> bool:
        """Whether it has a place on the curve."""
        return self.throughput is not None


@dataclass(frozen=True)
class SeriesResult:
    """One curve, points by ascending worker count; ``notes`` explain what a reader may stumble over."""

    bundle: str
    name: str
    mode: Mode
    baseline: int
    sample_unit: str
    trains: bool
    points: tuple[PointResult, ...]
    headline: str
    notes: tuple[str, ...]

    @property
    def measured(self) -> tuple[PointResult, ...]:
        """The points that have numbers."""
        return tuple(point for point in self.points if point.measured)


@dataclass(frozen=True)
class Excluded:
    """A trial that ended and enters no curve, and why."""

    bundle: str
    trial: str
    series: str
    workers: int
    phase: str
    reason: str
    message: str


@dataclass(frozen=True)
class Scaling:
    """All curves of one or several bundles, what was left out of them, and which files could not be read."""

    series: tuple[SeriesResult, ...]
    excluded: tuple[Excluded, ...]
    problems: tuple[tuple[str, Problem], ...]

    def curves(self) -> Scaling:
        """The same with the series that train something only."""
        return replace(self, series=tuple(series for series in self.series if series.trains))

    def table(self) -> Table:
        """One row a point: throughput, step time, speed-up, efficiency, batch."""
        from scalecurve.curves.tables import scaling_table

        return scaling_table(self)

    def frame(self) -> pd.DataFrame:
        """The table as a pandas DataFrame with every digit."""
        return self.table().frame()

    def unfinished(self) -> int:
        """Trials still to come (or whose record cannot be used)."""
        return sum(point.counts.unfinished for series in self.series for point in series.points)


def scaling(bundles: Sequence[Bundle], level: float = 0.95) -> Scaling:
    """Curves with intervals of the given level; the bundles' labels must differ (``open_bundles`` sees to it)."""
    return Scaling(
        series=tuple(series_result(s, level) for bundle in bundles for s in measure(bundle)),
        excluded=tuple(_excluded(bundle.label, t) for bundle in bundles for t in bundle.trials if _left_out(t)),
        problems=tuple((bundle.label, problem) for bundle in bundles for problem in bundle.problems),
    )


def series_result(series: MeasuredSeries, level: float = 0.95) -> SeriesResult:
    """One curve."""
    base = series.base_point()
    points = tuple(_point_result(p, base, series.baseline, level) for p in series.points)
    return SeriesResult(
        bundle=series.bundle,
        name=series.name,
        mode=series.mode,
        baseline=series.baseline,
        sample_unit=series.sample_unit,
        trains=series.trains,
        points=points,
        headline=headline(series, points, level),
        notes=tuple(notes(series, points)),
    )


def _point_result(measured: MeasuredPoint, base: MeasuredPoint | None, baseline: int, level: float) -> PointResult:
    counts = Counts(
        planned=len(measured.trials),
        succeeded=measured.ended_as(TrialPhase.succeeded),
        failed=measured.ended_as(TrialPhase.failed),
        invalid=measured.ended_as(TrialPhase.invalid),
        cancelled=measured.ended_as(TrialPhase.cancelled),
        unfinished=measured.unfinished,
    )
    if not measured.timed:
        return PointResult(measured.point, counts)
    rate = throughput(measured.samples, level)
    workers = measured.point.workers
    with_all, without = measured.with_and_without
    summaries = [record.summary for record in measured.good if record.summary]
    reached = [s.seconds_to_target for s in summaries if s.seconds_to_target]
    return PointResult(
        point=measured.point,
        counts=counts,
        throughput=rate,
        step_s=throughput(measured.steps, level).reciprocal(),
        speedup=_speedup(measured, base, level),
        efficiency=None if base is None else efficiency(measured.samples, base.samples, workers, baseline, level),
        effective_batch=_effective_batch(measured),
        compute_s=throughput(without, level).reciprocal() if without else None,
        exposed_s=difference(with_all, without, level, paired=True) if without else None,
        exposed_share=ratio(with_all, without, level, paired=True).complement() if without else None,
        computing=_computing(measured, base, baseline, level),
        plain_throughput=throughput(measured.plain, level) if measured.plain else None,
        mfu=_mfu(measured, rate),
        energy_j=throughput(measured.energy, level).reciprocal() if measured.energy else None,
        peak_memory_bytes=max(
            (s.peak_memory_bytes for s in summaries if s.peak_memory_bytes is not None), default=None
        ),
        best_accuracy=max((s.best_accuracy for s in summaries if s.best_accuracy is not None), default=None),
        to_target_s=mean(reached, level, least=0) if reached else None,
        missed_target=len(measured.good) - len(reached) if reached else 0,
    )


def _speedup(measured: MeasuredPoint, base: MeasuredPoint | None, level: float) -> Estimate | None:
    if base is None:
        return None
    # Efficiency knows that a point against itself is exactly 1.
    return (
        efficiency(measured.samples, base.samples, 1, 1, level)
        if base is measured
        else ratio(measured.samples, base.samples, level)
    )


def _computing(measured: MeasuredPoint, base: MeasuredPoint | None, baseline: int, level: float) -> Estimate | None:
    if base is None or base is measured or not measured.computing or not base.computing:
        return None
    return efficiency(measured.computing, base.computing, measured.point.workers, baseline, level)


def _effective_batch(measured: MeasuredPoint) -> float:
    samples = math.fsum(total.total_samples for total in measured.samples)
    return samples / math.fsum(total.total_samples for total in measured.steps)


def _mfu(measured: MeasuredPoint, rate: Estimate) -> Estimate | None:
    flops = {record.flops_per_sample for record in measured.timed}
    peaks = {record.peak_flops for record in measured.timed}
    if len(flops) != 1 or len(peaks) != 1:
        return None
    flop, peak = flops.pop(), peaks.pop()
    if not flop or not peak or flop < 0 or peak < 0:
        return None
    return rate.scaled(flop / (peak * measured.point.workers))


def _left_out(trial: Trial) -> bool:
    return trial.record is not None and not trial.good


def _excluded(bundle: str, trial: Trial) -> Excluded:
    record = trial.record
    assert record is not None
    return Excluded(
        bundle=bundle,
        trial=trial.name,
        series=trial.spec.point.series,
        workers=trial.spec.point.workers,
        phase=record.phase.value,
        reason=record.reason or record.phase.value,
        message=record.message,
    )
