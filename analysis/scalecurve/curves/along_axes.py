"""Points that differ in one axis only, side by side: which value is the fastest at each worker count, beyond noise."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from scalecurve.bundle.measurement import MeasuredPoint, MeasuredSeries
from scalecurve.render.table import Column, Table, experiment_column, table_of
from scalecurve.statistics.estimate import Estimate
from scalecurve.statistics.intervals import ratio, throughput
from scalecurve_api.model import canonical_json
from scalecurve_api.planning.axes import same_value
from scalecurve_api.spec.experiment import AxisValue
from scalecurve_api.text import count

LAYOUT, MODE = "layout", "mode"
"""What a point has beside the axes of ``matrix``: nodes x workers a node; strong and weak have curves of their own."""


@dataclass(frozen=True)
class ValueResult:
    """One value of an axis at one worker count; ``against`` is its throughput over that of the first value.

    ``rest`` names other axes whose value is not the usual one; ``verdict`` compares to the fastest value of the group.
    """

    bundle: str
    axis: str
    value: AxisValue
    first: AxisValue
    workers: int
    rest: str
    throughput: Estimate
    against: Estimate | None
    verdict: str


def along_axes(series: Sequence[MeasuredSeries], level: float = 0.95) -> tuple[ValueResult, ...]:
    """Every axis with two values or more, in the order of the experiments; of points with timed windows."""
    results: list[ValueResult] = []
    for bundle in dict.fromkeys(one.bundle for one in series):
        points = [
            (one, point) for one in series if one.bundle == bundle and one.trains for point in one.points if point.timed
        ]
        placed = [(_place(one, point), point) for one, point in points]
        for axis in dict.fromkeys(name for place, _ in placed for name in place):
            results += _compare_values(bundle, axis, placed, level)
    return tuple(results)


def axis_table(results: Sequence[ValueResult]) -> Table:
    """One row a value, grouped by axis and worker count."""
    notes = []
    if results:
        notes.append(
            "Each group differs in the named axis only. Slower means beyond noise at 95 % for that pair alone; tied "
            "values differ by less than this experiment can show; not known: single repetitions, or too few. Highest "
            "is the largest number where another value is tied or not known."
        )
    return table_of(
        "axes",
        "Along each axis",
        results,
        (
            (experiment_column(r.bundle for r in results), lambda r: r.bundle),
            (Column("axis", "Axis"), lambda r: r.axis),
            (Column("workers", "Workers", "count"), lambda r: r.workers),
            (Column("rest", "At"), lambda r: r.rest or None),
            (Column("value", "Value"), lambda r: spelled(r.value)),
            (Column("throughput", "Throughput", "number", "per second", interval=True), lambda r: r.throughput),
            (Column("against_first", "Against the first", "percent", interval=True), lambda r: r.against),
            (Column("verdict", "Verdict"), lambda r: r.verdict),
        ),
        notes,
    )


def best_of(results: Sequence[ValueResult]) -> Iterator[str]:
    """One sentence an axis and bundle: the fastest value at the largest worker count, if it is beyond noise."""
    for key in dict.fromkeys((r.bundle, r.axis) for r in results):
        of_axis = [r for r in results if (r.bundle, r.axis) == key]
        largest = [r for r in of_axis if r.workers == max(r.workers for r in of_axis)]
        group = [r for r in largest if r.rest == largest[0].rest]
        best = max(group, key=lambda r: r.throughput.value)
        tied = [spelled(r.value) for r in group if r is not best and r.verdict.startswith("tied")]
        unknown = any(r.verdict.startswith("not known") for r in group)
        at = f"{key[1]} at {count(best.workers, 'worker')}{f' ({best.rest})' if best.rest else ''}"
        if tied:
            yield f"{at}: no difference shown between {', '.join([spelled(best.value), *tied])}"
        elif unknown:
            yield f"{at}: which value is the fastest is not known: the repetitions are too few, or differ too much"
        else:
            yield f"{at}: {spelled(best.value)} is the fastest"


def spelled(value: AxisValue) -> str:
    """A value of an axis as in YAML."""
    return value if isinstance(value, str) else canonical_json(value)


def _place(series: MeasuredSeries, point: MeasuredPoint) -> dict[str, AxisValue]:
    """Everything that tells a point from others of its worker count."""
    return {MODE: series.mode.value, LAYOUT: point.point.layout, **point.point.axes}


def _compare_values(
    bundle: str, axis: str, placed: Sequence[tuple[Mapping[str, AxisValue], MeasuredPoint]], level: float
) -> Iterator[ValueResult]:
    if axis == MODE:
        return
    groups: dict[tuple[int, str], list[tuple[AxisValue, MeasuredPoint, Mapping[str, AxisValue]]]] = {}
    for place, point in placed:
        rest = {name: value for name, value in place.items() if name != axis}
        if axis in place:
            key = point.point.workers, canonical_json(rest)
            groups.setdefault(key, []).append((place[axis], point, rest))
    usual = placed[0][0]
    for (workers, _), members in sorted(groups.items(), key=lambda item: item[0][0]):
        if len(members) < 2:
            continue
        unusual = {n: v for n, v in members[0][2].items() if n != LAYOUT and not same_value(v, usual.get(n, v))}
        rest_shown = ", ".join(f"{name}={spelled(v)}" for name, v in unusual.items())
        best = max(members, key=lambda member: throughput(member[1].samples, level).value)
        verdicts = [_verdict(point, best, level) for _, point, _ in members]
        leads = all(verdict is None or verdict.startswith("slower") for verdict in verdicts)
        for (value, point, _), verdict in zip(members, verdicts, strict=True):
            first = members[0]
            yield ValueResult(
                bundle=bundle,
                axis=axis,
                value=value,
                first=first[0],
                workers=workers,
                rest=rest_shown,
                throughput=throughput(point.samples, level, point.noise),
                against=None if point is first[1] else less_one(ratio(point.samples, first[1].samples, level)),
                verdict=verdict or ("fastest" if leads else "highest"),
            )


def _verdict(point: MeasuredPoint, best: tuple[AxisValue, MeasuredPoint, object], level: float) -> str | None:
    """Against the best value; None of the best itself. Windows of one run do not tell how another would differ."""
    if point is best[1]:
        return None
    lead = ratio(point.samples, best[1].samples, level)
    if lead.ends is not None and lead.ends[1] < 1 and not lead.within_run_only:
        return f"slower than {spelled(best[0])}"
    unknown = lead.low is None or lead.within_run_only
    return f"{'not known against' if unknown else 'tied with'} {spelled(best[0])}"


def less_one(estimate: Estimate) -> Estimate:
    """A ratio as the share by which it is above 1."""
    low, high = (None if end is None else end - 1 for end in (estimate.low, estimate.high))
    wide = estimate.wide and (estimate.wide[0] - 1, estimate.wide[1] - 1)
    return replace(estimate, value=estimate.value - 1, low=low, high=high, wide=wide)
