"""All-reduce bus bandwidth and time by message size."""

from collections.abc import Iterator

from scalecurve.curves.allreduce import AllReduceReport, PointBandwidth, SizeResult
from scalecurve.render import formatting
from scalecurve.reporting.drawing import Drawing, Sheet, axis, first, style
from scalecurve.reporting.findings import Findings
from scalecurve.reporting.registry import plot
from scalecurve_api.text import count

MOST_CURVES = 12


@plot("allreduce", section="allreduce", order=10)
def bandwidth(findings: Findings) -> Drawing | None:
    """busbw and time over the message size; the band is the spread over repetitions."""
    report = findings.allreduce
    curves = [curve for p in report.points for curve in _by_place(p, report)]
    if not curves:
        return None
    shown, left_out = first(curves, MOST_CURVES, "curves")
    sheet = Sheet(2, [label for label, _ in shown] if len(shown) > 1 else [])
    left, right = sheet.panels
    for index, (label, sizes) in enumerate(shown):
        look = style(index)
        places = [s.bytes for s in sizes]
        for axes, spreads in ((left, [s.busbw for s in sizes]), (right, [s.time_us for s in sizes])):
            low, high = [s.least for s in spreads], [s.most for s in spreads]
            axes.fill_between(places, low, high, color=look.color, alpha=0.25, linewidth=0)
            (line,) = axes.plot(places, [s.median for s in spreads], **look.curve, markersize=3.6, label=label)
        sheet.handles |= {label: line} if len(shown) > 1 else {}
    everything = [s for _, sizes in shown for s in sizes]
    for axes in (left, right):
        axis.message_axis(axes, [s.bytes for s in everything])
    axis.linear_axis(left, "y", 0, max(s.busbw.most for s in everything) * 1.06, axis.short)
    times = [value for s in everything for value in (s.time_us.least, s.time_us.most) if value > 0]
    axis.log_axis(right, "y", min(times), max(times), lambda us: formatting.seconds(us / 1e6))
    left.set_ylabel("Bus bandwidth (GB/s)")
    right.set_ylabel("Time")
    caption = (
        "Median over repetitions; the band spans min to max. Bus bandwidth is bytes/time·2(n-1)/n, time is that of "
        "the slowest rank."
    )
    return sheet.drawing("All-reduce", caption + left_out)


def _by_place(p: PointBandwidth, report: AllReduceReport) -> Iterator[tuple[str, list[SizeResult]]]:
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
            yield " ".join(part for part in parts if part), sizes
