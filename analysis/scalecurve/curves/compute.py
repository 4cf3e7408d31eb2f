"""The scaling curves of bundles: throughput, speed-up, efficiency, the compute and communication split, with intervals.

S(N) = T(N)/T(N0) and E(N) = S(N)·N0/N for strong and weak scaling alike, N0 being the baseline that the spec names.
Only Succeeded trials enter; every other one is listed with its reason. Efficiency above 1 is kept and explained.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from statistics import median

from scalecurve.bundle.measurement import MeasuredPoint, MeasuredSeries, Totals, measure
from scalecurve.bundle.open import Bundle
from scalecurve.curves.anatomy import anatomy_of
from scalecurve.curves.doubts import counted, doubts, first_lines
from scalecurve.curves.headline import headline, notes
from scalecurve.curves.missing import nothing_valid
from scalecurve.curves.results import PointResult, ScalingResult, SeriesResult, TrialCounts
from scalecurve.curves.same_work import declared, other_work
from scalecurve.curves.sockets import socket_lines
from scalecurve.curves.tables import scaling_table
from scalecurve.render import formatting
from scalecurve.render.notebook import table_html
from scalecurve.render.table import Table
from scalecurve.statistics.estimate import Estimate, below_zero
from scalecurve.statistics.intervals import difference, efficiency, ratio, throughput
from scalecurve.statistics.mean import mean
from scalecurve.statistics.spread import Spread, pooled
from scalecurve_api.spec.trial import TrialPhase
from scalecurve_api.text import count

ROUNDING = 1e-3  # of a batch


class ScalingReport(ScalingResult):
    """The curves, with their table."""

    def table(self) -> Table:
        """Throughput, step time, speed-up and efficiency of every point."""
        return scaling_table(self)

    def _repr_html_(self) -> str:
        """Its headlines and its table, in a notebook."""
        headlines = "".join(f"<li>{escape(series.headline)}</li>" for series in self.series)
        return f"<ul>{headlines}</ul>{table_html(self.table())}"


def scaling(bundles: Sequence[Bundle], level: float = 0.95, include_unproved: bool = False) -> ScalingReport:
    """Compute throughput, speed-up and efficiency of every point, with intervals.

    Args:
        bundles: What `open_bundles` returned; their labels differ.
        level: Level of the intervals, 0.95 for 95 %.
        include_unproved: Also take headlines from points that do not count (`scalecurve.curves.doubts`).

    Returns:
        The curves, with headlines, and what was excluded and why.
    """
    return ScalingReport(
        series=tuple(_series_result(s, level, include_unproved) for bundle in bundles for s in measure(bundle)),
        excluded=tuple(
            (bundle.label, t)
            for bundle in bundles
            for t in bundle.trials
            if t.record and t.phase is not TrialPhase.succeeded
        ),
        problems=tuple((bundle.label, problem) for bundle in bundles for problem in bundle.problems),
    )


def believable(bundle: Bundle, include_unproved: bool = False) -> Bundle:
    """The bundle, without the trials of points that do not count (``doubts``) unless they are included."""
    if include_unproved:
        return bundle
    doubted = {p.point.name for s in scaling([bundle]).series for p in s.points if p.doubts}
    trials = (replace(t, set_aside=True) if t.spec.point.name in doubted else t for t in bundle.trials)
    return replace(bundle, trials=tuple(trials)) if doubted else bundle


def set_aside_note(bundle: Bundle) -> str:
    """For a message that nothing is left of a ``believable`` bundle: why, if its points did not count."""
    if not any(trial.set_aside for trial in bundle.trials):
        why = nothing_valid(bundle)
        return f": {why}" if why else ""
    return ": its points are unproved, reported or impossible; --include-unproved includes them"


def warnings(bundles: Sequence[Bundle]) -> tuple[str, ...]:
    """The first lines above any result of these bundles: points that do not count, and why; slow transports."""
    return (*first_lines(scaling(bundles).named_points()), *socket_lines(bundles))


def _series_result(series: MeasuredSeries, level: float, include_unproved: bool) -> SeriesResult:
    points = _points(series, level)
    counting = series if include_unproved else counted(series, points)
    said = headline(counting, points if counting is series else _points(counting, level), level)
    if lines := first_lines([(series.name, p) for p in points]):
        said = f"{series.name}: {'; '.join((*lines, said.removeprefix(f'{series.name}: ')))}"
    return SeriesResult(
        bundle=series.bundle,
        name=series.name,
        mode=series.mode,
        baseline=series.baseline,
        sample_unit=series.sample_unit,
        trains=series.trains,
        points=points,
        headline=said,
        notes=tuple(notes(series, points)),
    )


def _points(series: MeasuredSeries, level: float) -> tuple[PointResult, ...]:
    base, computing = series.base_point(), pooled(p.computing for p in series.points)
    results = []
    for measured in series.points:
        result = _point_result(measured, base, series.baseline, level, computing)
        planned = measured.point.global_batch if series.sample_unit == "samples" else None
        off_plan = bool(planned and abs((result.effective_batch or planned) / planned - 1) > ROUNDING)
        imported = any(record.imported for record in measured.good)
        others = other_work(measured, base)
        meant = [other for other in others if declared(measured, other)]
        doubtful = doubts(measured, result.efficiency, off_plan, [other for other in others if other not in meant])
        result = replace(result, off_plan=off_plan, doubts=doubtful, imported=imported)
        said, told = (tuple(o.detail for o in others if (o in meant) is kind) for kind in (False, True))
        results.append(replace(result, other_work=said, declared_work=told))
    return tuple(results)


def _point_result(
    measured: MeasuredPoint, base: MeasuredPoint | None, baseline: int, level: float, computing: Spread | None
) -> PointResult:
    counts = TrialCounts.of(measured.trials)
    if not measured.timed:
        return PointResult(measured.point, counts)
    noise, workers = measured.noise, measured.point.workers
    rate = throughput(measured.samples, level, noise)
    split = _split(measured, level)
    summaries = [record.summary for record in measured.good if record.summary]
    anatomies = [anatomy_of(record) for record in measured.timed]
    utilization = _utilization(measured, rate)
    reached = [s.seconds_to_target for s in summaries if s.seconds_to_target]
    waits = [s.loader_s for s in summaries if s.loader_s is not None]
    return PointResult(
        point=measured.point,
        counts=counts,
        throughput=rate,
        sequences=throughput(measured.sequences, level, noise) if measured.sequences else None,
        step_s=throughput(measured.steps, level, noise).reciprocal() if measured.steps else None,
        loader_s=median(waits) if waits else None,
        # Of one worker each it is the ratio, and exactly 1 for a point against itself.
        speedup=None if base is None else efficiency(measured.samples, base.samples, 1, 1, level, noise),
        efficiency=None
        if base is None
        else efficiency(measured.samples, base.samples, workers, baseline, level, noise),
        effective_batch=_work(measured.samples) / _work(measured.steps) if measured.steps else None,
        compute_s=split.compute_s,
        exposed_s=split.exposed_s,
        exposed_share=split.exposed_share,
        split_refused=split.refused,
        computing=_efficiency_of_computing(measured, base, baseline, level, computing),
        plain_throughput=throughput(measured.plain, level) if measured.plain else None,
        busy=_busy(measured),
        mfu=utilization.mfu,
        hfu=utilization.hfu,
        peak=utilization.peak,
        peak_refused=utilization.refused,
        energy_j=throughput(measured.energy, level).reciprocal() if measured.energy else None,
        peak_memory_bytes=max(
            (s.peak_memory_bytes for s in summaries if s.peak_memory_bytes is not None), default=None
        ),
        to_target_s=mean(reached, level, least=0) if reached else None,
        anatomies=tuple(each for each in anatomies if each) if all(anatomies) else (),
        missed_target=len(measured.good) - len(reached) if reached else 0,
    )


@dataclass(frozen=True)
class _Split:
    """A step without communication, and what communication adds; or why the two contradict each other."""

    compute_s: Estimate | None = None
    exposed_s: Estimate | None = None
    exposed_share: Estimate | None = None
    refused: str = ""


def _split(measured: MeasuredPoint, level: float) -> _Split:
    with_all, without = measured.communication_totals
    if not without:
        return _Split()
    share = ratio(with_all, without, level, paired=True).complement()
    alone, exposed = throughput(without, level).reciprocal(), difference(with_all, without, level, paired=True)
    if below_zero(share):
        slow, fast = (formatting.seconds(seconds) for seconds in (alone.value, alone.value + exposed.value))
        windows = min(sum(len(each.wall_s) for each in side) for side in (with_all, without))
        return _Split(
            refused=f"steps without communication took {slow}, longer than the {fast} of steps with it "
            f"({count(windows, 'window')} of each)"
        )
    return _Split(alone, exposed, share)


def _efficiency_of_computing(
    measured: MeasuredPoint, base: MeasuredPoint | None, baseline: int, level: float, noise: Spread | None
) -> Estimate | None:
    if base is None or base is measured or not measured.computing or not base.computing:
        return None
    return efficiency(measured.computing, base.computing, measured.point.workers, baseline, level, noise)


def _busy(measured: MeasuredPoint) -> float | None:
    """The mean over devices and repetitions of the share of time in which a kernel ran; None where one lacks it."""
    samples = [samples for record in measured.timed for samples in record.device_samples]
    shares = [one.utilization_mean for one in samples if one is not None and one.utilization_mean is not None]
    return math.fsum(shares) / len(shares) if shares and len(shares) == len(samples) else None


def _work(totals: Totals) -> float:
    return math.fsum(total.total_samples for total in totals)


@dataclass(frozen=True)
class _Utilization:
    """Shares of the devices' ``peak``, which is spelled; or why there are none."""

    mfu: Estimate | None = None
    hfu: Estimate | None = None
    peak: str = ""
    refused: str = ""


def _utilization(measured: MeasuredPoint, rate: Estimate) -> _Utilization:
    """Shares of the devices' peak in use; what trials have of FLOPs of a sample and of the peak must agree."""
    workers = measured.point.workers
    mfu = _share_of_peak(rate, workers, {(r.flops_per_sample, r.peak_flops) for r in measured.timed})
    hfu = _share_of_peak(rate, workers, {(r.hardware_flops_per_sample, r.peak_flops) for r in measured.timed})
    if mfu is None and hfu is None:
        return _Utilization()
    record = measured.timed[0]
    arithmetic = [record.trial.workload.precision.value] if record.trial.workload.built_in else []
    names = dict.fromkeys(rank.device_name for rank in record.topology)
    peak = f"{formatting.number((record.peak_flops or 0) / 1e12)} TFLOP/s ({', '.join([*arithmetic, 'dense', *names])})"
    most = max(share.value for share in (mfu, hfu) if share is not None)
    if most > 1:
        refused = f"{formatting.percent(most)} of {peak} is impossible: the peak is wrong, or the FLOPs of a sample are"
        return _Utilization(peak=peak, refused=refused)
    return _Utilization(mfu, hfu, peak)


def _share_of_peak(rate: Estimate, workers: int, trials: set[tuple[float | None, float | None]]) -> Estimate | None:
    flop, peak = next(iter(trials)) if len(trials) == 1 else (None, None)
    if not flop or not peak or flop < 0 or peak < 0:
        return None
    return rate.scaled(flop / (peak * workers))
