"""The measured points of a bundle as plain numbers, repetition by repetition: what models are fitted to."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from scalecurve.bundle.measurement import MeasuredPoint, MeasuredSeries, measure, samples_of, steps_of
from scalecurve.bundle.open import Bundle
from scalecurve_api.record.rank import WindowKind
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.spec.experiment import AxisValue
from scalecurve_api.spec.scaling import Mode
from scalecurve_api.spec.trial import Point


@dataclass(frozen=True)
class Repetition:
    """One valid trial: samples/s over all workers, seconds per step, and seconds per step without the all-reduce.

    ``step_s`` is nan where a source elsewhere does not state it, and so is the batch of its point.
    """

    throughput: float
    step_s: float
    compute_s: float | None


@dataclass(frozen=True)
class ObservedPoint:
    """A measured point. ``batch`` counts the samples of a step over all workers; ``joules`` are per sample."""

    point: Point
    repetitions: tuple[Repetition, ...]
    throughput: float
    batch: float
    joules: float | None
    flops_per_sample: float | None
    peak_flops: float | None

    @property
    def workers(self) -> int:
        return self.point.workers

    @property
    def batch_per_worker(self) -> float:
        return self.batch / self.point.workers


@dataclass(frozen=True)
class ObservedSeries:
    """The measured points of one curve, by ascending worker count."""

    bundle: str
    name: str
    mode: Mode
    baseline: int
    sample_unit: str
    points: tuple[ObservedPoint, ...]

    @property
    def workers(self) -> tuple[int, ...]:
        return tuple(point.workers for point in self.points)

    @property
    def has_steps(self) -> bool:
        """Whether step times are known, and not only throughputs."""
        return not any(math.isnan(each.step_s) for point in self.points for each in point.repetitions)

    def at(self, workers: int) -> ObservedPoint | None:
        return next((point for point in self.points if point.workers == workers), None)

    def counts_beyond_batch(self, workers: Collection[int]) -> tuple[int, ...]:
        """Select counts that exceed the global batch of strong scaling, which leaves some workers without a sample."""
        batch = self.points[0].point.global_batch if self.mode is Mode.strong else None
        return tuple(sorted(n for n in workers if batch is not None and n > batch))

    def counts_with(self, further: Collection[int]) -> list[int]:
        """Return the measured counts and the ``further`` ones that the batch allows, ascending."""
        return sorted({*self.workers, *further} - {*self.counts_beyond_batch(further)})

    @property
    def axes(self) -> tuple[tuple[str, AxisValue], ...]:
        """The axes that identify the program; batches do not."""
        axes = self.points[0].point.axes
        return tuple(sorted((name, value) for name, value in axes.items() if not name.startswith("batch.")))

    def without(self, workers: Collection[int], batches: Collection[int]) -> ObservedSeries:
        kept = (p for p in self.points if p.workers not in workers and p.point.batch_per_worker not in batches)
        return replace(self, points=tuple(kept))

    def batch_at(self, workers: int) -> float:
        """Return the samples per step over all workers at any count, measured or not."""
        point = self.at(workers)
        if point is not None:
            return point.batch
        first = self.points[0]
        return first.batch if self.mode is Mode.strong else first.batch_per_worker * workers

    def nodes_at(self, workers: int) -> int:
        """Return the nodes at any worker count: as measured, else as few as the fullest measured node allows."""
        point = self.at(workers)
        if point is not None:
            return point.point.nodes
        return -(-workers // max(point.point.workers_per_node for point in self.points))


def observed_series(bundle: Bundle) -> tuple[ObservedSeries, ...]:
    """Return the curves of a bundle that have at least one measured point."""
    return tuple(series for series in map(_series, measure(bundle)) if series.points)


def programs(series: Iterable[ObservedSeries]) -> dict[tuple[tuple[str, AxisValue], ...], tuple[ObservedSeries, ...]]:
    """Group curves by program (all axes except modes and batches): what a step model can be fitted to together."""
    out: dict[tuple[tuple[str, AxisValue], ...], tuple[ObservedSeries, ...]] = {}
    for each in series:
        out[each.axes] = (*out.get(each.axes, ()), each)
    return out


def _series(series: MeasuredSeries) -> ObservedSeries:
    points = tuple(_summarize_point(point) for point in series.points if point.timed)
    return ObservedSeries(series.bundle, series.name, series.mode, series.baseline, series.sample_unit, points)


def _summarize_point(measured: MeasuredPoint) -> ObservedPoint:
    samples = sum(totals.total_samples for totals in measured.samples)
    steps = sum(totals.total_samples for totals in measured.steps)
    energy = measured.energy
    return ObservedPoint(
        point=measured.point,
        repetitions=tuple(_repetition(record) for record in measured.timed),
        throughput=samples / sum(totals.total_wall_s for totals in measured.samples),
        batch=samples / steps if steps else measured.point.global_batch or math.nan,
        joules=sum(each.total_wall_s for each in energy) / sum(each.total_samples for each in energy)
        if energy
        else None,
        flops_per_sample=_common_value([record.flops_per_sample for record in measured.timed]),
        peak_flops=_common_value([record.peak_flops for record in measured.timed]),
    )


def _repetition(record: TrialRecord) -> Repetition:
    samples = samples_of(record, WindowKind.train)
    steps = sum(window.steps for window in record.windows if window.kind is WindowKind.train)
    bare = [w for w in record.windows if w.kind is WindowKind.no_communication]
    compute = None
    if any(w.wall_ns > 0 and w.samples > 0 and w.steps > 0 for w in bare):
        without = steps_of(record, WindowKind.no_communication)
        compute = without.total_wall_s / without.total_samples
    step_s = samples.total_wall_s / steps if steps else math.nan
    return Repetition(samples.total_samples / samples.total_wall_s, step_s, compute)


def _common_value(values: list[float | None]) -> float | None:
    """The positive value that all trials state, None where they differ."""
    value = values[0] if len(set(values)) == 1 else None
    return value if value and value > 0 else None
