"""Tables of predictions beside measurements: every point, every model's errors, how models were judged, parameters."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from scalecurve.bundle.open import Bundle
from scalecurve.render.table import Cell, Column, Table
from scalecurve_api.spec.experiment import Cost
from scalecurve_models.comparison.compare_models import (
    BASELINE,
    NOT_MEASURED,
    ComparedPoint,
    SeriesComparison,
    compare_models,
    idle_worker_notes,
)
from scalecurve_models.comparison.series_models import ExtraModels
from scalecurve_models.fitting.least_squares import FitError, Parameter
from scalecurve_models.fitting.parameter_tables import PARAMETER_COLUMNS, PARAMETER_NOTE, parameter_cells


def comparison_tables(comparisons: Sequence[SeriesComparison], *, every_model: bool = True) -> tuple[Table, ...]:
    """The same of what ``compare_models`` has found."""
    if not comparisons:
        return ()
    return _predicted(comparisons, every_model), _errors(comparisons), _models(comparisons), _parameters(comparisons)


def prediction_tables(
    bundle: Bundle,
    workers: Sequence[int],
    price: Cost | None = None,
    level: float = 0.95,
    *,
    hold_out: Collection[int] = (),
    extra_models: ExtraModels | None = None,
) -> tuple[Table, ...]:
    """Every model at these worker counts, measured or not, and how each was judged: predictions and the models.

    Raises:
        FitError: for counts below 1, or a bundle in which nothing was measured.
    """
    if not workers or min(workers) < 1:
        raise FitError(f"predict: worker counts must be at least 1, given {min(workers, default='none')}")
    found = compare_models(bundle, workers, hold_out, price, level, extra_models)
    if not found:
        raise FitError(f"predict: nothing was measured in {bundle.label}: there is nothing to predict from")
    asked = [replace(each, rows=tuple(row for row in each.rows if row.workers in workers)) for each in found]
    table = _predicted(asked, every_model=True)
    return replace(table, notes=(*table.notes, *idle_worker_notes(found, workers))), _models(found)


def _predicted(comparisons: Sequence[SeriesComparison], every_model: bool) -> Table:
    work = {each.cost_basis.title for each in comparisons}
    of_what = f" ({work.pop()})" if len(work) == 1 else ""
    currencies = {each.cost_basis.currency for each in comparisons if each.cost_basis.currency}
    money = currencies.pop() if len(currencies) == 1 else ""
    unit = _unit(comparisons)
    columns = (
        *_where(comparisons),
        Column("model", "Model"),
        Column("how", "Point was"),
        Column("measured", "Throughput", "number", unit),
        Column("predicted", "predicted", "number", unit),
        Column("low", "from", "number", unit),
        Column("high", "to", "number", unit),
        Column("error", "error", "percent"),
        Column("measured_s", f"Run time{of_what}", "number", "s"),
        Column("predicted_s", "predicted", "number", "s"),
        Column("error_s", "error", "percent"),
        Column("measured_cost", f"Cost{of_what}", "number", money),
        Column("predicted_cost", "predicted", "number", money),
        Column("error_cost", "error", "percent"),
    )
    rows = [
        _cells(each, row)
        for each in comparisons
        for row in each.rows
        # What a model cannot predict stands in the other two tables, with the reason.
        if (every_model and (row.predicted is not None or row.how == NOT_MEASURED))
        or row.how == BASELINE
        or (each.prediction.best is not None and row.model == each.prediction.best.name)
    ]
    notes = ["A point that was left out is predicted by a fit to all others."]
    if any(row.low is not None or row.high is not None for each in comparisons for row in each.rows):
        notes[0] = notes[0].removesuffix(".") + "; from and to are for a new run."
    if not every_model:
        notes.append("Of every curve its best model only: the one with the smallest error at left-out points.")
    return Table("predicted", "Predicted beside measured", columns, tuple(rows), tuple(notes))


def _cells(comparison: SeriesComparison, row: ComparedPoint) -> tuple[Cell, ...]:
    work, n = comparison.cost_basis, row.workers
    measured_s, predicted_s = work.seconds(row.measured), work.seconds(row.predicted)
    measured_cost, predicted_cost = work.cost(row.measured, n), work.cost(row.predicted, n)
    # Run time is as the inverse of throughput, and cost is in proportion to run time.
    time_error = None if row.error is None else 1 / (1 + row.error) - 1
    return (
        *_place(comparison, n),
        row.model or None,
        row.how,
        *(row.measured, row.predicted, row.low, row.high, row.error),
        *(measured_s, predicted_s, time_error),
        *(measured_cost, predicted_cost, None if measured_cost is None else time_error),
    )


def _errors(comparisons: Sequence[SeriesComparison]) -> Table:
    names = list(dict.fromkeys(model.name for each in comparisons for model in each.prediction.models))
    columns = (
        *_where(comparisons),
        Column("measured", "Throughput", "number", _unit(comparisons)),
        *(Column(name.replace("-", "_"), name, "percent", keep=True) for name in names),
        Column("best", "Best on this curve"),
    )
    rows = []
    for each in comparisons:
        best = each.prediction.best.name if each.prediction.best else None
        for workers, measured in each.measured:
            errors = {row.model: row.error for row in each.rows if row.workers == workers}
            rows.append((*_place(each, workers), measured, *(errors.get(name) for name in names), best))
    notes = ("predicted/measured - 1 of the throughput, at points that the model did not see.",)
    return Table("prediction_errors", "Errors of every model", columns, tuple(rows), notes)


def _models(comparisons: Sequence[SeriesComparison]) -> Table:
    columns = (
        Column("experiment", "Experiment", detail=True),
        Column("series", "Series"),
        Column("model", "Model"),
        Column("in_sample", "Mean error, in sample", "percent"),
        Column("held_out", "left out", "percent"),
        Column("held_out_largest", "largest", "percent"),
        Column("best", "Best", "flag"),
        Column("note", "Note"),
        Column("equation", "Equation"),
    )
    rows = []
    for each in comparisons:
        best = each.prediction.best
        for model in each.prediction.models:
            note = "; ".join(part for part in (model.failure, *model.notes) if part)
            rows.append(
                (
                    *(each.series.bundle, each.series.name, model.name),
                    *(model.in_sample_mean, model.held_out_mean, model.held_out_largest),
                    *(best is not None and model.name == best.name, note or None, model.equation),
                )
            )
    notes = ["The best model is chosen by its mean error at left-out points, never by how it fits those that it saw."]
    notes += [
        f"{each.series.name}: {_list_of(each.prediction.fitted_to.workers)} workers alone test no law that has a "
        + (
            "parameter: the best here was hardly chosen, and says little of other counts."
            if each.prediction.best
            else "parameter, and none is called the best."
        )
        for each in comparisons
        if len(each.prediction.fitted_to.workers) == 2
    ]
    return Table("models", "Models and how they were judged", columns, tuple(rows), tuple(notes))


def _list_of(counts: Sequence[int]) -> str:
    return " and ".join(map(str, counts))


def _parameters(comparisons: Sequence[SeriesComparison]) -> Table:
    """Every parameter once: the step models are fitted to all curves of a program together."""
    fits: dict[tuple[str, str, tuple[Parameter, ...]], list[str]] = {}
    for each in comparisons:
        for model in each.prediction.models:
            if model.parameters:
                fits.setdefault((each.series.bundle, model.name, model.parameters), []).append(each.series.name)
    columns = (
        Column("experiment", "Experiment", detail=True),
        Column("series", "Series"),
        Column("model", "Model"),
        *PARAMETER_COLUMNS,
    )
    rows = [
        (bundle, "; ".join(series), model, *parameter_cells(parameter))
        for (bundle, model, parameters), series in fits.items()
        for parameter in parameters
    ]
    return Table("parameters", "Parameters of the models", columns, tuple(rows), (PARAMETER_NOTE,) if rows else ())


def _where(comparisons: Sequence[SeriesComparison]) -> tuple[Column, ...]:
    several = len({each.series.bundle for each in comparisons}) > 1
    return (
        Column("experiment", "Experiment", detail=not several),
        Column("series", "Series"),
        Column("workers", "Workers", "count"),
    )


def _place(comparison: SeriesComparison, workers: int) -> tuple[Cell, ...]:
    return comparison.series.bundle, comparison.series.name, workers


def _unit(comparisons: Sequence[SeriesComparison]) -> str:
    units = {each.series.sample_unit for each in comparisons}
    return (units.pop() if len(units) == 1 else "samples or tokens") + "/s"
