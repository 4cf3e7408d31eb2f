"""Results of training to accuracy in a report."""

from collections.abc import Callable, Mapping, Sequence

from scalecurve.curves.results import SeriesResult
from scalecurve.features.accuracy.results import PointTraining, Training, compute_training
from scalecurve.features.accuracy.results.along_axes import along_axes
from scalecurve.features.accuracy.results.by_approach import contest, contests
from scalecurve.render import formatting
from scalecurve.render.table import Table
from scalecurve.reporting.contributions import AxisPoint, Contribution, Place, Ranking, contribute
from scalecurve.reporting.findings import Analysis
from scalecurve.reporting.registry import Body, section
from scalecurve_api.text import count


def training_of(analysis: Analysis) -> Training:
    """Return the trainings of a report; call it as ``analysis.once(training_of)``."""
    return compute_training(analysis.measured)


_REPORT_SECTIONS: tuple[tuple[str, str, int, Callable[[Training], tuple[Table, ...]]], ...] = (
    ("accuracy", "Training to accuracy", 40, Training.tabulate_accuracy),
    ("training-axes", "Training along each axis", 45, Training.tabulate_axes),
    ("against-workers", "Accuracy against workers", 50, Training.tabulate_workers),
    ("data", "Data", 60, Training.tabulate_data),
    ("noise-scale", "Gradient noise scale", 70, Training.tabulate_noise),
    ("quantization", "Quantization", 80, Training.tabulate_quantization),
)
for _name, _title, _order, _tables in _REPORT_SECTIONS:
    section(_name, _title, order=_order, question="train")(
        lambda analysis, tables=_tables: Body(tables(analysis.once(training_of)))
    )


class _Training(Contribution):
    def winners(self, analysis: Analysis, names: Mapping[tuple[str, str], str]) -> Sequence[str]:
        """Return a sentence for each experiment that trained several models to accuracy."""
        points = analysis.once(training_of).points
        workers = len({p.point.workers for p in points}) > 1
        return tuple(contest.spelled(names, workers) for contest in contests(points))

    def in_answer(self, analysis: Analysis, series: SeriesResult, few: bool) -> str:
        trained = _curve_trainings(analysis, series)
        if not trained:
            return ""
        last = max(trained, key=lambda p: p.point.workers)
        if not few:
            return f"; accuracy {formatting.percent(last.final.value)}"
        return _accuracy(last)

    def in_headline(self, analysis: Analysis, series: SeriesResult) -> str:
        trained = _curve_trainings(analysis, series)
        if not trained:
            return ""
        last = trained[-1]
        largest = max((p.workers for p in series.points if p.measured), default=None)
        where = "" if last.point.workers == largest else f" on {count(last.point.workers, 'worker')}"
        return _accuracy(last) + where

    def ranking(self, analysis: Analysis) -> Ranking | None:
        points = {(p.bundle, p.point.name): p for p in analysis.once(training_of).points}

        def ties(places: Sequence[Place]) -> int:
            return len(contest([points[place] for place in places]).tied)

        return Ranking({place: p.final.value for place, p in points.items()}, ties) if points else None

    def along_axis(self, analysis: Analysis, axis: str) -> Sequence[AxisPoint]:
        results = along_axes(analysis.once(training_of).points)
        return [
            AxisPoint(r.training.bundle, r.rest, r.training.point.workers, r.value, r.training.final)
            for r in results
            if r.axis == axis
        ]

    def leads(self, analysis: Analysis) -> bool:
        return bool(analysis.once(training_of).points)


contribute(_Training())


def _curve_trainings(analysis: Analysis, series: SeriesResult) -> list[PointTraining]:
    """The trainings of a curve, by worker count."""
    points = analysis.once(training_of).points
    trained = [p for p in points if (p.bundle, p.series) == (series.bundle, series.name)]
    return sorted(trained, key=lambda p: p.point.workers)


def _accuracy(last: PointTraining) -> str:
    return f"; accuracy {formatting.interval(last.final, as_percent=True)} after {count(last.epochs, 'epoch')}"
