"""Training results of one point, with intervals over its repetitions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from scalecurve.bundle.measurement import MeasuredPoint, MeasuredSeries
from scalecurve.render.labels import usual_values
from scalecurve.statistics.estimate import Estimate
from scalecurve.statistics.intervals import throughput
from scalecurve.statistics.mean import mean
from scalecurve_api.features.accuracy.facts import EVALUATIONS, Evaluation
from scalecurve_api.features.noise_scale.facts import NOISE_SCALE
from scalecurve_api.record.facts.dataset import DATASET
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.spec.experiment import AxisValue
from scalecurve_api.spec.trial import Point
from scalecurve_api.text import count

Run = Sequence[Evaluation]


@dataclass(frozen=True)
class PointTraining:
    """A point whose good trials were evaluated; accuracies are shares, on held-out data but for ``fitted``.

    ``label`` says what sets it apart from the other points.
    """

    bundle: str
    series: str
    label: str
    measured: MeasuredPoint
    level: float = 0.95

    @property
    def point(self) -> Point:
        return self.measured.point

    @cached_property
    def records(self) -> tuple[TrialRecord, ...]:
        return tuple(record for record in self.measured.good if EVALUATIONS.of(record))

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        return tuple(training_run(record) for record in self.records)

    @property
    def target(self) -> float | None:
        asked = self.records[0].trial.measure.accuracy
        return asked.target if asked else None

    @property
    def epochs(self) -> int:
        return max(run[-1].epoch for run in self.runs)

    @property
    def final(self) -> Estimate:
        return self._share([run[-1].accuracy for run in self.runs])

    @property
    def best(self) -> Estimate:
        """The best accuracy of a run; slightly optimistic, as the best of many evaluations."""
        return self._share([max(e.accuracy for e in run) for run in self.runs])

    @property
    def fitted(self) -> Estimate | None:
        """Accuracy on the training data over the last epoch, where every run knows it."""
        accuracies = [run[-1].train_accuracy for run in self.runs]
        return self._share([value for value in accuracies if value is not None]) if None not in accuracies else None

    @property
    def tested(self) -> Estimate | None:
        """Accuracy of the last epoch's models on the test set, where every run has it."""
        accuracies = [data.test_accuracy if (data := DATASET.of(record)) else None for record in self.records]
        return self._share([value for value in accuracies if value is not None]) if None not in accuracies else None

    @property
    def reached(self) -> list[Evaluation]:
        if self.target is None:
            return []
        firsts = (next((e for e in run if e.accuracy >= (self.target or 0)), None) for run in self.runs)
        return [first for first in firsts if first is not None]

    @property
    def epochs_to_target(self) -> Estimate | None:
        return mean([e.epoch for e in self.reached], self.level, least=0) if self.reached else None

    @property
    def seconds_to_target(self) -> Estimate | None:
        """Training time to the target for the runs that reached it, without evaluation."""
        return mean([max(0.0, e.wall_s) for e in self.reached], self.level, least=0) if self.reached else None

    @property
    def last_epoch(self) -> Estimate:
        """The last epoch that a run trained."""
        return mean([run[-1].epoch for run in self.runs], self.level, least=0)

    @property
    def last_epoch_at_s(self) -> Estimate:
        """Training time to the end of the last epoch, without evaluation."""
        return mean([max(0.0, run[-1].wall_s) for run in self.runs], self.level, least=0)

    @property
    def epoch_s(self) -> Estimate:
        return mean([max(0.0, run[-1].wall_s) / max(1, run[-1].epoch) for run in self.runs], self.level, least=0)

    @property
    def throughput(self) -> Estimate | None:
        return throughput(self.measured.samples, self.level, self.measured.noise) if self.measured.timed else None

    def _share(self, values: Sequence[float]) -> Estimate:
        return mean(values, self.level, least=0, most=1)


def training_run(record: TrialRecord) -> Run:
    """Return a trial's evaluations; where measuring the noise scale slowed its training, ``wall_s`` is without that.

    It is then the number of steps times the step time of the timed windows, which run before the instrument is on:
    what it costs differs between one worker and several, and would bend every curve over workers.
    """
    summary, batch = record.summary, record.trial.point.global_batch
    known = summary is not None and summary.sample_unit == "samples" and summary.throughput > 0
    if not NOISE_SCALE.of(record) or summary is None or not known or not batch:
        return EVALUATIONS.of(record)
    step_s = batch / summary.throughput
    return [e.model_copy(update={"wall_s": e.step * step_s}) for e in EVALUATIONS.of(record)]


def label_points(measured: Iterable[MeasuredSeries], level: float) -> tuple[PointTraining, ...]:
    """Return the points with evaluations, each labeled by the axes in which they differ."""
    measured_points = [
        (series, point)
        for series in measured
        for point in series.points
        if any(EVALUATIONS.of(record) for record in point.good)
    ]
    points = [point.point for _, point in measured_points]
    bundles = {series.bundle for series, _ in measured_points}
    modes, workers = {p.mode for p in points}, {p.workers for p in points}
    layouts = {(p.workers, p.layout) for p in points}
    every = dict.fromkeys(axis for p in points for axis in p.axes)
    axes = [axis for axis in every if len({str(p.axes.get(axis)) for p in points}) > 1]
    spelled = [{axis: format_axis_value(p.axes[axis]) for axis in axes if axis in p.axes} for p in points]
    usual = usual_values(spelled)
    out = []
    for (series, point), axes_shown in zip(measured_points, spelled, strict=True):
        parts = [series.bundle] if len(bundles) > 1 else []
        parts += [series.mode.value] if len(modes) > 1 else []
        parts += [f"{axis}={value}" for axis, value in axes_shown.items() if usual.get(axis) != value]
        if len(workers) > 1 or not parts:
            parts.append(count(point.point.workers, "worker"))
        parts += [point.point.layout] if len(layouts) > len(workers) else []
        out.append(PointTraining(series.bundle, series.name, ", ".join(parts), point, level))
    return tuple(out)


def format_axis_value(value: AxisValue) -> str:
    """Spell the value of an axis as in a spec."""
    return str(value).lower() if isinstance(value, bool) else str(value)
