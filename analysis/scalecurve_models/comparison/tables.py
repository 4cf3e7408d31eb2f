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
    Beside,
    SeriesBeside,
    beside,
    without_a_sample,
)
from scalecurve_models.comparison.series_models import Further
from scalecurve_models.fitting.least_squares import FitError, Parameter
from scalecurve_models.fitting.parameter_tables import PARAMETER_COLUMNS, PARAMETER_NOTE, parameter_cells


def predicted_tables(bundle: Bundle, *, every_model: bool = True) -> tuple[Table, ...]:
    """Four tables: predictions beside measurements, errors of every model at every count, the models, their parameters.

    With ``every_model`` False the first holds only the best model of every curve. Empty where nothing was measured.
    """
    return tables_of(beside(bundle), every_model=every_model)


def tables_of(found: Sequence[SeriesBeside], *, every_model: bool = True) -> tuple[Table, ...]:
    """The same of what ``beside`` has found."""
    if not found:
        return ()
    return _predicted(found, every_model), _errors(found), _models(found), _parameters(found)


def extrapolated_tables(
    bundle: Bundle,
    workers: Sequence[int],
    price: Cost | None = None,
    level: float = 0.95,
    *,
    hold_out: Collection[int] = (),
    further: Further | None = None,
) -> tuple[Table, ...]:
    """Every model at these worker counts, measured or not, and how each was judged: predictions and the models.

    Raises:
        FitError: for counts below 1, or a bundle in which nothing was measured.
    """
    if not workers or min(workers) < 1:
        raise FitError(f"predict: worker counts must be at least 1, given {min(workers, default='none')}")
    found = beside(bundle, workers, hold_out, price, level, further)
    if not found:
        raise FitError(f"predict: nothing was measured in {bundle.label}: there is nothing to predict from")
    asked = [replace(each, rows=tuple(row for row in each.rows if row.workers in workers)) for each in found]
    table = _predicted(asked, every_model=True)
    return replace(table, notes=(*table.notes, *without_a_sample(found, workers))), _models(found)


def _predicted(found: Sequence[SeriesBeside], every_model: bool) -> Table:
    work = {each.work.title for each in found}
    of_what = f" ({work.pop()})" if len(work) == 1 else ""
    currencies = {each.work.currency for each in found if each.work.currency}
    money = currencies.pop() if len(currencies) == 1 else ""
    unit = _unit(found)
    columns = (
        *_where(found),
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
        for each in found
        for row in each.rows
        # What a model cannot predict stands in the other two tables, with the reason.
        if (every_model and (row.predicted is not None or row.how == NOT_MEASURED))
        or row.how == BASELINE
        or (each.prediction.best is not None and row.model == each.prediction.best.name)
    ]
    notes = ["A point that was left out is predicted by a fit to all others."]
    if any(row.low is not None or row.high is not None for each in found for row in each.rows):
        notes[0] = notes[0].removesuffix(".") + "; from and to are for a new run."
    if not every_model:
        notes.append("Of every curve its best model only: the one with the smallest error at left-out points.")
    return Table("predicted", "Predicted beside measured", columns, tuple(rows), tuple(notes))


def _cells(each: SeriesBeside, row: Beside) -> tuple[Cell, ...]:
    work, n = each.work, row.workers
    measured_s, predicted_s = work.seconds(row.measured), work.seconds(row.predicted)
    measured_cost, predicted_cost = work.cost(row.measured, n), work.cost(row.predicted, n)
    # Run time is as the inverse of throughput, and cost is in proportion to run time.
    time_error = None if row.error is None else 1 / (1 + row.error) - 1
    return (
        *_place(each, n),
        row.model or None,
        row.how,
        *(row.measured, row.predicted, row.low, row.high, row.error),
        *(measured_s, predicted_s, time_error),
        *(measured_cost, predicted_cost, None if measured_cost is None else time_error),
    )


def _errors(found: Sequence[SeriesBeside]) -> Table:
    names = list(dict.fromkeys(model.name for each in found for model in each.prediction.models))
    columns = (
        *_where(found),
        Column("measured", "Throughput", "number", _unit(found)),
        *(Column(name.replace("-", "_"), name, "percent", keep=True) for name in names),
        Column("best", "Best on this curve"),
    )
    rows = []
    for each in found:
        best = each.prediction.best.name if each.prediction.best else None
        for workers, measured in each.measured:
            errors = {row.model: row.error for row in each.rows if row.workers == workers}
            rows.append((*_place(each, workers), measured, *(errors.get(name) for name in names), best))
    notes = ("predicted/measured - 1 of the throughput, at points that the model did not see.",)
    return Table("prediction_errors", "Errors of every model", columns, tuple(rows), notes)


def _models(found: Sequence[SeriesBeside]) -> Table:
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
    for each in found:
        best = each.prediction.best
        for model in each.prediction.models:
            note = "; ".join(part for part in (model.refusal, *model.notes) if part)
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
        for each in found
        if len(each.prediction.fitted_to.workers) == 2
    ]
    return Table("models", "Models and how they were judged", columns, tuple(rows), tuple(notes))


def _list_of(counts: Sequence[int]) -> str:
    return " and ".join(map(str, counts))


def _parameters(found: Sequence[SeriesBeside]) -> Table:
    """Every parameter once: the step models are fitted to all curves of a program together."""
    fits: dict[tuple[str, str, tuple[Parameter, ...]], list[str]] = {}
    for each in found:
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


def _where(found: Sequence[SeriesBeside]) -> tuple[Column, ...]:
    several = len({each.series.bundle for each in found}) > 1
    return (
        Column("experiment", "Experiment", detail=not several),
        Column("series", "Series"),
        Column("workers", "Workers", "count"),
    )


def _place(each: SeriesBeside, workers: int) -> tuple[Cell, ...]:
    return each.series.bundle, each.series.name, workers


def _unit(found: Sequence[SeriesBeside]) -> str:
    units = {each.series.sample_unit for each in found}
    return (units.pop() if len(units) == 1 else "samples or tokens") + "/s"
