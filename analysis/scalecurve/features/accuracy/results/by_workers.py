"""Accuracy and training time against the worker count: curves by epoch, convergence, extrapolation."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from scalecurve.features.accuracy.results.extrapolation import LEAST_COUNTS, Extrapolated, extrapolate
from scalecurve.features.accuracy.results.outcome import PointTraining, Run
from scalecurve.render.table import Cell, Column, Table, experiment_column
from scalecurve.statistics.estimate import Estimate, Method, is_informative
from scalecurve.statistics.mean import mean
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.text import count as counted

WIDTH = 3
"""Evaluations that a validation curve is smoothed over."""
TOLERANCE = 0.005
"""How far a smoothed curve that has converged may be from its maximum."""
MOST_EPOCHS = 12  # rows of the table by epoch; all epochs are in ``evals.parquet``
FURTHER = (2, 4)  # times the largest count that was run


def worker_tables(points: Sequence[PointTraining]) -> tuple[Table, ...]:
    """Tabulate series of several worker counts: (against workers, beyond the counts that were run, by epoch)."""
    by_series: dict[tuple[str, str], list[PointTraining]] = {}
    for p in points:
        by_series.setdefault((p.bundle, p.series), []).append(p)
    curves = [curve for curve in by_series.values() if len({p.point.workers for p in curve}) > 1]
    where = (experiment_column(p.bundle for curve in curves for p in curve), Column("series", "Series"))
    return _accuracy_table(curves, where), _extrapolation_table(curves, where), _epoch_table(curves, where)


def turnaround_s(record: TrialRecord) -> float | None:
    """Return the seconds from a trial's first moment to its last: start, timed windows, training and collecting."""
    moments = [event.at_ns for event in record.timeline]
    return (max(moments) - min(moments)) / 1e9 if len(moments) > 1 else None


def epochs_to_settle(p: PointTraining) -> list[int]:
    """Return the epochs to convergence, for the runs that converged."""
    return [run[index].epoch for run, index in _find_convergence(p)]


def seconds_to_settle(p: PointTraining) -> list[float]:
    """Return the training seconds to convergence, without evaluation."""
    return [max(0.0, run[index].wall_s) for run, index in _find_convergence(p)]


def _find_convergence(p: PointTraining) -> Iterator[tuple[Run, int]]:
    for run in p.runs:
        at = settled([evaluation.accuracy for evaluation in run])
        if at is not None:
            yield run, at.index


@dataclass(frozen=True)
class Settled:
    """Where a run converged: ``index`` is the evaluation at which it came to its smoothed ``maximum``."""

    index: int
    maximum: float


def settled(accuracies: Sequence[float], width: int = WIDTH, tolerance: float = TOLERANCE) -> Settled | None:
    """Find where a validation curve converged; None if it did not, or is shorter than two widths.

    The curve is smoothed by the mean of its last ``width`` evaluations, and has converged at the first from which on it
    stays within ``tolerance`` of its own maximum. Among the last ``width`` evaluations nothing was seen of it staying
    there. So a run that falls again later converges late or not at all.
    Raises ValueError for a width below 1, a negative tolerance, or accuracies that are not finite.
    """
    if width < 1 or tolerance < 0 or not all(map(math.isfinite, accuracies)):
        raise ValueError(
            f"expected width >= 1, tolerance >= 0 and finite accuracies, got width {width}, tolerance {tolerance}"
        )
    if len(accuracies) <= 2 * width:
        return None
    smooth = moving_average(accuracies, width)
    maximum = max(smooth)
    after_last_miss = max((index + 1 for index, value in enumerate(smooth) if value < maximum - tolerance), default=0)
    index = after_last_miss + width - 1
    return Settled(index, maximum) if index < len(accuracies) - width else None


def moving_average(values: Sequence[float], width: int) -> list[float]:
    """Return the means of ``width`` values in a row, by the last of them: ``width - 1`` fewer than values."""
    return [math.fsum(values[end - width : end]) / width for end in range(width, len(values) + 1)]


def _accuracy_table(curves: Sequence[list[PointTraining]], where: tuple[Column, ...]) -> Table:
    columns = (
        *where,
        Column("workers", "Workers", "count"),
        Column("global_batch", "Batch", "count"),
        Column("training_accuracy", "Training accuracy", "percent", interval=True),
        Column("final_accuracy", "Validation", "percent", interval=True),
        Column("settled", "Converged"),
        Column("epochs_to_settle", "Epochs to convergence", "number", interval=True),
        Column("to_settle_s", "Time to convergence", "number", "s", interval=True),
        Column("epoch_s", "Epoch time", "number", "s", interval=True),
        Column("turnaround_s", "Turnaround", "number", "s", interval=True),
    )
    rows: list[tuple[Cell, ...]] = []
    for p in (p for curve in curves for p in curve):
        settled_in, turnarounds = epochs_to_settle(p), map(turnaround_s, p.records)
        amounts = (settled_in, seconds_to_settle(p), [value for value in turnarounds if value is not None])
        epochs, seconds, turnaround = (mean(values, p.level, least=0) if values else None for values in amounts)
        where_and_batch = (p.bundle, p.series, p.point.workers, p.point.global_batch)
        converged = f"{len(settled_in)}/{len(p.runs)}"
        rows.append((*where_and_batch, p.fitted, p.final, converged, epochs, seconds, p.epoch_s, turnaround))
    notes = (
        f"A run has converged at the first epoch from which the mean of its last {WIDTH} validation accuracies stays "
        f"within {TOLERANCE * 100:g} percentage points of that mean's maximum, unless it is one of the last {WIDTH}. "
        "Times cover the runs that converged; turnaround is the full trial, from start to collected record.",
    )
    return Table("against-workers", "Accuracy against workers", columns, tuple(rows), notes if rows else ())


def _extrapolation_table(curves: Sequence[list[PointTraining]], where: tuple[Column, ...]) -> Table:
    columns = (
        *where,
        Column("quantity", "Quantity"),
        Column("workers", "Workers", "count"),
        Column("value", "Extrapolated", "number", interval=True),
        Column("why", "Reason if missing"),
    )
    rows: list[tuple[Cell, ...]] = []
    for curve in curves:
        first, most = curve[0], max(p.point.workers for p in curve)
        counts = len({p.point.workers for p in curve})
        if counts < LEAST_COUNTS:
            why = f"not identifiable: {counted(counts, 'worker count')}; a trend needs {LEAST_COUNTS}"
            rows.append((first.bundle, first.series, "all", None, None, why))
            continue
        for name, of, logarithm in _QUANTITIES:
            runs = {p.point.workers: of(p) for p in curve}
            for times in FURTHER:
                further = extrapolate(runs, times * most, first.level, logarithm=logarithm)
                cells = (further.workers, _estimate(further, curve), further.why or None)
                rows.append((first.bundle, first.series, name, *cells))
    notes = (
        "A least-squares line over log2 of the workers through every run (on a log scale except for accuracy). Shown "
        "only if the line through all but the largest count predicted that count. It cannot foresee what no smaller "
        "count shows, such as a saturated network.",
    )
    return Table("beyond-workers", "Extrapolation to more workers", columns, tuple(rows), notes if rows else ())


def _estimate(extrapolated: Extrapolated, points: Sequence[PointTraining]) -> Estimate | None:
    if extrapolated.value is None:
        return None
    least = min(len(p.runs) for p in points)
    low, high, level = extrapolated.low, extrapolated.high, points[0].level
    if not is_informative(low, high):
        return Estimate.not_known(extrapolated.value, level, least)
    return Estimate(extrapolated.value, low, high, level, Method.REPETITIONS, least)


_QUANTITIES: tuple[tuple[str, Callable[[PointTraining], Sequence[float]], bool], ...] = (
    ("validation accuracy", lambda p: [run[-1].accuracy for run in p.runs], False),
    ("epochs to convergence", epochs_to_settle, True),
    ("seconds per epoch", lambda p: [run[-1].wall_s / run[-1].epoch for run in p.runs if run[-1].wall_s > 0], True),
    ("seconds to convergence", lambda p: [value for value in seconds_to_settle(p) if value > 0], True),
)


def _epoch_table(curves: Sequence[list[PointTraining]], where: tuple[Column, ...]) -> Table:
    columns = (
        *where,
        Column("workers", "Workers", "count"),
        Column("epoch", "Epoch", "count"),
        Column("training_accuracy", "Training accuracy", "percent", interval=True),
        Column("validation_accuracy", "Validation", "percent", interval=True),
        Column("training_loss", "Training loss", "number"),
        Column("validation_loss", "Validation loss", "number"),
        Column("wall_s", "Training time", "number", "s"),
    )
    rows: list[tuple[Cell, ...]] = []
    left_out = False
    for p in (p for curve in curves for p in curve):
        last = min(len(run) for run in p.runs)
        shown = sorted({round(1 + k * (last - 1) / (MOST_EPOCHS - 1)) for k in range(MOST_EPOCHS)} | {1, last})
        left_out |= len(shown) < last
        for number in shown:
            evaluations = [run[number - 1] for run in p.runs]
            fitted = [e.train_accuracy for e in evaluations if e.train_accuracy is not None]
            rows.append(
                (
                    *(p.bundle, p.series, p.point.workers, evaluations[0].epoch),
                    mean(fitted, p.level, least=0, most=1) if len(fitted) == len(evaluations) else None,
                    mean([e.accuracy for e in evaluations], p.level, least=0, most=1),
                    fmean(e.train_loss for e in evaluations),
                    fmean(e.loss for e in evaluations),
                    fmean(e.wall_s for e in evaluations),
                )
            )
    notes = ["Training accuracy is that of each step's own model on its batch, over the epoch."]
    notes += ["Not every epoch is shown; evals.parquet has all of them."] * left_out
    return Table("epochs", "Accuracy by epoch and workers", columns, tuple(rows), tuple(notes) if rows else ())
