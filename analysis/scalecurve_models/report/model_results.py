"""All model fits for the bundles of a report, made once and used by its tables and plots."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from scalecurve.bundle.open import Bundle
from scalecurve.render.table import Cell, Table
from scalecurve.reporting.findings import Findings
from scalecurve.statistics.estimate import Estimate
from scalecurve_api.spec.experiment import Cost
from scalecurve_models.collectives.comparison import CollectiveComparison, compare_bundle
from scalecurve_models.collectives.tables import collective_tables
from scalecurve_models.comparison.compare_models import SeriesComparison, compare_models
from scalecurve_models.comparison.published import PublishedCurve, comparable_curves, published_table
from scalecurve_models.comparison.tables import comparison_tables
from scalecurve_models.fitting.least_squares import FitError
from scalecurve_models.learning_curves.fit import LearningFit, fit_learning
from scalecurve_models.learning_curves.tables import learning_tables

MOST_SERIES = 40
"""Curves fitted for a report; fitting all models to one takes about a tenth of a second."""


@dataclass(frozen=True)
class ModelResults:
    """Fits of all bundles: scaling curves, (bundle, learning) and all-reduces; and the published curves."""

    curves: tuple[SeriesComparison, ...]
    learning: tuple[tuple[str, LearningFit], ...]
    collectives: tuple[CollectiveComparison, ...]
    published: tuple[PublishedCurve, ...]
    notes: tuple[str, ...]

    @property
    def judged(self) -> tuple[SeriesComparison, ...]:
        """Curves of several points, so that one can be left out."""
        return tuple(each for each in self.curves if len(each.measured) > 1)

    @property
    def shown(self) -> tuple[SeriesComparison, ...]:
        """The same, or none where no model could be tested on any of them."""
        return self.judged if any(each.prediction.best for each in self.judged) else ()

    def comparison_tables(self) -> tuple[Table, ...]:
        tables = comparison_tables(self.shown)
        noted = (replace(tables[0], notes=(*tables[0].notes, *self.notes)), *tables[1:]) if tables else ()
        return tuple(map(steady, noted))

    def learning_tables(self) -> tuple[Table, ...]:
        by_bundle = [(label, learning_tables(fit)) for label, fit in self.learning if fit.points]
        named = (_named(table, label, index) for index, (label, tables) in enumerate(by_bundle) for table in tables)
        return tuple(map(steady, named))

    def collective_tables(self) -> tuple[Table, ...]:
        return tuple(map(steady, collective_tables(self.collectives)))

    def published_tables(self) -> tuple[Table, ...]:
        return (published_table(self.published),) if self.published else ()


def steady(table: Table) -> Table:
    """The table with four significant digits; further ones depend on where a solver stops on a machine."""
    return replace(table, rows=tuple(tuple(_four_digits(cell) for cell in row) for row in table.rows))


def _four_digits(cell: Cell) -> Cell:
    if isinstance(cell, Estimate):
        low, high = (None if end is None else float(f"{end:.4g}") for end in (cell.low, cell.high))
        return replace(cell, value=float(f"{cell.value:.4g}"), low=low, high=high)
    return float(f"{cell:.4g}") if isinstance(cell, float) else cell


def model_results(findings: Findings) -> ModelResults:
    """The fits of a report's bundles; call it as ``findings.once(model_results)``."""
    return fit_models(findings.bundles, findings.price)


def fit_models(bundles: Sequence[Bundle], price: Cost | None = None) -> ModelResults:
    """Fit everything that the bundles support, with notes on the rest; ``price`` replaces the experiments' own."""
    curves: list[SeriesComparison] = []
    notes: list[str] = []
    for bundle in bundles:
        if len({trial.spec.point.series for trial in bundle.trials}) > MOST_SERIES:
            notes.append(f"{bundle.label}: more than {MOST_SERIES} curves are not fitted here; use scalecurve fit.")
            continue
        try:
            curves += compare_models(bundle, price=price)
        except FitError as error:
            notes.append(f"{bundle.label}: {error}")
    return ModelResults(
        curves=tuple(curves),
        learning=tuple((bundle.label, _learning(bundle)) for bundle in bundles),
        collectives=tuple(
            comparison
            for bundle in bundles
            for comparison in compare_bundle(bundle, f"{bundle.label}: " if len(bundles) > 1 else "")[0]
        ),
        published=tuple(dict.fromkeys(curve for bundle in bundles for curve in comparable_curves(bundle))),
        notes=tuple(notes),
    )


def _learning(bundle: Bundle) -> LearningFit:
    """From evaluations only; ``scalecurve fit`` also reads the losses of steps."""
    try:
        return fit_learning(bundle, of_steps=False)
    except FitError as error:
        return LearningFit((), None, (), None, (str(error),), ())


def _named(table: Table, label: str, index: int) -> Table:
    """Tables of further bundles have a number in the name and the bundle in the title."""
    return table if index == 0 else replace(table, name=f"{table.name}-{index + 1}", title=f"{table.title}: {label}")
