"""Bus bandwidth and time by message size: of all-reduce, and of collectives."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from scalecurve.features.collectives.allreduce import AllReduceReport, PointBandwidth, SizeResult
from scalecurve.features.collectives.collectives import OWN, CollectiveResult
from scalecurve.features.collectives.sections import allreduce_of, collectives_of
from scalecurve.render import formatting
from scalecurve.reporting.drawing import Drawing, Sheet, axis, first, style
from scalecurve.reporting.findings import Analysis
from scalecurve.reporting.registry import plot
from scalecurve.statistics.estimate import Estimate
from scalecurve_api.text import count

MOST_CURVES = 12


class _Value(NamedTuple):
    value: float
    low: float
    high: float


class _Size(NamedTuple):
    """What one message size came to."""

    bytes: int
    busbw: _Value
    time_us: _Value


@plot("allreduce", section="allreduce", order=10)
def bandwidth(analysis: Analysis) -> Drawing | None:
    """Draw busbw and time over the message size; the band is the spread over repetitions."""
    report = analysis.once(allreduce_of)
    caption = (
        "Median over repetitions; the band spans min to max. Bus bandwidth is bytes/time·2(n-1)/n, time is that of "
        "the slowest rank."
    )
    return _draw_curves("All-reduce", [curve for p in report.points for curve in _split_by_place(p, report)], caption)


@plot("collectives", section="collectives", order=10)
def collectives(analysis: Analysis) -> Drawing | None:
    """Draw busbw and time over the message size; the band is the interval over repetitions."""
    caption = (
        "Medians of each repetition's calls; the band is the 95 % interval over repetitions. Bus bandwidth is "
        "bytes/time by the factor of the collective (2(n-1)/n of an all-reduce, (n-1)/n of all-gather, reduce-scatter "
        "and all-to-all, 1 of broadcast and send-recv), time is that of the slowest rank."
    )
    return _draw_curves("Collectives", list(_group_by_collective(analysis.once(collectives_of).results)), caption)


def _draw_curves(title: str, curves: Sequence[tuple[str, list[_Size]]], caption: str) -> Drawing | None:
    if not curves:
        return None
    shown, omitted = first(curves, MOST_CURVES, "curves")
    sheet = Sheet(2, [label for label, _ in shown] if len(shown) > 1 else [])
    left, right = sheet.panels
    for index, (label, sizes) in enumerate(shown):
        look = style(index)
        places = [size.bytes for size in sizes]
        for axes, values in ((left, [size.busbw for size in sizes]), (right, [size.time_us for size in sizes])):
            low, high = [each.low for each in values], [each.high for each in values]
            axes.fill_between(places, low, high, color=look.color, alpha=0.25, linewidth=0)
            (line,) = axes.plot(places, [each.value for each in values], **look.curve, markersize=3.6, label=label)
        sheet.handles |= {label: line} if len(shown) > 1 else {}
    everything = [size for _, sizes in shown for size in sizes]
    for axes in (left, right):
        axis.message_axis(axes, [size.bytes for size in everything])
    axis.linear_axis(left, "y", 0, max(size.busbw.high for size in everything) * 1.06, axis.short)
    times = [end for size in everything for end in size.time_us if end > 0]
    axis.log_axis(right, "y", min(times), max(times), lambda us: formatting.seconds(us / 1e6))
    left.set_ylabel("Bus bandwidth (GB/s)")
    right.set_ylabel("Time")
    return sheet.drawing(title, caption + omitted)


def _split_by_place(p: PointBandwidth, report: AllReduceReport) -> Iterator[tuple[str, list[_Size]]]:
    several = len({point.bundle for point in report.points}) > 1
    series = len({point.point.series for point in report.points}) > 1
    both = len({s.in_place for point in report.points for s in point.sizes}) > 1
    for in_place in (False, True):
        sizes = [s for s in p.sizes if s.in_place is in_place and s.bytes > 0 and s.messages == 1]
        if sizes:
            parts = [
                p.bundle if several else "",
                p.point.series if series else "",
                count(p.point.workers, "worker"),
            ]
            parts.append(f"({p.point.layout})" if p.point.nodes > 1 else "")
            parts.append(("in place" if in_place else "out of place") if both else "")
            yield " ".join(part for part in parts if part), [_size_with_spreads(size) for size in sizes]


def _size_with_spreads(size: SizeResult) -> _Size:
    busbw, time = (_Value(spread.median, spread.least, spread.most) for spread in (size.busbw, size.time_us))
    return _Size(size.bytes, busbw, time)


def _group_by_collective(results: Sequence[CollectiveResult]) -> Iterator[tuple[str, list[_Size]]]:
    """Sizes of a collective in the place where we time it; messages of a whole step are none of them."""
    groups: dict[tuple[str, ...], list[_Size]] = {}
    for each in results:
        line = each.line
        if line.messages == 1 and line.bytes > 0 and line.in_place is line.collective.in_place:
            place = count(each.point.workers, "worker") + (f" ({each.point.layout})" if each.point.nodes > 1 else "")
            tool = "" if line.tool == OWN else line.tool
            size = _Size(line.bytes, _value_with_ends(each.busbw), _value_with_ends(each.time_us))
            groups.setdefault((each.bundle, each.point.series, line.collective.value, place, tool), []).append(size)
    varied = [len({key[part] for key in groups}) > 1 for part in range(5)]
    for key, sizes in groups.items():
        words = [word for word, varies in zip(key, varied, strict=True) if varies and word]
        yield " ".join(words) or key[2], sizes


def _value_with_ends(value: Estimate) -> _Value:
    low, high = (value.value if end is None else end for end in (value.low, value.high))
    return _Value(value.value, low, high)
