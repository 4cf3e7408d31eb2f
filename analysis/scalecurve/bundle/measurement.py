"""Trial records -> input of the statistics: samples and wall times of each repetition's windows, by point.

Numbers come from the windows over all ranks, never from a mean of rates or from one rank.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from scalecurve.bundle.open import Bundle
from scalecurve.bundle.trial import Trial
from scalecurve.statistics.estimate import RepetitionTotals
from scalecurve.statistics.spread import Spread, pooled
from scalecurve_api.planning.plan import baseline_of
from scalecurve_api.record.rank import WindowKind
from scalecurve_api.record.trial_record import TrialRecord, TrialWindow
from scalecurve_api.spec.experiment import ExperimentSpec
from scalecurve_api.spec.scaling import Mode
from scalecurve_api.spec.trial import Point

Totals = tuple[RepetitionTotals, ...]
LEAST_JOULES = 1e-6  # with less energy than this in a window, its counter is broken


@dataclass(frozen=True)
class MeasuredPoint:
    """A point with its trials in the order of repetitions; only Succeeded ones count as measured.

    ``noise`` is the variance of a repetition of its curve, for the intervals of points with few of them.
    """

    point: Point
    trials: tuple[Trial, ...]
    noise: Spread | None = None

    @cached_property
    def good(self) -> tuple[TrialRecord, ...]:
        return tuple(trial.record for trial in self.trials if trial.good and trial.record is not None)

    @cached_property
    def timed(self) -> tuple[TrialRecord, ...]:
        """Records with timed windows; those of the all-reduce program have none."""
        return tuple(record for record in self.good if _usable(record, WindowKind.train))

    @cached_property
    def samples(self) -> Totals:
        return self._samples(WindowKind.train)

    @cached_property
    def steps(self) -> Totals:
        """None unless every repetition counted them: a source elsewhere may state a throughput only."""
        counted = all(window.steps for record in self.timed for window in _usable(record, WindowKind.train))
        return tuple(steps_of(record, WindowKind.train) for record in self.timed) if counted else ()

    @cached_property
    def communication_totals(self) -> tuple[Totals, Totals]:
        """Steps and wall time with and without communication, of the repetitions where both are known."""
        pairs = [
            (steps_of(r, WindowKind.train), without)
            for r in self.timed
            if (without := _totals_without_communication(r, steps_of))
        ]
        return tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs)

    @cached_property
    def plain(self) -> Totals:
        """Samples and wall time of the unwrapped model (one worker), of the repetitions that timed it."""
        return self._samples(WindowKind.plain)

    @cached_property
    def computing(self) -> Totals:
        """Samples and wall time without communication; for one worker, of the unwrapped model."""
        if self.point.workers == 1:
            return self._samples(WindowKind.plain) or self._alone()
        return tuple(without for record in self.timed if (without := _totals_without_communication(record, samples_of)))

    @cached_property
    def sequences(self) -> Totals:
        """Samples of the batch and wall time, of the repetitions whose windows count its tokens as well."""
        totals = []
        for record in self.timed:
            windows = _usable(record, WindowKind.train)
            counted = [window.sequences for window in windows if window.sequences]
            if len(counted) == len(windows):
                seconds = [window.wall_ns / 1e9 for window in windows]
                totals.append(RepetitionTotals.of(counted, seconds, record.trial.session))
        return tuple(totals)

    def _alone(self) -> Totals:
        """Of one worker of a user's own script, which has no other form: its training computes and does no more."""
        custom = all(not record.trial.workload.built_in for record in self.timed)
        return self.samples if custom else ()

    def _samples(self, kind: WindowKind) -> Totals:
        return tuple(samples_of(record, kind) for record in self.timed if _usable(record, kind))

    @cached_property
    def energy(self) -> Totals:
        """Samples, and joules instead of seconds, of repetitions whose timed windows all have their energy."""
        totals = []
        for record in self.timed:
            windows = _usable(record, WindowKind.train)
            joules = [window.energy_j for window in windows if window.energy_j and window.energy_j >= LEAST_JOULES]
            if len(joules) == len(windows):
                totals.append(RepetitionTotals.of([w.samples for w in windows], joules, record.trial.session))
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
        p = trial.spec.point
        by_point = by_series.setdefault((p.series, _shape(p, bundle)), {})
        by_point.setdefault((p.workers, p.nodes), []).append(trial)
    spec = bundle.experiment.spec if bundle.experiment else None
    planned = bundle.plan.points if bundle.plan else [trial.spec.point for trial in bundle.trials]
    order = {name: rank for rank, name in enumerate(dict.fromkeys(p.series for p in planned))}
    keys = sorted(by_series, key=lambda key: (order.get(key[0], len(order)), key))
    return tuple(_series(bundle.label, name, by_series[name, shape].values(), spec) for name, shape in keys)


def samples_of(record: TrialRecord, kind: WindowKind) -> RepetitionTotals:
    """Samples and seconds of each window of a kind."""
    windows = _usable(record, kind)
    return RepetitionTotals.of([w.samples for w in windows], [w.wall_ns / 1e9 for w in windows], record.trial.session)


def steps_of(record: TrialRecord, kind: WindowKind) -> RepetitionTotals:
    """Steps and seconds of each window of a kind."""
    windows = _usable(record, kind)
    return RepetitionTotals.of([w.steps for w in windows], [w.wall_ns / 1e9 for w in windows], record.trial.session)


def _totals_without_communication(
    record: TrialRecord, totals_of: Callable[[TrialRecord, WindowKind], RepetitionTotals]
) -> RepetitionTotals | None:
    """The totals without communication: of windows without it, or else of all windows less a profiler's share."""
    if _usable(record, WindowKind.no_communication):
        return totals_of(record, WindowKind.no_communication)
    exposed = record.summary.exposed if record.summary else None
    if exposed is None or exposed.with_s <= 0 or exposed.without_s <= 0:
        return None
    return totals_of(record, WindowKind.train).slowed(exposed.without_s / exposed.with_s)


def _usable(record: TrialRecord, kind: WindowKind) -> list[TrialWindow]:
    windows = [w for w in record.windows if w.kind is kind and w.wall_ns > 0 and w.samples > 0]
    return windows if record.imported else [w for w in windows if w.steps > 0]


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
    baseline = baseline_of(spec, counts) if spec else min(counts)
    noise = pooled(p.samples for p in measured)
    curve = tuple(replace(p, noise=noise) for p in measured)
    return MeasuredSeries(label, name, curve[0].point.mode, baseline, curve)
