"""``predict POINTS.csv``: a prediction or a refusal for every series of a file at every requested worker count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from scalecurve.render.table import Table
from scalecurve_api.spec.experiment import Cost
from scalecurve_models.fit.prediction_points import read_series
from scalecurve_models.fitting.least_squares import FitError
from scalecurve_models.laws.extrapolation import Extrapolation, extrapolate, extrapolation_table
from scalecurve_models.laws.next_point import next_points, next_table
from scalecurve_models.laws.normal_form import CurvePoint


def predict_points(path: Path, workers: Sequence[int], workers_per_node: int | None = None) -> Table:
    """Rows (series, workers, throughput, low, high, model, status, reason), throughput in samples/s.

    Besides ``workers``, a series is predicted at the counts of its rows without a throughput. Raises FitError for a
    file that cannot be read, counts below 1, or nothing to predict.
    """
    if any(n < 1 for n in workers):
        raise FitError(f"predict: worker counts must be at least 1, got {min(workers)}")
    rows: list[tuple[str, Extrapolation]] = []
    for name, series in read_series(path).items():
        stated = dict(series.requested)
        for count in [*dict.fromkeys([*workers, *stated])]:
            others = [point for point in series.measured if point.workers != count]
            predicted = extrapolate(others, count, nodes=stated.get(count), workers_per_node=workers_per_node)
            rows.append((name, predicted))
    if not rows:
        raise FitError(f"{path}: nothing to predict: add --workers 64, or rows without a throughput")
    return extrapolation_table(rows, "predicted")


def suggest_points(
    path: Path, workers: Sequence[int], workers_per_node: int | None = None, price: Cost | None = None
) -> Table:
    """What to measure next in every series, for the prediction at the largest of ``workers``."""
    series = {name: each.measured for name, each in read_series(path).items()}
    return suggestions(series, workers, workers_per_node, price)


def suggestions(
    series: Mapping[str, Sequence[CurvePoint]],
    workers: Sequence[int],
    workers_per_node: int | None = None,
    price: Cost | None = None,
) -> Table:
    """The same of measured points. Raises FitError without a count to predict."""
    if not workers or min(workers) < 1:
        raise FitError("predict: --next needs the count to predict: --workers 64")
    rows = [
        (name, at)
        for name, points in series.items()
        for at in next_points(points, max(workers), workers_per_node=workers_per_node)
    ]
    return next_table(rows, price.per_worker_hour if price else None, price.currency if price else None)
