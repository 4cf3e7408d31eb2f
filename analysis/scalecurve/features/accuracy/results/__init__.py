"""Results of training to accuracy: accuracy, data, noise scale and quantization of every point."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scalecurve.bundle.measurement import MeasuredSeries, measure
from scalecurve.bundle.open import Bundle
from scalecurve.features.accuracy.results.along_axes import along_axes, axis_table
from scalecurve.features.accuracy.results.by_approach import approach_table
from scalecurve.features.accuracy.results.by_workers import worker_tables
from scalecurve.features.accuracy.results.outcome import PointTraining, labelled
from scalecurve.features.accuracy.results.quantization import quantization_tables
from scalecurve.features.accuracy.results.tables import (
    accuracy_table,
    class_table,
    data_table,
    label_table,
    noise_table,
)
from scalecurve.render.notebook import SeveralTables
from scalecurve.render.table import Table

__all__ = ["PointTraining", "Training", "of_series", "training"]


@dataclass(frozen=True)
class Training(SeveralTables):
    """All points that were trained to accuracy, in the order of their series."""

    points: tuple[PointTraining, ...]

    def tables(self) -> tuple[Table, ...]:
        first = (*self.of_accuracy(), *self.of_axes(), *self.of_workers(), *self.of_data())
        return (*first, *self.of_noise(), *self.of_quantization())

    def of_accuracy(self) -> tuple[Table, ...]:
        """Tabulate the points, a row each, and the best approach if there are several."""
        return _drop_empty_tables(accuracy_table(self.points), approach_table(self.points))

    def of_axes(self) -> tuple[Table, ...]:
        return _drop_empty_tables(axis_table(along_axes(self.points)))

    def of_workers(self) -> tuple[Table, ...]:
        return _drop_empty_tables(*worker_tables(self.points))

    def of_data(self) -> tuple[Table, ...]:
        return _drop_empty_tables(data_table(self.points), label_table(self.points), class_table(self.points))

    def of_noise(self) -> tuple[Table, ...]:
        return _drop_empty_tables(noise_table(self.points))

    def of_quantization(self) -> tuple[Table, ...]:
        return _drop_empty_tables(*quantization_tables(self.points))


def training(bundles: Sequence[Bundle], level: float = 0.95) -> Training:
    """Compute what the Succeeded trials learned: accuracy and loss by epoch, and the time to a target.

    Args:
        bundles: What `open_bundles` returned; their labels differ.
        level: Level of the intervals, 0.95 for 95 %.

    Returns:
        Training results of every point, over its repetitions.
    """
    return of_series((series for bundle in bundles for series in measure(bundle)), level)


def of_series(measured: Iterable[MeasuredSeries], level: float = 0.95) -> Training:
    """Compute the same as `training`, from measured series."""
    return Training(labelled(measured, level))


def _drop_empty_tables(*tables: Table) -> tuple[Table, ...]:
    return tuple(table for table in tables if table.rows)
