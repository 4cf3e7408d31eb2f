"""The scaling curves of bundles: throughput, speed-up, efficiency, the compute and communication split, with intervals.

S(N) = T(N)/T(N0) and E(N) = S(N)·N0/N for strong and weak scaling alike, N0 being the baseline that the spec names.
Only Succeeded trials enter; every other one is listed with its reason. Efficiency above 1 is kept and explained.
"""

import math
from collections.abc import Sequence

from scalecurve.bundle.measurement import MeasuredPoint, MeasuredSeries, measure
from scalecurve.bundle.open import Bundle, Trial
from scalecurve.curves.headline import headline, notes
from scalecurve.curves.results import ExcludedTrial, PointResult, ScalingResult, SeriesResult, TrialCounts
from scalecurve.statistics.estimate import Estimate
from scalecurve.statistics.intervals import difference, efficiency, ratio, throughput
from scalecurve.statistics.mean import mean
from scalecurve_api.spec.trial import TrialPhase


def scaling(bundles: Sequence[Bundle], level: float = 0.95) -> ScalingResult:
    """Curves with intervals of the given level; the bundles' labels must differ (``open_bundles`` sees to it)."""
    return ScalingResult(
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
    counts = TrialCounts(
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


def _excluded(bundle: str, trial: Trial) -> ExcludedTrial:
    record = trial.record
    assert record is not None
    return ExcludedTrial(
        bundle=bundle,
        trial=trial.name,
        series=trial.spec.point.series,
        workers=trial.spec.point.workers,
        phase=record.phase.value,
        reason=record.reason or record.phase.value,
        message=record.message,
    )
