"""Results of training to accuracy: accuracy, data, noise scale and quantization of every point."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scalecurve.bundle.measurement import MeasuredSeries, measure
from scalecurve.bundle.open import Bundle
from scalecurve.features.accuracy.results.along_axes import along_axes, axis_table
from scalecurve.features.accuracy.results.by_approach import approach_table
from scalecurve.features.accuracy.results.by_workers import worker_tables
from scalecurve.features.accuracy.results.outcome import PointTraining, label_points
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

__all__ = ["PointTraining", "Training", "compute_training", "training"]


@dataclass(frozen=True)
class Training(SeveralTables):
    """All points that were trained to accuracy, in the order of their series."""

    points: tuple[PointTraining, ...]

    def tables(self) -> tuple[Table, ...]:
        first = (*self.tabulate_accuracy(), *self.tabulate_axes(), *self.tabulate_workers(), *self.tabulate_data())
        return (*first, *self.tabulate_noise(), *self.tabulate_quantization())

    def tabulate_accuracy(self) -> tuple[Table, ...]:
        """Tabulate the points, a row each, and the best approach if there are several."""
        return _drop_empty_tables(accuracy_table(self.points), approach_table(self.points))

    def tabulate_axes(self) -> tuple[Table, ...]:
        return _drop_empty_tables(axis_table(along_axes(self.points)))

    def tabulate_workers(self) -> tuple[Table, ...]:
        return _drop_empty_tables(*worker_tables(self.points))

    def tabulate_data(self) -> tuple[Table, ...]:
        return _drop_empty_tables(data_table(self.points), label_table(self.points), class_table(self.points))

    def tabulate_noise(self) -> tuple[Table, ...]:
        return _drop_empty_tables(noise_table(self.points))

    def tabulate_quantization(self) -> tuple[Table, ...]:
        return _drop_empty_tables(*quantization_tables(self.points))


def training(bundles: Sequence[Bundle], level: float = 0.95) -> Training:
    """Compute what the Succeeded trials learned: accuracy and loss by epoch, and the time to a target.

    Args:
        bundles: What `open_bundles` returned; their labels differ.
        level: Level of the intervals, 0.95 for 95 %.

    Returns:
        Training results of every point, over its repetitions.
    """
    return compute_training((series for bundle in bundles for series in measure(bundle)), level)


def compute_training(measured: Iterable[MeasuredSeries], level: float = 0.95) -> Training:
    """Compute the same as `training`, from measured series."""
    return Training(label_points(measured, level))


def _drop_empty_tables(*tables: Table) -> tuple[Table, ...]:
    return tuple(table for table in tables if table.rows)
