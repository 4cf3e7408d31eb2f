"""Trial records -> input of the statistics: samples and wall times of each repetition's windows, by point.

Numbers come from the windows over all ranks, never from a mean of rates or from one rank.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from scalecurve.bundle.open import Bundle, Trial
from scalecurve.statistics.estimate import RepetitionTotals
from scalecurve_api.planning.plan import baseline_of
from scalecurve_api.record.rank import WindowKind
from scalecurve_api.record.trial_record import TrialRecord, TrialWindow
from scalecurve_api.spec.experiment import ExperimentSpec
from scalecurve_api.spec.scaling import Mode
from scalecurve_api.spec.trial import Point, TrialPhase

Totals = tuple[RepetitionTotals, ...]
LEAST_JOULES = 1e-6
"""With less energy than this in a window, its counter is broken."""


@dataclass(frozen=True)
class MeasuredPoint:
    """A point with its trials in the order of repetitions; only Succeeded ones count as measured."""

    point: Point
    trials: tuple[Trial, ...]

    @cached_property
    def good(self) -> tuple[TrialRecord, ...]:
        return tuple(trial.record for trial in self.trials if trial.good and trial.record is not None)

    @cached_property
    def timed(self) -> tuple[TrialRecord, ...]:
        """Records with timed windows; those of the all-reduce program have none."""
        return tuple(record for record in self.good if _usable(record.windows, WindowKind.train))

    @property
    def unfinished(self) -> int:
        return sum(trial.record is None for trial in self.trials)

    def ended_as(self, phase: TrialPhase) -> int:
        return sum(trial.phase is phase for trial in self.trials)

    @cached_property
    def samples(self) -> Totals:
        return tuple(samples_of(record, WindowKind.train) for record in self.timed)

    @cached_property
    def steps(self) -> Totals:
        return tuple(steps_of(record, WindowKind.train) for record in self.timed)

    @cached_property
    def with_and_without(self) -> tuple[Totals, Totals]:
        """Steps and wall time with and without the all-reduce, of the repetitions that timed both."""
        both = [record for record in self.timed if _usable(record.windows, WindowKind.no_communication)]
        return (
            tuple(steps_of(record, WindowKind.train) for record in both),
            tuple(steps_of(record, WindowKind.no_communication) for record in both),
        )

    @cached_property
    def plain(self) -> Totals:
        """Samples and wall time of the unwrapped model (one worker), of the repetitions that timed it."""
        return tuple(
            samples_of(record, WindowKind.plain) for record in self.timed if _usable(record.windows, WindowKind.plain)
        )

    @cached_property
    def computing(self) -> Totals:
        """Samples and wall time without the all-reduce; for one worker, of the unwrapped model."""
        kind = WindowKind.plain if self.point.workers == 1 else WindowKind.no_communication
        return tuple(samples_of(record, kind) for record in self.timed if _usable(record.windows, kind))

    @cached_property
    def energy(self) -> Totals:
        """Samples, and joules instead of seconds, of repetitions whose timed windows all have their energy."""
        totals = []
        for record in self.timed:
            windows = _usable(record.windows, WindowKind.train)
            joules = [window.energy_j for window in windows]
            if all(value is not None and value >= LEAST_JOULES for value in joules):
                measured = [value for value in joules if value is not None]
                totals.append(RepetitionTotals.of([window.samples for window in windows], measured))
        return tuple(totals)


@dataclass(frozen=True)
class MeasuredSeries:
    """One curve: points by ascending worker count that share everything else, and their baseline."""

    bundle: str
    name: str
    mode: Mode
    baseline: int
    points: tuple[MeasuredPoint, ...]

    @property
    def sample_unit(self) -> str:
        units = {record.summary.sample_unit for p in self.points for record in p.timed if record.summary}
        return units.pop() if len(units) == 1 else "samples"

    @property
    def trains(self) -> bool:
        """Whether it trains; the all-reduce microbenchmark has no curve."""
        return any(trial.spec.workload.takes_batch for p in self.points for trial in p.trials)

    def base_point(self) -> MeasuredPoint | None:
        """The point that speed-up is relative to; None if it was not measured."""
        return next((p for p in self.points if p.point.workers == self.baseline and p.timed), None)


def measure(bundle: Bundle) -> tuple[MeasuredSeries, ...]:
    """The curves of a bundle, in the order of its spec; worker counts ascend as numbers."""
    by_series: dict[tuple[str, str], dict[tuple[int, int], list[Trial]]] = {}
    for trial in bundle.trials:
        point = trial.spec.point
        by_series.setdefault((point.series, _shape(point, bundle)), {}).setdefault(
            (point.workers, point.nodes), []
        ).append(trial)
    spec = bundle.experiment.spec if bundle.experiment else None
    order = {name: rank for rank, name in enumerate(dict.fromkeys(p.series for p in _planned_points(bundle)))}
    keys = sorted(by_series, key=lambda key: (order.get(key[0], len(order)), key))
    return tuple(_series(bundle.label, name, by_series[name, shape].values(), spec) for name, shape in keys)


def samples_of(record: TrialRecord, kind: WindowKind) -> RepetitionTotals:
    """Samples and seconds of each window of a kind."""
    windows = _usable(record.windows, kind)
    return RepetitionTotals.of([w.samples for w in windows], [w.wall_ns / 1e9 for w in windows])


def steps_of(record: TrialRecord, kind: WindowKind) -> RepetitionTotals:
    """Steps and seconds of each window of a kind."""
    windows = _usable(record.windows, kind)
    return RepetitionTotals.of([w.steps for w in windows], [w.wall_ns / 1e9 for w in windows])


def _usable(windows: Iterable[TrialWindow], kind: WindowKind) -> list[TrialWindow]:
    return [w for w in windows if w.kind is kind and w.wall_ns > 0 and w.samples > 0 and w.steps > 0]


def _planned_points(bundle: Bundle) -> Sequence[Point]:
    return bundle.plan.points if bundle.plan else [trial.spec.point for trial in bundle.trials]


def _shape(point: Point, bundle: Bundle) -> str:
    """Tells layouts apart where the spec cannot: without a plan, points with different node counts."""
    return "" if bundle.plan or point.nodes == 1 or "nodes=" in point.series else f"{point.nodes} nodes"


def _series(label: str, name: str, points: Iterable[list[Trial]], spec: ExperimentSpec | None) -> MeasuredSeries:
    measured = [
        MeasuredPoint(trials[0].spec.point, tuple(sorted(trials, key=lambda trial: trial.spec.repetition)))
        for trials in points
    ]
    measured.sort(key=lambda p: (p.point.workers, p.point.nodes))
    counts = [p.point.workers for p in measured]
    return MeasuredSeries(
        bundle=label,
        name=name,
        mode=measured[0].point.mode,
        baseline=baseline_of(spec, counts) if spec else min(counts),
        points=tuple(measured),
    )
