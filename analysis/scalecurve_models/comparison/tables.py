"""Tables of predicted against measured: every point, errors of every model, the models, their parameters."""

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
    """Every model at these worker counts, measured or not: the predictions and the models with their errors.

    Raises FitError for counts below 1, or a bundle in which nothing was measured.
    """
    if not workers or min(workers) < 1:
        raise FitError(f"predict: worker counts must be at least 1, got {min(workers, default='none')}")
    comparisons = compare_models(bundle, workers, hold_out, price, level, extra_models)
    if not comparisons:
        raise FitError(f"predict: {bundle.label} has no measured points to predict from")
    selected = [replace(each, rows=tuple(row for row in each.rows if row.workers in workers)) for each in comparisons]
    table = _predicted(selected, every_model=True)
    return replace(table, notes=(*table.notes, *idle_worker_notes(comparisons, workers))), _models(comparisons)


def _predicted(comparisons: Sequence[SeriesComparison], every_model: bool) -> Table:
    titles = {each.cost_basis.title for each in comparisons}
    scope = f" ({titles.pop()})" if len(titles) == 1 else ""
    currencies = {each.cost_basis.currency for each in comparisons if each.cost_basis.currency}
    money = currencies.pop() if len(currencies) == 1 else ""
    unit = _unit(comparisons)
    columns = (
        *_where(comparisons),
        Column("model", "Model"),
        Column("how", "Point"),
        Column("measured", "Throughput", "number", unit),
        Column("predicted", "Predicted", "number", unit),
        Column("low", "95 % low", "number", unit),
        Column("high", "95 % high", "number", unit),
        Column("error", "Error", "percent"),
        Column("measured_s", f"Run time{scope}", "number", "s"),
        Column("predicted_s", "Predicted", "number", "s"),
        Column("error_s", "Error", "percent"),
        Column("measured_cost", f"Cost{scope}", "number", money),
        Column("predicted_cost", "Predicted", "number", money),
        Column("error_cost", "Error", "percent"),
    )
    rows = [
        _cells(each, row)
        for each in comparisons
        for row in each.rows
        # Models without a prediction are in the other tables, with the reason.
        if (every_model and (row.predicted is not None or row.how == NOT_MEASURED))
        or row.how == BASELINE
        or (each.prediction.best is not None and row.model == each.prediction.best.name)
    ]
    notes = ["A left-out point is predicted by a fit to all others."]
    if any(row.low is not None or row.high is not None for each in comparisons for row in each.rows):
        notes.append("95 % intervals are for a new run.")
    if not every_model:
        notes.append("Only the best model of each curve is shown, with the lowest mean error at left-out points.")
    return Table("predicted", "Predicted vs. measured", columns, tuple(rows), tuple(notes))


def _cells(comparison: SeriesComparison, row: ComparedPoint) -> tuple[Cell, ...]:
    work, n = comparison.cost_basis, row.workers
    measured_s, predicted_s = work.seconds(row.measured), work.seconds(row.predicted)
    measured_cost, predicted_cost = work.cost(row.measured, n), work.cost(row.predicted, n)
    # Run time is inverse to throughput, and cost is proportional to run time.
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
        Column("best", "Best model"),
    )
    rows = []
    for each in comparisons:
        best = each.prediction.best.name if each.prediction.best else None
        for workers, measured in each.measured:
            errors = {row.model: row.error for row in each.rows if row.workers == workers}
            rows.append((*_place(each, workers), measured, *(errors.get(name) for name in names), best))
    notes = ("Errors are predicted/measured - 1 of the throughput, at points left out of the fit.",)
    return Table("prediction_errors", "Errors of every model", columns, tuple(rows), notes)


def models_table(rows: Sequence[tuple[Cell, ...]], *, notes: Sequence[str] = (), farthest: bool = False) -> Table:
    """How models were judged, with the error at the largest count if ``farthest``."""
    columns = (
        Column("experiment", "Experiment", detail=True),
        Column("series", "Series"),
        Column("model", "Model"),
        Column("in_sample", "Mean error, in sample", "percent"),
        Column("held_out", "Mean error, left out", "percent"),
        Column("held_out_largest", "Largest", "percent"),
        *((Column("farthest", "Largest count", "percent"),) if farthest else ()),
        Column("best", "Best", "flag"),
        Column("note", "Note"),
        Column("equation", "Equation"),
    )
    best = "The best model has the lowest mean error at left-out points; errors in sample do not count."
    return Table("models", "Models and their errors", columns, tuple(rows), (best, *notes))


def _models(comparisons: Sequence[SeriesComparison]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    notes = []
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
        counts = each.prediction.fitted_to.workers
        if len(counts) == 2:
            result = "the best model says little about other counts" if best else "no model is called the best"
            notes.append(
                f"{each.series.name}: {counts[0]} and {counts[1]} workers test no law with a parameter; {result}."
            )
    return models_table(rows, notes=notes)


def _parameters(comparisons: Sequence[SeriesComparison]) -> Table:
    """Every parameter once, since the step models are fitted to all curves of a program together."""
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
