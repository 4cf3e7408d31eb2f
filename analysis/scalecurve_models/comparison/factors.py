"""What the device, the network or the year changes: several curves in one fit, with a coefficient for each level.

log y(N) = a(mode, N) + sum of c(factor, level), by least squares over the worker counts that two curves have in common;
exp(c) is the ratio to the first level of the factor. Curves that are not parallel show as residuals, and so in the
intervals (two-way analysis of variance without interaction, one value a cell).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scalecurve.bundle.open import Bundle
from scalecurve.render.table import Column, Table, columns_of, table_of
from scalecurve.statistics.spread import student_quantile
from scalecurve_api.text import count, few, spell_value
from scalecurve_models.fitting.least_squares import EXACT, LEVEL, SAME, Array
from scalecurve_models.fitting.observations import ObservedPoint, ObservedSeries, observed_series

EXPERIMENT = "experiment"
THROUGHPUT, EFFICIENCY = "throughput", "efficiency"
Levels = Mapping[str, str]


@dataclass(frozen=True)
class Coefficient:
    """The ratio of one level of a factor to its first one; None where the curves do not tell, and ``note`` says why."""

    quantity: str
    factor: str
    level: str
    reference: str
    ratio: float | None
    low: float | None = None
    high: float | None = None
    points: int = 0
    note: str = ""


@dataclass(frozen=True)
class _Cell:
    """One value of one curve, with everything that it may depend on."""

    place: tuple[str, int]
    levels: Levels
    log: float


def factor_coefficients(bundles: Sequence[Bundle]) -> tuple[tuple[Coefficient, ...], tuple[str, ...]]:
    """Coefficients of every factor that differs between curves, for throughput and efficiency; and notes."""
    curves = [
        (series, _levels(bundle, series)) for bundle in bundles for series in observed_series(bundle) if series.points
    ]
    factors, notes = _factors([levels for _, levels in curves])
    quantities: tuple[tuple[str, Callable[[ObservedSeries, ObservedPoint], float | None]], ...] = (
        (THROUGHPUT, lambda series, point: point.throughput),
        (EFFICIENCY, _efficiency),
    )
    coefficients: list[Coefficient] = []
    for quantity, value in quantities:
        cells = [
            _Cell((series.mode.value, point.workers), levels, float(np.log(measured)))
            for series, levels in curves
            for point in series.points
            if (measured := value(series, point)) is not None
        ]
        shared = [cell for cell in cells if sum(other.place == cell.place for other in cells) > 1]
        if shared:
            coefficients += _fit_coefficients(quantity, shared, factors)
    if factors and not coefficients:
        notes.append("no two curves have a worker count in common")
    return tuple(coefficients), tuple(notes)


def factor_table(bundles: Sequence[Bundle]) -> Table:
    """One row for each level of each factor; without rows where only one curve was measured."""
    coefficients, notes = factor_coefficients(bundles)
    explained = (
        "Ratio to the first level of the factor at equal worker counts, other factors held; 95 % intervals include how "
        "far the curves are from parallel.",
    )
    return table_of(
        "factors",
        "Factors: what differs between the curves, and by how much",
        coefficients,
        (
            (Column("quantity", "Quantity"), lambda each: each.quantity),
            (Column("factor", "Factor"), lambda each: each.factor),
            (Column("level", "Level"), lambda each: each.level),
            (Column("reference", "Relative to"), lambda each: each.reference),
            *zip(
                columns_of("number", ratio="Ratio", low="95 % low", high="95 % high"),
                (lambda each: each.ratio, lambda each: each.low, lambda each: each.high),
                strict=True,
            ),
            (Column("points", "Points", "count"), lambda each: each.points),
            (Column("note", "Note"), lambda each: each.note or None),
        ),
        (*explained, *(f"{note[:1].upper()}{note[1:]}." for note in notes)) if coefficients or notes else (),
    )


def _levels(bundle: Bundle, series: ObservedSeries) -> dict[str, str]:
    """What a curve was measured on and with, as far as the records state it."""
    records = [t.record for t in bundle.trials if t.good and t.record and t.spec.point.series == series.name]
    levels: dict[str, str] = {}
    devices = {rank.device_name for record in records for rank in record.topology if rank.device_name}
    if devices:
        levels["device"] = few(sorted(devices))
    for record in records[:1]:
        workload = record.trial.workload
        levels["model"] = workload.model
        if record.imported:
            levels |= {name: spell_value(value) for name, value in workload.own_values.items()}
    levels |= {
        name.removeprefix("parameters."): spell_value(value) for name, value in series.points[0].point.axes.items()
    }
    return {**levels, EXPERIMENT: bundle.label}


def _factors(levels: Sequence[Levels]) -> tuple[dict[str, list[str]], list[str]]:
    """Factors with two levels or more, in which every curve has one; of factors that go together, the first."""
    factors: dict[str, list[str]] = {}
    partitions: dict[tuple[int, ...], str] = {}
    notes = []
    for name in dict.fromkeys(name for each in levels for name in each):
        if any(name not in each for each in levels):
            continue
        values = list(dict.fromkeys(each[name] for each in levels))
        partition = tuple(values.index(each[name]) for each in levels)
        if len(values) < 2:
            continue
        if (same := partitions.get(partition)) is not None:
            if name != EXPERIMENT:
                notes.append(f"{name} differs exactly as {same} does: its effect is in that of {same}")
            continue
        partitions[partition] = name
        factors[name] = values
    if len(factors) > 1 and EXPERIMENT in factors and len(factors[EXPERIMENT]) == len(levels):
        del factors[EXPERIMENT]  # every curve its own level: it would explain all that the others do
    return factors, notes


def _fit_coefficients(quantity: str, cells: Sequence[_Cell], factors: Mapping[str, Sequence[str]]) -> list[Coefficient]:
    places = sorted({cell.place for cell in cells})
    columns = [(name, level) for name, values in factors.items() for level in values[1:]]
    design = np.array(
        [
            [float(cell.place == place) for place in places]
            + [float(cell.levels[name] == level) for name, level in columns]
            for cell in cells
        ]
    )
    target = np.array([cell.log for cell in cells])
    solution, _, rank, _ = np.linalg.lstsq(design, target, rcond=SAME)
    inverse = np.linalg.pinv(design.T @ design, rcond=SAME)
    told = inverse @ (design.T @ design)  # the identity in the rows of what the cells determine
    degrees = len(cells) - int(rank)
    residuals: Array = target - design @ solution
    variance = float(residuals @ residuals) / degrees if degrees else 0.0
    results = []
    for at, (name, level) in enumerate(columns, start=len(places)):
        unit = np.zeros(design.shape[1])
        unit[at] = 1.0
        points = int(design[:, at].sum())
        reference = factors[name][0]
        if not points or np.abs(told[at] - unit).max() > 1e-6:
            why = "no worker count in common" if not points else "not identifiable: differs together with other factors"
            results.append(Coefficient(quantity, name, level, reference, None, points=points, note=why))
            continue
        value = float(solution[at])
        half = student_quantile(degrees, LEVEL) * float(np.sqrt(variance * inverse[at, at])) if degrees else None
        low, high = (None, None) if half is None else (float(np.exp(value - half)), float(np.exp(value + half)))
        note = "" if degrees else f"{EXACT} ({count(len(cells), 'point')})"
        results.append(Coefficient(quantity, name, level, reference, float(np.exp(value)), low, high, points, note))
    return results


def _efficiency(series: ObservedSeries, point: ObservedPoint) -> float | None:
    """Relative to the curve's own baseline, at every other count."""
    base = series.at(series.baseline)
    if base is None or point.workers == base.workers:
        return None
    return point.throughput / base.throughput * base.workers / point.workers
