"""What the models say of the bundles of a report, fitted once: for its tables and plots."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from scalecurve.bundle.open import Bundle
from scalecurve.render.table import Cell, Table
from scalecurve.reporting.findings import Findings
from scalecurve.statistics.estimate import Estimate
from scalecurve_api.spec.experiment import Cost
from scalecurve_models.collectives.comparison import (
    CollectiveComparison,
    compare_algorithms,
    requested_algorithms,
    timed_points,
)
from scalecurve_models.collectives.tables import collective_tables
from scalecurve_models.comparison.compare_models import SeriesComparison, compare_models
from scalecurve_models.comparison.published import PublishedCurve, comparable_curves, published_table
from scalecurve_models.comparison.tables import comparison_tables
from scalecurve_models.fitting.least_squares import FitError
from scalecurve_models.learning_curves.fit import LearningFit, fit_learning
from scalecurve_models.learning_curves.tables import learning_tables

MOST_SERIES = 40
"""Curves that are fitted for a report; a fit of each model to each takes about a tenth of a second."""


@dataclass(frozen=True)
class Modelled:
    """Fits of all bundles: curves of scaling, (bundle, learning) and all-reduces; and published curves beside them."""

    curves: tuple[SeriesComparison, ...]
    learnt: tuple[tuple[str, LearningFit], ...]
    collectives: tuple[CollectiveComparison, ...]
    published: tuple[PublishedCurve, ...]
    notes: tuple[str, ...]

    @property
    def judged(self) -> tuple[SeriesComparison, ...]:
        """Curves of several points: with one there is nothing to predict from, nor anything to leave out."""
        return tuple(each for each in self.curves if len(each.measured) > 1)

    @property
    def shown(self) -> tuple[SeriesComparison, ...]:
        """The same, or nothing where no model could be tested on any of them."""
        return self.judged if any(each.prediction.best for each in self.judged) else ()

    def beside_tables(self) -> tuple[Table, ...]:
        tables = comparison_tables(self.shown)
        noted = (replace(tables[0], notes=(*tables[0].notes, *self.notes)), *tables[1:]) if tables else ()
        return tuple(map(steady, noted))

    def learning_tables(self) -> tuple[Table, ...]:
        known = [(label, learning_tables(found)) for label, found in self.learnt if found.points]
        apart = (_apart(table, label, index) for index, (label, tables) in enumerate(known) for table in tables)
        return tuple(map(steady, apart))

    def collective_tables(self) -> tuple[Table, ...]:
        return tuple(map(steady, collective_tables(self.collectives)))

    def published_tables(self) -> tuple[Table, ...]:
        return (published_table(self.published),) if self.published else ()


def steady(table: Table) -> Table:
    """The table with four significant digits: where a solver stops depends on the machine, far behind those."""
    return replace(table, rows=tuple(tuple(_four_digits(cell) for cell in row) for row in table.rows))


def _four_digits(cell: Cell) -> Cell:
    if isinstance(cell, Estimate):
        low, high = (None if end is None else float(f"{end:.4g}") for end in (cell.low, cell.high))
        return replace(cell, value=float(f"{cell.value:.4g}"), low=low, high=high)
    return float(f"{cell:.4g}") if isinstance(cell, float) else cell


def model_results(findings: Findings) -> Modelled:
    """The fits of a report's bundles; call it as ``findings.once(model_results)``."""
    return model(findings.bundles, findings.price)


def model(bundles: Sequence[Bundle], price: Cost | None = None) -> Modelled:
    """Fit everything; what a bundle cannot carry is left out, and said where a reader would look for it.

    ``price`` takes the place of the experiments' own.
    """
    curves: list[SeriesComparison] = []
    notes: list[str] = []
    for bundle in bundles:
        if len({trial.spec.point.series for trial in bundle.trials}) > MOST_SERIES:
            notes.append(f"{bundle.label}: more than {MOST_SERIES} curves, not fitted here: scalecurve fit does.")
            continue
        try:
            curves += compare_models(bundle, price=price)
        except FitError as error:
            notes.append(f"{bundle.label}: {error}")
    return Modelled(
        curves=tuple(curves),
        learnt=tuple((bundle.label, _learning(bundle)) for bundle in bundles),
        collectives=tuple(found for bundle in bundles for found in _collectives(bundle, len(bundles) > 1)),
        published=tuple(dict.fromkeys(curve for bundle in bundles for curve in comparable_curves(bundle))),
        notes=tuple(notes),
    )


def _learning(bundle: Bundle) -> LearningFit:
    """Of evaluations alone: to read millions of step losses is ``scalecurve fit``'s."""
    try:
        return fit_learning(bundle, of_steps=False)
    except FitError as error:
        return LearningFit((), None, (), None, (str(error),), ())


def _collectives(bundle: Bundle, several: bool) -> Iterator[CollectiveComparison]:
    asked = requested_algorithms(bundle)
    for name, points in timed_points(bundle).items():
        series = f"{bundle.label}: {name}" if several else name
        try:
            yield compare_algorithms(points, series=series, requested=asked.get(name))
        except FitError:
            continue


def _apart(table: Table, label: str, index: int) -> Table:
    """The first bundle's tables keep their names; the next ones' have a number, and the bundle in the title."""
    return table if index == 0 else replace(table, name=f"{table.name}-{index + 1}", title=f"{table.title}: {label}")
