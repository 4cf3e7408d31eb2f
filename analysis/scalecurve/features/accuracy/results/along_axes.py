"""Points that differ in one axis only, by what training reached: accuracy, and epochs and time to the target."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scalecurve.features.accuracy.results.by_approach import difference, finals
from scalecurve.features.accuracy.results.outcome import PointTraining, format_axis_value
from scalecurve.render.table import Column, Table, experiment_column, table_of
from scalecurve.statistics.estimate import Estimate
from scalecurve_api.planning.axes import same_value
from scalecurve_api.spec.experiment import AxisValue

MODE = "mode"


@dataclass(frozen=True)
class ValueTraining:
    """One value of an axis; ``rest`` is what its group has in common and other groups do not.

    ``behind`` is the accuracy of the best of the group less that of this value, None of the best itself.
    """

    axis: str
    value: AxisValue
    rest: str
    training: PointTraining
    behind: Estimate | None
    verdict: str


def along_axes(points: Sequence[PointTraining]) -> tuple[ValueTraining, ...]:
    """Find every axis with several values among points that share bundle, mode, worker count and all other axes."""
    results: list[ValueTraining] = []
    for bundle in dict.fromkeys(p.bundle for p in points):
        of_bundle = [p for p in points if p.bundle == bundle]
        for axis in dict.fromkeys(name for p in of_bundle for name in p.point.axes):
            results += _compare_along_axis(axis, of_bundle)
    return tuple(results)


def axis_table(results: Sequence[ValueTraining]) -> Table:
    """Tabulate the values, a row each, grouped by axis, worker count and the other axes."""
    notes = (
        "Each group differs in the named axis only. Behind the best is a difference of mean final accuracies with "
        "Welch's interval over repetitions, for that pair alone; where it includes zero the two are tied. Time of all "
        "epochs is that of training to the accuracy beside it.",
    )
    return table_of(
        "training-axes",
        "Training along each axis",
        results,
        (
            (experiment_column(r.training.bundle for r in results), lambda r: r.training.bundle),
            (Column("axis", "Axis"), lambda r: r.axis),
            (Column("workers", "Workers", "count"), lambda r: r.training.point.workers),
            (Column("rest", "At"), lambda r: r.rest or None),
            (Column("value", "Value"), lambda r: format_axis_value(r.value)),
            (Column("final_accuracy", "Final accuracy", "percent", interval=True), lambda r: r.training.final),
            (Column("epochs_to_target", "Epochs to target", "number", interval=True), _epochs),
            (Column("to_target_s", "Time to target", "number", "s", interval=True), _seconds),
            (
                Column("last_epoch_at_s", "Time of all epochs", "number", "s", interval=True),
                lambda r: r.training.last_epoch_at_s,
            ),
            (Column("behind", "Behind the best", "percent", interval=True), lambda r: r.behind),
            (Column("verdict", "Verdict"), lambda r: r.verdict),
        ),
        notes if results else (),
    )


def _epochs(result: ValueTraining) -> Estimate | None:
    return result.training.epochs_to_target


def _seconds(result: ValueTraining) -> Estimate | None:
    return result.training.seconds_to_target


def _compare_along_axis(axis: str, points: Sequence[PointTraining]) -> Iterator[ValueTraining]:
    shared = [{MODE: p.point.mode.value, **p.point.axes} for p in points]
    constant = {
        name for name, value in shared[0].items() if all(name in o and same_value(o[name], value) for o in shared)
    }
    groups: dict[tuple[int, str], list[PointTraining]] = {}
    for p, names in zip(points, shared, strict=True):
        if axis in names:
            others = {name: value for name, value in names.items() if name != axis and name not in constant}
            rest = ", ".join(f"{name.rpartition('.')[2]}={format_axis_value(value)}" for name, value in others.items())
            groups.setdefault((p.point.workers, rest), []).append(p)
    for (_, rest), group in sorted(groups.items(), key=lambda item: item[0][0]):
        if len({format_axis_value(p.point.axes[axis]) for p in group}) < 2:
            continue
        best = max(group, key=lambda p: p.final.value)
        for p in group:
            behind = None if p is best else difference(finals(best), finals(p), p.level)
            yield ValueTraining(axis, p.point.axes[axis], rest, p, behind, _verdict(behind))


def _verdict(behind: Estimate | None) -> str:
    if behind is None:
        return "best"
    if behind.low is None:
        return "not known: single runs"
    return "tied with the best" if behind.low <= 0 else "behind the best"
