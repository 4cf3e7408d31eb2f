"""Tables of predicted against measured: every point, errors of every model, the models, their parameters."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from scalecurve.bundle.open import Bundle
from scalecurve.curves.cost import holds_for
from scalecurve.render.table import Cell, Column, Mark, Table, columns_of, experiment_column, interval_ends
from scalecurve.statistics.estimate import RefusedNumber
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
from scalecurve_models.fitting.separability import RULE
from scalecurve_models.laws.extrapolation import Extrapolation, extrapolate, extrapolation_table
from scalecurve_models.laws.normal_form import CurvePoint


def comparison_tables(comparisons: Sequence[SeriesComparison], *, every_model: bool = True) -> tuple[Table, ...]:
    """The same of what ``compare_models`` has found."""
    if not comparisons:
        return ()
    return (
        _tabulate_predictions(comparisons, every_model),
        _errors(comparisons),
        _models(comparisons),
        _parameters(comparisons),
    )


def prediction_tables(
    bundle: Bundle,
    workers: Sequence[int],
    price: Cost | None = None,
    *,
    hold_out: Collection[int] = (),
    extra_models: ExtraModels | None = None,
    include_unproved: bool = False,
    workers_per_node: int | None = None,
) -> tuple[Table, ...]:
    """Every model at these worker counts, measured or not: the predictions and the models with their errors.

    Raises FitError for counts below 1, or a bundle in which nothing was measured.
    """
    if not workers or min(workers) < 1:
        raise FitError(f"predict: worker counts must be at least 1, got {min(workers, default='none')}")
    comparisons = compare_models(bundle, workers, hold_out, price, extra_models, include_unproved=include_unproved)
    if not comparisons:
        raise FitError(f"predict: {bundle.label} has no measured points to predict from")
    extrapolated = [(each, extrapolations(each, workers, workers_per_node)) for each in comparisons]
    selected = [replace(each, rows=_believable_rows(each, workers, ahead)) for each, ahead in extrapolated]
    table = _tabulate_predictions(selected, every_model=True)
    first = replace(table, notes=(*table.notes, *idle_worker_notes(comparisons, workers)))
    rows = [(each.series.name, at) for each, ahead in extrapolated for at in ahead]
    return first, *((extrapolation_table(rows, "extrapolated"),) if rows else ()), _models(comparisons)


def extrapolations(
    comparison: SeriesComparison, workers: Collection[int], workers_per_node: int | None = None
) -> tuple[Extrapolation, ...]:
    """The requested counts of a curve that were not measured, or held out, by the pooled normal forms."""
    series, fitted = comparison.series, comparison.prediction.fitted_to
    points = [CurvePoint(point.workers, point.throughput, point.point.nodes) for point in fitted.points]
    unknown = [n for n in series.counts_with(workers) if n in workers and fitted.at(n) is None]
    if not points:
        return ()
    nodes = (-(-n // workers_per_node) if workers_per_node else series.nodes_at(n) for n in unknown)
    return tuple(extrapolate(points, n, nodes=on) for n, on in zip(unknown, nodes, strict=True))


def _believable_rows(
    comparison: SeriesComparison, workers: Collection[int], ahead: Sequence[Extrapolation]
) -> tuple[ComparedPoint, ...]:
    """A refused count has its reason in the place of every law; one that was held out shows what laws miss it by.

    A law's own interval knows nothing of what is new at a refused count.
    """
    refused = {at.workers: at.reason for at in ahead if at.throughput is None}
    rows: dict[tuple[int, str, str], ComparedPoint] = {}
    for row in (row for row in comparison.rows if row.workers in workers):
        if row.workers in refused and row.measured is None:
            row = ComparedPoint(row.workers, "", NOT_MEASURED, None, None, refused=refused[row.workers])
        elif row.workers in refused and Mark.UNKNOWN not in interval_ends(row.low, row.high):
            row = replace(row, low=None, high=None)
        rows[row.workers, row.model, row.how] = row
    return tuple(rows.values())


def _tabulate_predictions(comparisons: Sequence[SeriesComparison], every_model: bool) -> Table:
    titles = {each.cost_basis.title for each in comparisons}
    scope = f" ({titles.pop()})" if len(titles) == 1 else ""
    currencies = {each.cost_basis.currency for each in comparisons if each.cost_basis.currency}
    money = currencies.pop() if len(currencies) == 1 else ""
    unit = _unit(comparisons)
    columns = (
        *_where(comparisons),
        *columns_of("text", model="Model", how="Point"),
        *columns_of("number", unit, measured="Throughput", predicted="Predicted", low="95 % low", high="95 % high"),
        Column("error", "Error", "percent"),
        *columns_of("number", "s", measured_s=f"Run time{scope}", predicted_s="Predicted"),
        Column("error_s", "Error", "percent"),
        *columns_of("number", money, measured_cost=f"Cost{scope}", predicted_cost="Predicted"),
        Column("error_cost", "Error", "percent"),
    )
    rows = [
        _cells(each, row)
        for each in comparisons
        for row in each.rows
        # Models without a prediction are in the other tables, with the reason.
        if (every_model and (row.predicted is not None or row.how == NOT_MEASURED))
        or row.how == BASELINE
        or row.model in {model.name for model in each.prediction.leading}
    ]
    notes = ["A left-out point is predicted by a fit to all others."]
    if any(row.low is not None or row.high is not None for each in comparisons for row in each.rows):
        notes.append("95 % intervals are for a new run.")
    if any(each.cost_basis.currency for each in comparisons):
        notes.append(holds_for([each.cost_basis.sessions for each in comparisons]))
    if not every_model:
        notes.append("Only the best model of each curve is shown, or those that are not separable.")
    return Table("predicted", "Predicted vs. measured", columns, tuple(rows), tuple(notes))


def _cells(comparison: SeriesComparison, row: ComparedPoint) -> tuple[Cell, ...]:
    work, n = comparison.cost_basis, row.workers
    if row.refused:
        no = RefusedNumber(row.refused)
        return (*_place(comparison, n), None, row.how, None, no, no, no, None, None, no, None, None, no, None)
    measured_s, predicted_s = work.seconds(row.measured), work.seconds(row.predicted)
    measured_cost, predicted_cost = work.cost(row.measured, n), work.cost(row.predicted, n)
    # Run time is inverse to throughput, and cost is proportional to run time.
    time_error = None if row.error is None else 1 / (1 + row.error) - 1
    return (
        *_place(comparison, n),
        row.model or None,
        row.how,
        *(row.measured, row.predicted, *interval_ends(row.low, row.high), row.error),
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
        best = each.prediction.best_in_words
        for workers, measured in each.measured:
            errors = {row.model: row.error for row in each.rows if row.workers == workers}
            rows.append((*_place(each, workers), measured, *(errors.get(name) for name in names), best))
    notes = ("Errors are predicted/measured - 1 of the throughput, at points left out of the fit.",)
    return Table("prediction_errors", "Errors of every model", columns, tuple(rows), notes)


def models_table(rows: Sequence[tuple[Cell, ...]], *, notes: Sequence[str] = (), farthest: bool = False) -> Table:
    """How models were judged, with the error at the largest count if ``farthest``."""
    columns = (
        experiment_column(str(row[0]) for row in rows),
        *columns_of("text", series="Series", model="Model"),
        *columns_of("percent", in_sample="Mean error, in sample", held_out="Mean error, left out"),
        Column("held_out_largest", "Largest", "percent"),
        *((Column("farthest", "Largest count", "percent"),) if farthest else ()),
        Column("best", "Best", "flag"),
        *columns_of("text", note="Note", equation="Equation"),
    )
    return Table("models", "Models and their errors", columns, tuple(rows), (RULE, *notes))


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
        if len(each.prediction.leading) > 1:
            notes.append(f"{each.series.name}: {each.prediction.best_in_words}.")
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
        experiment_column(bundle for bundle, _, _ in fits),
        *columns_of("text", series="Series", model="Model"),
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
