"""All model fits for the bundles of a report, made once and used by its tables and plots."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from scalecurve.bundle.open import Bundle
from scalecurve.curves.compute import believable
from scalecurve.curves.stated import StatedCurve
from scalecurve.render.table import Table
from scalecurve.reporting.findings import Analysis
from scalecurve_api.spec.experiment import Cost
from scalecurve_api.spec.scaling import Mode
from scalecurve_models.collectives.comparison import CollectiveComparison, compare_bundle
from scalecurve_models.collectives.tables import collective_tables
from scalecurve_models.comparison.compare_models import SeriesComparison, compare_models
from scalecurve_models.comparison.published import PublishedCurve, comparable_curves, published_table, stated_curves
from scalecurve_models.comparison.tables import comparison_tables
from scalecurve_models.comparison.trainings import trainings_table
from scalecurve_models.fitting.least_squares import FitError
from scalecurve_models.learning_curves.fit import LearningFit, add_trained_depth, fit_learning
from scalecurve_models.learning_curves.servers import ServedProgram, served_tables, server_programs
from scalecurve_models.learning_curves.tables import tabulate_learning

MOST_SERIES = 40  # curves fitted for a report; fitting all models to one takes about a tenth of a second


@dataclass(frozen=True)
class ModelResults:
    """Fits of all bundles: scaling curves, (bundle, learning) and all-reduces; and the published curves."""

    curves: tuple[SeriesComparison, ...]
    learning: tuple[tuple[str, LearningFit], ...]
    collectives: tuple[CollectiveComparison, ...]
    published: tuple[PublishedCurve, ...]
    notes: tuple[str, ...]
    served: tuple[ServedProgram, ...] = ()

    @property
    def testable(self) -> tuple[SeriesComparison, ...]:
        """Curves of several points, so that one can be held out."""
        return tuple(each for each in self.curves if len(each.measured) > 1)

    @property
    def shown(self) -> tuple[SeriesComparison, ...]:
        """The same, or none where no model could be tested on any of them."""
        return self.testable if any(each.prediction.leading for each in self.testable) else ()

    def comparison_tables(self) -> tuple[Table, ...]:
        tables = comparison_tables(self.shown)
        return (replace(tables[0], notes=(*tables[0].notes, *self.notes)), *tables[1:]) if tables else ()

    def tabulate_learning(self) -> tuple[Table, ...]:
        by_bundle = [(label, tabulate_learning(fit)) for label, fit in self.learning if fit.points]
        named = (
            _name_table(table, label, index) for index, (label, tables) in enumerate(by_bundle) for table in tables
        )
        return (*named, *served_tables(self.served))

    def collective_tables(self) -> tuple[Table, ...]:
        return tuple(collective_tables(self.collectives))

    def publication_tables(self) -> tuple[Table, ...]:
        if not self.published:
            return ()
        weak = [
            each.series for each in self.curves if each.series.mode is Mode.weak and each.series.sample_unit != "tokens"
        ]
        several = len({series.bundle for series in weak}) > 1
        here = [(f"{series.bundle}, {series.name}" if several else series.name, series) for series in weak]
        return published_table(self.published), trainings_table({curve.network for curve in self.published}, here)


def model_results(analysis: Analysis) -> ModelResults:
    """The fits of a report's bundles; call it as ``analysis.once(model_results)``."""
    return fit_models(analysis.bundles, analysis.price, analysis.published, analysis.include_unproved)


def fit_models(
    bundles: Sequence[Bundle],
    price: Cost | None = None,
    published: Sequence[StatedCurve] = (),
    include_unproved: bool = False,
) -> ModelResults:
    """Fit everything that the bundles support, with notes on the rest; ``price`` replaces the experiments' own.

    ``published`` are curves of a file of the user's, which stand beside the shipped ones of the same networks.

    Points that do not count (``scalecurve.curves.doubts``) are as if not measured unless ``include_unproved`` is set.
    """
    bundles = [believable(bundle, include_unproved) for bundle in bundles]
    curves: list[SeriesComparison] = []
    notes: list[str] = []
    for bundle in bundles:
        if len({trial.spec.point.series for trial in bundle.trials}) > MOST_SERIES:
            notes.append(f"{bundle.label}: more than {MOST_SERIES} curves are not fitted here; use scalecurve fit.")
            continue
        try:
            curves += compare_models(bundle, price=price, include_unproved=True)
        except FitError as error:
            notes.append(f"{bundle.label}: {error}")
    learning = [_fit_evaluations(bundle) for bundle in bundles]
    return ModelResults(
        curves=tuple(curves),
        learning=tuple((bundle.label, fit) for bundle, fit in zip(bundles, learning, strict=True)),
        served=tuple(p for bundle, fit in zip(bundles, learning, strict=True) for p in server_programs(bundle, fit)),
        collectives=tuple(
            comparison
            for bundle in bundles
            for comparison in compare_bundle(bundle, f"{bundle.label}: " if len(bundles) > 1 else "")[0]
        ),
        published=tuple(
            dict.fromkeys(
                [*stated_curves(published), *(curve for bundle in bundles for curve in comparable_curves(bundle))]
            )
        ),
        notes=tuple(notes),
    )


def _fit_evaluations(bundle: Bundle) -> LearningFit:
    """From evaluations only; ``scalecurve fit`` also reads the losses of steps."""
    try:
        return add_trained_depth(fit_learning(bundle, of_steps=False), bundle)
    except FitError as error:
        return LearningFit((), None, (), None, (str(error),), ())


def _name_table(table: Table, label: str, index: int) -> Table:
    """Tables of further bundles have a number in the name and the bundle in the title."""
    return table if index == 0 else replace(table, name=f"{table.name}-{index + 1}", title=f"{table.title}: {label}")
