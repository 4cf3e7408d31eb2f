"""Results of scaling analysis: points, series, and excluded trials."""

from __future__ import annotations

from dataclasses import dataclass, replace

from scalecurve.bundle.problem import UnusableFile
from scalecurve.statistics.estimate import Estimate
from scalecurve_api.spec.scaling import Mode
from scalecurve_api.spec.trial import Point


@dataclass(frozen=True)
class TrialCounts:
    """Trials of a point by outcome."""

    planned: int
    succeeded: int
    failed: int
    invalid: int
    cancelled: int
    unfinished: int


@dataclass(frozen=True)
class PointResult:
    """Results of one point; None if not measured.

    ``throughput`` and ``plain_throughput`` are samples/s over all workers, ``step_s``, ``compute_s`` and ``exposed_s``
    seconds a step, ``effective_batch`` samples really used a step, ``energy_j`` joules a sample, ``to_target_s``
    training seconds to the target accuracy of the runs that reached it, ``missed_target`` how many did not where others
    did. ``computing`` is the efficiency of the steps without all-reduce against the baseline's, so that efficiency
    is ``computing`` times what communication leaves of it.
    """

    point: Point
    counts: TrialCounts
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
        return self.point.workers

    @property
    def measured(self) -> bool:
        return self.throughput is not None


@dataclass(frozen=True)
class SeriesResult:
    """One curve, points by ascending worker count; ``notes`` explain anything that may mislead."""

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
        return tuple(point for point in self.points if point.measured)


@dataclass(frozen=True)
class ExcludedTrial:
    """A trial that ended but is not part of a curve, and why."""

    bundle: str
    trial: str
    series: str
    workers: int
    phase: str
    reason: str
    message: str


@dataclass(frozen=True)
class ScalingResult:
    """All curves of one or more bundles, the excluded trials, and the unusable files."""

    series: tuple[SeriesResult, ...]
    excluded: tuple[ExcludedTrial, ...]
    problems: tuple[tuple[str, UnusableFile], ...]

    def curves(self) -> ScalingResult:
        """The same, without series that train nothing."""
        return replace(self, series=tuple(series for series in self.series if series.trains))

    def unfinished(self) -> int:
        """Trials without a result yet, or with an unusable record."""
        return sum(point.counts.unfinished for series in self.series for point in series.points)
