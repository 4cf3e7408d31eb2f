"""Bus bandwidth and time of collectives by message size."""

from collections.abc import Iterator, Sequence

from scalecurve.curves.collectives import OWN, CollectiveResult
from scalecurve.render import formatting
from scalecurve.reporting.drawing import Drawing, Sheet, axis, first, style
from scalecurve.reporting.findings import Findings
from scalecurve.reporting.registry import plot
from scalecurve.statistics.estimate import Estimate
from scalecurve_api.text import count

MOST_CURVES = 12


@plot("collectives", section="collectives", order=10)
def collectives(findings: Findings) -> Drawing | None:
    """busbw and time over the message size; the band is the interval over repetitions."""
    curves = list(_curves(findings.collectives.results))
    if not curves:
        return None
    shown, left_out = first(curves, MOST_CURVES, "curves")
    sheet = Sheet(2, [label for label, _ in shown] if len(shown) > 1 else [])
    left, right = sheet.panels
    heights: list[tuple[float, float]] = []
    for index, (label, sizes) in enumerate(shown):
        look = style(index)
        places = [each.line.bytes for each in sizes]
        for axes, values in ((left, [each.busbw for each in sizes]), (right, [each.time_us for each in sizes])):
            low, high = zip(*map(_ends, values), strict=True)
            axes.fill_between(places, low, high, color=look.color, alpha=0.25, linewidth=0)
            (line,) = axes.plot(places, [each.value for each in values], **look.curve, markersize=3.6, label=label)
        heights += [(_ends(each.busbw)[1], each.time_us.value) for each in sizes]
        sheet.handles |= {label: line} if len(shown) > 1 else {}
    for axes in (left, right):
        axis.message_axis(axes, [each.line.bytes for _, sizes in shown for each in sizes])
    axis.linear_axis(left, "y", 0, max(height for height, _ in heights) * 1.06, axis.short)
    times = [time for _, time in heights]
    axis.log_axis(right, "y", min(times), max(times), lambda us: formatting.seconds(us / 1e6))
    left.set_ylabel("Bus bandwidth (GB/s)")
    right.set_ylabel("Time")
    caption = (
        "Medians of each repetition's calls; the band is the 95 % interval over repetitions. Bus bandwidth is "
        "bytes/time by the factor of the collective (2(n-1)/n of an all-reduce, (n-1)/n of all-gather, reduce-scatter "
        "and all-to-all, 1 of broadcast and send-recv), time is that of the slowest rank."
    )
    return sheet.drawing("Collectives", caption + left_out)


def _ends(value: Estimate) -> tuple[float, float]:
    return (value.value if value.low is None else value.low), (value.value if value.high is None else value.high)


def _curves(results: Sequence[CollectiveResult]) -> Iterator[tuple[str, list[CollectiveResult]]]:
    """Sizes of a collective in the place where we time it; messages of a whole step are none of them."""
    groups: dict[tuple[str, ...], list[CollectiveResult]] = {}
    for each in results:
        line = each.line
        if line.messages == 1 and line.bytes > 0 and line.in_place is line.collective.in_place:
            place = count(each.point.workers, "worker") + (f" ({each.point.layout})" if each.point.nodes > 1 else "")
            tool = "" if line.tool == OWN else line.tool
            groups.setdefault((each.bundle, each.point.series, line.collective.value, place, tool), []).append(each)
    varied = [len({key[part] for key in groups}) > 1 for part in range(5)]
    for key, sizes in groups.items():
        words = [word for word, varies in zip(key, varied, strict=True) if varies and word]
        yield " ".join(words) or key[2], sizes
