"""Loss curves, steps and time to a target, and the effect of depth, as tables."""

from collections.abc import Sequence

from scalecurve.render import formatting
from scalecurve.render.table import Cell, Column, Table, columns_of, experiment_column, interval_ends
from scalecurve_models.fitting.least_squares import mean_absolute
from scalecurve_models.fitting.parameter_tables import PARAMETER_COLUMNS, PARAMETER_NOTE, parameter_cells
from scalecurve_models.learning_curves.fit import HALF, LearningFit, PointLearningFit
from scalecurve_models.optimus.depth import CoefficientFit, DepthRegression, LeftOutDepth

AT_BOUND_NOTE = "0: at its bound; coefficients are not negative, and the points are fitted best without this one."


def tabulate_learning(learning: LearningFit) -> tuple[Table, ...]:
    """The tables that have rows."""
    if not learning.points:
        return ()
    every = (_curves(learning), _targets(learning), _parameters(learning))
    depths = depth_tables(learning.depth, learning.left_out, learning.depth_training)
    return tuple(table for table in (*every, *depths) if table.rows)


def loss_models_table(fits: Sequence[tuple[str, LearningFit]]) -> Table:
    """The coefficients of every curve of every bundle, one row each."""
    columns = (
        experiment_column(label for label, _ in fits),
        *_WHERE,
        Column("device", "Device"),
        *columns_of("number", "1/step", b0="β0"),
        *columns_of("number", b1="β1", b2="β2"),
        Column("error", "Mean fit error", "percent"),
    )
    rows = [
        (
            label,
            *_place(p),
            p.curves[0].device,
            *(parameter.value for parameter in p.fit.parameters),
            mean_absolute(p.fit.residuals),
        )
        for label, learning in fits
        for p in learning.points
        if p.fit
    ]
    trained = all(learning.training for _, learning in fits)
    notes = (
        f"l(k) = 1/(β0 k + β1) + β2 after k steps, of the {_loss(trained)}. {AT_BOUND_NOTE} Intervals are in the table "
        "of parameters.",
    )
    return Table("loss_models", f"Loss models: {_loss(trained)}", columns, tuple(rows), notes)


def depth_tables(
    depth: DepthRegression | None, left_out: Sequence[LeftOutDepth], training: bool
) -> tuple[Table, Table]:
    """Coefficients over size and device, and the curves of left-out depths, of the loss trained on or held out."""
    return _depth(depth, training), _left_out(left_out, training)


def left_out_sentence(left_outs: Sequence[LeftOutDepth]) -> str:
    """How far the curves of left-out depths are off, by depth; empty without any."""
    by_depth: dict[int | None, list[float]] = {}
    for left in left_outs:
        by_depth.setdefault(left.run.depth, []).append(left.error)
    said = [f"{formatting.percent(sum(each) / len(each))} at depth {depth}" for depth, each in by_depth.items()]
    if not said:
        return ""
    listed = f"{', '.join(said[:-1])} and {said[-1]}" if len(said) > 1 else said[0]
    return f"The regression over the other depths misses the measured curve by {listed}: mean |predicted/measured - 1|."


_WHERE = (Column("series", "Series"), Column("workers", "Workers", "count"))


def _place(point: PointLearningFit) -> tuple[Cell, ...]:
    return point.point.series, point.point.workers


def _curves(learning: LearningFit) -> Table:
    columns = (
        *_WHERE,
        Column("batch", "Global batch", "count"),
        Column("kind", "Curve"),
        *columns_of("count", runs="Runs", points="Points", replaced="Outliers"),
        *columns_of("percent", error="Mean fit error", ahead_error="Error ahead"),
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
        f"Error ahead: a fit to the first {formatting.percent(HALF, 0)} of each run against the rest.",
        *learning.notes,
        *(f"{problem.file}: {problem.what}" for problem in learning.problems),
    ]
    return Table("learning", "Loss curves", columns, tuple(rows), tuple(notes))


def _targets(learning: LearningFit) -> Table:
    columns = (
        *_WHERE,
        *columns_of("number", target="Target", steps="Steps", predicted_steps="Predicted steps"),
        *columns_of("number", low="95 % low", high="95 % high"),
        Column("error", "Error", "percent"),
        *columns_of("number", "s", seconds="Training time", predicted_s="Predicted time"),
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
                *(*interval_ends(reach.low if reach else None, reach.high if reach else None), error),
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
    notes = [PARAMETER_NOTE, AT_BOUND_NOTE]
    if learning.critical:
        notes.append("s_min and b_crit: steps to the target are s_min (1 + b_crit/batch), fitted over all batches.")
    return Table("learning_parameters", "Parameters of the loss curves", columns, tuple(rows), tuple(notes))


def _loss(training: bool) -> str:
    return "training loss" if training else "loss"


def _depth(depth: DepthRegression | None, training: bool) -> Table:
    axis, notes = (depth.axis, depth.notes) if depth else ("", ())
    further = len(depth.coefficients[0].further_devices) if depth else 0
    columns = (
        Column("coefficient", "Coefficient"),
        *columns_of("number", slope=f"Slope over log {axis}", slope_low="95 % low", slope_high="95 % high"),
        *columns_of("number", device="Device effect", device_low="95 % low", device_high="95 % high"),
        *(
            column
            for number in range(3, further + 3)
            for column in columns_of(
                "number",
                **{
                    f"device_{number}": f"Device {number}",
                    f"device_{number}_low": "low",
                    f"device_{number}_high": "high",
                },
            )
        ),
        *columns_of("percent", held_out="Error, left-out sizes", mean_held_out="Error of the mean"),
        Column("seed_scatter", "Seed scatter", "percent"),
        Column("verdict", "Verdict"),
    )
    rows = [_coefficient(each) for each in depth.coefficients] if depth else []
    return Table("depth", f"Coefficients of the {_loss(training)} over model size", columns, tuple(rows), notes)


def _coefficient(coefficient: CoefficientFit) -> tuple[Cell, ...]:
    device = coefficient.device
    further = (cell for other in coefficient.further_devices for cell in (other.value, other.low, other.high))
    return (
        *(coefficient.name, coefficient.slope.value, coefficient.slope.low, coefficient.slope.high),
        *((device.value, device.low, device.high) if device else (None, None, None)),
        *further,
        *(coefficient.held_out, coefficient.mean_held_out, coefficient.seed_scatter, coefficient.verdict),
    )


def _left_out(left_outs: Sequence[LeftOutDepth], training: bool) -> Table:
    columns = (
        Column("run", "Run"),
        Column("depth", "Depth", "count"),
        *columns_of("percent", error="Mean error, other depths", last_error="last loss"),
        *columns_of("percent", mean_error="Mean error, mean curve", mean_last_error="last loss", own_error="Own fit"),
        Column("verdict", "Depth informative", "flag"),
    )
    rows = [
        (
            *(left.run.label, left.run.depth, left.error, left.last_error, left.mean_error, left.mean_last_error),
            *(left.own_error, left.better_than_mean),
        )
        for left in left_outs
    ]
    title = f"{_loss(training).capitalize()} curves of left-out depths"
    return Table("left_out_depths", title, columns, tuple(rows), (left_out_sentence(left_outs),) if rows else ())
