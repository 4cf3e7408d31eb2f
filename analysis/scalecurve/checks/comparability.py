"""Unwanted differences between points of the same curve, and between two bundles."""

from collections.abc import Iterable, Sequence

from scalecurve.bundle.differences import Difference, facets_of
from scalecurve.bundle.open import Bundle
from scalecurve.render.table import Column, Table, experiment_column, table_of


def differences(bundles: Iterable[Bundle]) -> tuple[Difference, ...]:
    """Every difference within a curve, over its Succeeded trials."""
    return tuple(difference for bundle in bundles for difference in bundle.differences)


def differences_between(before: Bundle, after: Bundle) -> tuple[Difference, ...]:
    """Differences between two bundles, with the bundles' labels in place of series."""
    sides = [(bundle.label, _values(bundle)) for bundle in (before, after)]
    results = []
    for what in sorted(set(sides[0][1]) | set(sides[1][1])):
        spelled = [(label, ", ".join(sorted(values.get(what, {"(unset)"})))) for label, values in sides]
        if spelled[0][1] != spelled[1][1]:
            values = tuple((f"{label}: {value}", ()) for label, value in spelled)
            results.append(Difference(before.label, "", what, values))
    return tuple(results)


def difference_table(differences: Sequence[Difference]) -> Table:
    """One row per difference."""
    return table_of(
        "comparability",
        "Differences between points of the same curve",
        differences,
        (
            (experiment_column(d.bundle for d in differences), lambda d: d.bundle),
            (Column("series", "Series"), lambda d: d.series),
            (Column("what", "What differs"), lambda d: d.what),
            (Column("values", "Values by worker count"), Difference.spelled),
        ),
        ("A bend in the curve may be due to these differences rather than to scale.",) if differences else (),
    )


def _values(bundle: Bundle) -> dict[str, set[str]]:
    values: dict[str, set[str]] = {}
    for trial in bundle.trials:
        if trial.good and trial.record is not None:
            for what, value in facets_of(trial.record):
                values.setdefault(what, set()).add(value)
    return values
