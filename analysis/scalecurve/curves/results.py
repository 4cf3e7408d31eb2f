"""Results of scaling analysis: points, series, and excluded trials."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from scalecurve.bundle.problem import UnusableFile
from scalecurve.bundle.trial import Trial
from scalecurve.curves.anatomy import StepAnatomy
from scalecurve.statistics.estimate import Estimate
from scalecurve_api.spec.scaling import Mode
from scalecurve_api.spec.trial import InvalidReason, Point, TrialPhase
from scalecurve_api.text import count

IMPORTED = "Imported"


@dataclass(frozen=True)
class TrialCounts:
    """Trials of a point by outcome."""

    planned: int
    succeeded: int
    failed: int
    invalid: int
    cancelled: int
    unfinished: int
    full: int = 0

    @classmethod
    def of(cls, trials: Sequence[Trial]) -> TrialCounts:
        phases = Counter(trial.phase for trial in trials)
        ends = (
            TrialPhase.succeeded,
            TrialPhase.failed,
            TrialPhase.invalid,
            TrialPhase.cancelled,
            None,
            TrialPhase.full,
        )
        return cls(len(trials), *(phases[end] for end in ends))


@dataclass(frozen=True)
class PointResult:
    """Results of one point; None if not measured.

    ``throughput`` and ``plain_throughput`` are samples/s over all workers, ``sequences`` those of the batch where its
    tokens are the samples of the others, ``step_s``, ``compute_s`` and ``exposed_s`` seconds a step, ``loader_s`` those
    of them that waited for data (median), ``effective_batch`` samples really used a step, ``energy_j`` joules a sample,
    ``to_target_s`` training seconds to the target accuracy of the runs that reached it, ``missed_target`` how many did
    not where others did. ``exposed_share`` is the share of communication, 1 - compute_s/step_s: there is no second
    definition. ``split_refused`` is why these three are not known although they were measured. ``busy`` is the share of
    the windows' time in which a kernel ran on the devices (NVML's utilization), their mean.
    ``peak`` is what ``mfu`` and ``hfu`` are shares of, ``peak_refused`` why neither is known although it was measured.
    ``anatomies`` are what a step of each repetition is made of, where every repetition timed its sections.
    ``computing`` is the efficiency of the steps without all-reduce against the baseline's. ``off_plan`` says that the
    samples of its steps are not the planned ones, ``doubts`` why the point does not count, and
    ``other_work`` in words what differs from the baseline's work, ``declared_work`` what does as the experiment
    declares, and is no doubt. ``imported`` points were
    measured elsewhere; they count, and are marked as ``hollow`` as doubtful ones.
    """

    point: Point
    counts: TrialCounts
    throughput: Estimate | None = None
    sequences: Estimate | None = None
    step_s: Estimate | None = None
    loader_s: float | None = None
    speedup: Estimate | None = None
    efficiency: Estimate | None = None
    effective_batch: float | None = None
    compute_s: Estimate | None = None
    exposed_s: Estimate | None = None
    exposed_share: Estimate | None = None
    split_refused: str = ""
    computing: Estimate | None = None
    plain_throughput: Estimate | None = None
    busy: float | None = None
    mfu: Estimate | None = None
    hfu: Estimate | None = None
    peak: str = ""
    peak_refused: str = ""
    energy_j: Estimate | None = None
    peak_memory_bytes: int | None = None
    to_target_s: Estimate | None = None
    missed_target: int = 0
    anatomies: tuple[StepAnatomy, ...] = ()
    off_plan: bool = False
    doubts: tuple[InvalidReason, ...] = ()
    other_work: tuple[str, ...] = ()
    declared_work: tuple[str, ...] = ()
    imported: bool = False

    @property
    def marks(self) -> tuple[str, ...]:
        """Why it is not what a point measured and proved here is."""
        return (*(doubt.value for doubt in self.doubts), *([IMPORTED] if self.imported else []))

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
class ScalingResult:
    """All curves of one or more bundles, and with their bundles' labels: the trials in no curve, the unusable files."""

    series: tuple[SeriesResult, ...]
    excluded: tuple[tuple[str, Trial], ...]
    problems: tuple[tuple[str, UnusableFile], ...]

    @property
    def exclusions(self) -> str:
        """How many trials are in no curve: ``3 trials excluded: 2 Failed (RankFailed), 1 Full``; empty without any."""
        ends = Counter((r.phase.value, r.reason) for _, trial in self.excluded if (r := trial.record))
        kinds = ", ".join(
            f"{number} {phase}{f' ({reason})' if reason else ''}"
            for (phase, reason), number in sorted(ends.items(), key=lambda end: (end[0][0], -end[1], str(end[0][1])))
        )
        return f"{count(len(self.excluded), 'trial')} excluded: {kinds}" if self.excluded else ""

    @property
    def lost(self) -> int:
        """How many trials are in no curve without having ended as planned: a ladder of batches ends with a Full one."""
        phases = [trial.record.phase if trial.record else None for _, trial in self.excluded]
        return sum(phase is not TrialPhase.full for phase in phases)

    @property
    def compared(self) -> bool:
        """Whether any series has two worker counts, so that there is a speed-up."""
        return any(len({p.workers for p in series.points}) > 1 for series in self.series)

    def curves(self) -> ScalingResult:
        """The same, without series that train nothing."""
        return replace(self, series=tuple(series for series in self.series if series.trains))

    def named_points(self) -> list[tuple[str, PointResult]]:
        """Every point with the name of its series, and of its bundle if there are several."""
        several = len({series.bundle for series in self.series}) > 1
        return [
            (f"{series.bundle}, {series.name}" if several else series.name, point)
            for series in self.series
            for point in series.points
        ]

    def unfinished(self) -> int:
        return sum(point.counts.unfinished for series in self.series for point in series.points)
