"""Fit points from a CSV file, for numbers that no bundle holds; the columns decide which models.

workers,throughput[,series][,mode][,nodes]          scaling laws
workers,servers,steps_per_s[,batch][,kind][,series] Optimus' speed: kind is sync (needs batch) or async
step,loss[,series]                                  Optimus' loss curve
workers,bytes,time_us[,nodes][,series]              all-reduce algorithms
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from scalecurve.render.table import Cell, Column, Table, columns_of
from scalecurve_api.spec.scaling import Mode
from scalecurve_api.text import count
from scalecurve_models.collectives.collective_fit import TimedAllReduce
from scalecurve_models.collectives.comparison import compare_algorithms
from scalecurve_models.collectives.costs import RankGroup
from scalecurve_models.collectives.tables import collective_tables
from scalecurve_models.comparison.tables import models_table
from scalecurve_models.fit.predict_points import csv_rows
from scalecurve_models.fitting.least_squares import FitError, largest_absolute, mean_absolute
from scalecurve_models.fitting.parameter_tables import PARAMETER_COLUMNS, PARAMETER_NOTE, parameter_cells
from scalecurve_models.fitting.separability import not_separable
from scalecurve_models.laws.cross_validation import LawComparison, compare_laws
from scalecurve_models.laws.extrapolation import extrapolate, merged
from scalecurve_models.laws.normal_form import CurvePoint
from scalecurve_models.optimus.loss import fit_loss, refits
from scalecurve_models.optimus.speed import fit_speed

MAX_BYTES = 256 << 20
_TEXT = frozenset({"series", "mode", "kind"})
_NAMED = 5
_LEAST_COUNTS = 2


@dataclass(frozen=True)
class Layout:
    """The columns that identify a kind of points, and what fits them."""

    needed: tuple[str, ...]
    further: tuple[str, ...]
    fit: Callable[[Points], tuple[Table, ...]]


@dataclass(frozen=True)
class Points:
    """The usable rows of a file by series; ``left_out`` is a note on the unusable ones."""

    layout: Layout
    series: dict[str, list[dict[str, float]]]
    texts: dict[str, dict[str, str]]
    left_out: str
    hold_out: frozenset[int] = frozenset()


def fit_file(path: Path, hold_out: Collection[int] = ()) -> tuple[Table, ...]:
    """Fit the models that the file's columns identify; ``hold_out`` are worker counts to predict from the others alone.

    Raises FitError for a file that cannot be read or has unknown columns, points that no model can be fitted to, or
    counts to hold out that no series has.
    """
    points = replace(read_points(path), hold_out=frozenset(hold_out))
    if hold_out and points.layout.fit is not _scaling:
        raise FitError(
            f"{path}: --hold-out needs the columns workers,throughput; here are {','.join(points.layout.needed)}"
        )
    try:
        tables = points.layout.fit(points)
    except FitError as error:
        raise FitError(f"{path}: {error}") from error
    if not points.left_out:
        return tables
    return (replace(tables[0], notes=(*tables[0].notes, points.left_out)), *tables[1:])


def read_points(path: Path) -> Points:
    """The rows whose numbers are finite and positive; lines starting with # are comments.

    Raises FitError, naming the file, and the line or the columns that are wrong.
    """
    header, rows = csv_rows(path, MAX_BYTES)
    layout = _layout(path, header)
    series: dict[str, list[dict[str, float]]] = {}
    texts: dict[str, dict[str, str]] = {}
    wrong: list[int] = []
    for number, row in rows:
        numbers = {name: _number(value, name == "step") for name, value in row.items() if name not in _TEXT}
        usable = {name: value for name, value in numbers.items() if value is not None}
        if len(usable) < len(numbers):
            wrong.append(number)
            continue
        name = row.get("series", "")
        series.setdefault(name, []).append(usable)
        labels = {key: row[key] for key in _TEXT & row.keys()}
        first = texts.setdefault(name, labels)
        if key := next((key for key in sorted(labels) if labels[key] != first[key]), None):
            raise FitError(
                f"{path}:{number}: {key} {labels[key]!r} and {first[key]!r} in one series ({name or 'no name'}); "
                "use separate series"
            )
    if not series:
        raise FitError(f"{path}: no row has only finite positive numbers")
    named = ", ".join(str(line) for line in wrong[:_NAMED]) + (", …" if len(wrong) > _NAMED else "")
    ignored = f"{count(len(wrong), 'row')} ignored, with numbers that are not positive: line {named}."
    return Points(layout, series, texts, ignored if wrong else "")


def _layout(path: Path, header: Sequence[str]) -> Layout:
    for layout in LAYOUTS:
        if set(layout.needed) <= set(header) <= {*layout.needed, *layout.further} and len(set(header)) == len(header):
            return layout
    known = "; ".join(",".join(layout.needed) + "".join(f"[,{name}]" for name in layout.further) for layout in LAYOUTS)
    raise FitError(f"{path}: unknown columns {','.join(header) or '(none)'}; expected one of: {known}")


def _number(text: str, zero: bool) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and (value > 0 or (zero and value == 0)) else None


def _scaling(points: Points) -> tuple[Table, ...]:
    predicted: list[tuple[Cell, ...]] = []
    models: list[tuple[Cell, ...]] = []
    parameters: list[tuple[Cell, ...]] = []
    notes: list[str] = []
    measured = {_integer(row["workers"]) for rows in points.series.values() for row in rows}
    if unknown := sorted(points.hold_out - measured):
        known = ", ".join(map(str, sorted(measured)))
        raise FitError(f"cannot hold out {unknown[0]} workers: not measured (measured: {known})")
    most = max(len({row["workers"] for row in rows} - points.hold_out) for rows in points.series.values())
    if most < _LEAST_COUNTS:
        raise FitError(f"scaling laws: need at least {_LEAST_COUNTS} different worker counts in a series, got {most}")
    for name, rows in points.series.items():
        text = points.texts[name].get("mode", "weak")
        if text not in tuple(Mode):
            raise FitError(f"mode {text!r}: expected one of {', '.join(Mode)}")
        with _prefix_errors(name):
            kept = [row for row in rows if row["workers"] not in points.hold_out]
            counts, rates = [_integer(row["workers"]) for row in kept], [row["throughput"] for row in kept]
            compared = compare_laws(counts, rates, mode=Mode(text))
            predicted += _predict_held_out(name, rows, points.hold_out, compared)
        if len(compared.leading) > 1:
            tied = not_separable([law.form.name for law in compared.leading])
            notes.append(f"{name}: {tied}." if name else f"{tied.capitalize()}.")
        for judged in compared.laws:
            best = compared.best is judged
            errors = judged.in_sample_mean, judged.held_out_mean, judged.held_out_largest, judged.farthest
            models.append((None, name, judged.form.name, *errors, best, judged.failure or None, judged.form.equation))
            if judged.fit:
                parameters += [(name, judged.form.name, *parameter_cells(p)) for p in judged.fit.parameters]
            for left in judged.held_out:
                predicted.append((name, left.workers, judged.form.name, left.measured, left.predicted, left.error))
    return (
        _prediction_table((Column("workers", "Workers", "count"), Column("model", "Model")), "Throughput", predicted),
        models_table(models, notes=notes, farthest=True),
        _parameter_table(parameters),
    )


def _predict_held_out(
    name: str, rows: Sequence[dict[str, float]], hold_out: Collection[int], compared: LawComparison
) -> Iterator[tuple[Cell, ...]]:
    """Held-out counts by every law, and by the pooled normal forms that ``predict POINTS.csv`` uses."""
    nodes = [_integer(row["nodes"]) if "nodes" in row else None for row in rows]
    curve = merged(
        [CurvePoint(_integer(row["workers"]), row["throughput"], n) for row, n in zip(rows, nodes, strict=True)]
    )
    seen = [point for point in curve if point.workers not in hold_out]
    for point in curve:
        if point.workers not in hold_out:
            continue
        by_law = {law.form.name: law.fit.predict(point.workers).value for law in compared.laws if law.fit}
        pooled = extrapolate(seen, point.workers, nodes=point.nodes).throughput
        for model, value in {**by_law, "normal forms": pooled}.items():
            error = None if value is None else value / point.throughput - 1
            yield (name, point.workers, model, point.throughput, value, error)


def _speed(points: Points) -> tuple[Table, ...]:
    predicted: list[tuple[Cell, ...]] = []
    models: list[tuple[Cell, ...]] = []
    parameters: list[tuple[Cell, ...]] = []
    for name, rows in points.series.items():
        kind = points.texts[name].get("kind") or ("sync" if "batch" in rows[0] else "async")
        if kind not in ("sync", "async"):
            raise FitError(f"kind {kind!r}: expected one of sync, async")
        with _prefix_errors(name):
            fit = fit_speed(
                "sync" if kind == "sync" else "async",
                [row["workers"] for row in rows],
                [row["steps_per_s"] for row in rows],
                servers=[row["servers"] for row in rows],
                batch=[row["batch"] for row in rows] if "batch" in rows[0] else None,
            )
        errors = mean_absolute(fit.residuals), mean_absolute(fit.held_out), largest_absolute(fit.held_out)
        models.append((None, name, kind, *errors, True, "; ".join(fit.notes) or None, fit.equation.equation))
        parameters += [(name, kind, *parameter_cells(parameter)) for parameter in fit.parameters]
        for row, error in zip(rows, fit.held_out, strict=True):
            value = None if error is None else row["steps_per_s"] * (1 + error)
            predicted.append((name, row["workers"], row["servers"], row["steps_per_s"], value, error))
    where = (Column("workers", "Workers", "number"), Column("servers", "Servers", "number"))
    return _prediction_table(where, "Steps/s", predicted), models_table(models), _parameter_table(parameters)


def _loss(points: Points) -> tuple[Table, ...]:
    refitted: list[tuple[Cell, ...]] = []
    parameters: list[tuple[Cell, ...]] = []
    notes: list[str] = []
    for name, rows in points.series.items():
        steps, losses = [row["step"] for row in rows], [row["loss"] for row in rows]
        with _prefix_errors(name):
            fit = fit_loss(steps, losses)
        parameters += [(name, "loss", *parameter_cells(parameter)) for parameter in fit.parameters]
        notes += [f"{name}: {note}" if name else note for note in fit.notes]
        for refit in refits(steps, losses):
            floor = float(refit.fit.values[2]) if refit.fit else None
            refitted.append((name, refit.share, refit.seen, refit.ahead_error, refit.last_error, floor))
    columns = (
        Column("series", "Series"),
        Column("share", "After", "percent"),
        Column("seen", "Points used", "count"),
        *columns_of("percent", ahead_error="Mean error ahead", last_error="Error, last loss"),
        Column("floor", "Asymptotic loss", "number"),
    )
    table = Table("refits", "Loss curve, refitted as points arrive", columns, tuple(refitted), tuple(notes))
    return table, _parameter_table(parameters)


def _allreduce(points: Points) -> tuple[Table, ...]:
    comparisons = []
    for name, rows in points.series.items():
        with _prefix_errors(name):
            groups = [RankGroup(_integer(row["workers"]), _integer(row.get("nodes", 1.0))) for row in rows]
            timed = [
                TimedAllReduce(group, _integer(row["bytes"]), row["time_us"] / 1e6)
                for group, row in zip(groups, rows, strict=True)
            ]
            comparisons.append(compare_algorithms(timed, series=name))
    models, parameters, predicted = collective_tables(comparisons)
    return predicted, models, parameters


@contextmanager
def _prefix_errors(series: str) -> Iterator[None]:
    try:
        yield
    except FitError as error:
        raise FitError(f"{series}: {error}" if series else str(error)) from error


def _integer(value: float) -> int:
    if value != int(value):
        raise FitError(f"workers, nodes and bytes must be integers, got {value:g}")
    return int(value)


def _prediction_table(where: tuple[Column, ...], quantity: str, rows: Sequence[tuple[Cell, ...]]) -> Table:
    columns = (
        Column("series", "Series"),
        *where,
        Column("measured", quantity, "number"),
        Column("predicted", "Predicted", "number"),
        Column("error", "Error", "percent"),
    )
    notes = ("Each point is predicted by a fit to the others.",)
    return Table("predicted", "Predicted vs. measured", columns, tuple(rows), notes)


def _parameter_table(rows: Sequence[tuple[Cell, ...]]) -> Table:
    columns = (Column("series", "Series"), Column("model", "Model"), *PARAMETER_COLUMNS)
    return Table("parameters", "Parameters", columns, tuple(rows), (PARAMETER_NOTE,) if rows else ())


LAYOUTS = (
    Layout(("workers", "throughput"), ("series", "mode", "nodes"), _scaling),
    Layout(("workers", "servers", "steps_per_s"), ("batch", "kind", "series"), _speed),
    Layout(("step", "loss"), ("series",), _loss),
    Layout(("workers", "bytes", "time_us"), ("nodes", "series"), _allreduce),
)
