"""Loss curves, steps and time to a target, and the effect of depth, as tables."""

from collections.abc import Iterator

from scalecurve.render.table import Cell, Column, Table
from scalecurve_models.fitting.parameter_tables import PARAMETER_COLUMNS, PARAMETER_NOTE, parameter_cells
from scalecurve_models.learning_curves.fit import HALF, LearningFit, PointLearningFit
from scalecurve_models.optimus.depth import CoefficientFit


def learning_tables(learning: LearningFit) -> tuple[Table, ...]:
    """The tables that have rows."""
    if not learning.points:
        return ()
    return tuple(table for table in _all(learning) if table.rows)


def _all(learning: LearningFit) -> Iterator[Table]:
    yield _curves(learning)
    yield _targets(learning)
    yield _parameters(learning)
    yield _depth(learning)
    yield _left_out(learning)


_WHERE = (Column("series", "Series"), Column("workers", "Workers", "count"))


def _place(point: PointLearningFit) -> tuple[Cell, ...]:
    return point.point.series, point.point.workers


def _curves(learning: LearningFit) -> Table:
    columns = (
        *_WHERE,
        Column("batch", "Global batch", "count"),
        Column("kind", "Curve"),
        Column("runs", "Runs", "count"),
        Column("points", "Points", "count"),
        Column("replaced", "Outliers", "count"),
        Column("error", "Mean fit error", "percent"),
        Column("ahead_error", "Error ahead", "percent"),
        Column("floor", "Asymptotic loss", "number"),
        Column("note", "Note"),
    )
    rows = []
    for p in learning.points:
        fit = p.fit
        error = sum(map(abs, fit.residuals)) / len(fit.residuals) if fit else None
        note = "; ".join(part for part in (p.failure, *(fit.notes if fit else ())) if part)
        rows.append(
            (
                *(*_place(p), p.point.global_batch, p.kind, len(p.curves)),
                *(fit.points if fit else sum(len(curve.steps) for curve in p.curves), fit.replaced if fit else None),
                *(error, p.ahead_error, float(fit.values[2]) if fit else None, note or None),
            )
        )
    notes = [
        "l(k) = 1/(b0 k + b1) + b2 through the points of all runs; intervals include the scatter of the seeds.",
        f"Error ahead: a fit to the first {HALF:.0%} of each run against the rest.",
        *learning.notes,
        *(f"{problem.file}: {problem.what}" for problem in learning.problems),
    ]
    return Table("learning", "Loss curves", columns, tuple(rows), tuple(notes))


def _targets(learning: LearningFit) -> Table:
    columns = (
        *_WHERE,
        Column("target", "Target", "number"),
        Column("steps", "Steps", "number"),
        Column("predicted_steps", "Predicted steps", "number"),
        Column("low", "95 % low", "number"),
        Column("high", "95 % high", "number"),
        Column("error", "Error", "percent"),
        Column("seconds", "Training time", "number", "s"),
        Column("predicted_s", "Predicted time", "number", "s"),
        Column("note", "Note"),
    )
    rows = []
    for p in learning.points:
        if p.target is None or (p.reach is None and p.reached_steps is None):
            continue
        reach = p.reach
        steps = reach.steps if reach else None
        error = steps / p.reached_steps - 1 if steps is not None and p.reached_steps else None
        rows.append(
            (
                *(*_place(p), p.target, p.reached_steps, steps),
                *(reach.low if reach else None, reach.high if reach else None, error),
                *(p.reached_s, p.seconds[0], (reach.why if reach else p.failure) or None),
            )
        )
    notes = (
        "Steps and time are medians over runs at the first evaluation that met the target; the curve meets it earlier.",
        "The curve was fitted to the same runs.",
    )
    return Table("targets", "Steps and time to the target", columns, tuple(rows), notes)


def _parameters(learning: LearningFit) -> Table:
    columns = (*_WHERE, *PARAMETER_COLUMNS)
    rows = [
        (*_place(p), *parameter_cells(parameter)) for p in learning.points if p.fit for parameter in p.fit.parameters
    ]
    if learning.critical:
        rows += [(None, None, *parameter_cells(parameter)) for parameter in learning.critical.parameters]
    notes = [PARAMETER_NOTE]
    if learning.critical:
        notes.append("s_min and b_crit: steps to the target are s_min (1 + b_crit/batch), fitted over all batches.")
    return Table("learning_parameters", "Parameters of the loss curves", columns, tuple(rows), tuple(notes))


def _depth(learning: LearningFit) -> Table:
    axis = learning.depth.axis if learning.depth else ""
    columns = (
        Column("coefficient", "Coefficient"),
        Column("slope", f"Slope over log {axis}", "number"),
        Column("slope_low", "95 % low", "number"),
        Column("slope_high", "95 % high", "number"),
        Column("device", "Device effect", "number"),
        Column("device_low", "95 % low", "number"),
        Column("device_high", "95 % high", "number"),
        Column("held_out", "Error, left-out sizes", "percent"),
        Column("mean_held_out", "Error of the mean", "percent"),
        Column("seed_scatter", "Seed scatter", "percent"),
        Column("verdict", "Verdict"),
    )
    rows = [_coefficient(each) for each in learning.depth.coefficients] if learning.depth else []
    return Table(
        "depth",
        "Coefficients of the loss over model size",
        columns,
        tuple(rows),
        learning.depth.notes if learning.depth else (),
    )


def _coefficient(coefficient: CoefficientFit) -> tuple[Cell, ...]:
    device = coefficient.device
    return (
        *(coefficient.name, coefficient.slope.value, coefficient.slope.low, coefficient.slope.high),
        *((device.value, device.low, device.high) if device else (None, None, None)),
        *(coefficient.held_out, coefficient.mean_held_out, coefficient.seed_scatter, coefficient.verdict),
    )


def _left_out(learning: LearningFit) -> Table:
    columns = (
        Column("run", "Run"),
        Column("depth", "Depth", "count"),
        Column("error", "Mean error, other depths", "percent"),
        Column("last_error", "last loss", "percent"),
        Column("mean_error", "Mean error, mean curve", "percent"),
        Column("mean_last_error", "last loss", "percent"),
        Column("own_error", "Own fit", "percent"),
        Column("verdict", "Depth informative", "flag"),
    )
    rows = [
        (
            *(left.run.label, left.run.depth, left.error, left.last_error, left.mean_error, left.mean_last_error),
            *(left.own_error, left.better_than_mean),
        )
        for left in learning.left_out
    ]
    return Table("left_out_depths", "Loss curves of left-out depths", columns, tuple(rows))
