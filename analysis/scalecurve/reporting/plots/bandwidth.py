"""All-reduce bus bandwidth and time by message size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from scalecurve.curves.allreduce import AllReduceReport, PointBandwidth, SizeResult
from scalecurve.render import formatting as spelling
from scalecurve.reporting.drawing import axis, canvas
from scalecurve.reporting.drawing.canvas import Plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_CURVES = 12


def bandwidth(report: AllReduceReport, png: bool) -> Iterator[Plot]:
    """busbw and time over the message size; the band is the spread over repetitions."""
    curves = [curve for p in report.points for curve in _by_place(p, report)]
    if not curves:
        return
    left_out = len(curves) - MOST_CURVES
    curves = curves[:MOST_CURVES]
    labels = [label for label, _ in curves]
    columns, rows = canvas.legend_shape(labels, canvas.figure_width(2, 2))
    figure, (left, right) = canvas.panels(2, 2, rows)
    handles = []
    for index, (_, sizes) in enumerate(curves):
        look = canvas.style(index)
        places = [s.bytes for s in sizes]
        for axes, spreads in ((left, [s.busbw for s in sizes]), (right, [s.time_us for s in sizes])):
            low, high = [s.least for s in spreads], [s.most for s in spreads]
            axes.fill_between(places, low, high, color=look.color, alpha=0.25, linewidth=0)
            (line,) = axes.plot(
                places,
                [s.median for s in spreads],
                color=look.color,
                linestyle=look.line,
                marker=look.marker,
                markersize=3.6,
                label=labels[index],
            )
        handles.append(line)
    everything = [s for _, sizes in curves for s in sizes]
    for axes in (left, right):
        _sizes_axis(axes, everything)
    axis.linear_axis(left, "y", 0, max(s.busbw.most for s in everything) * 1.06, axis.short)
    times = [value for s in everything for value in (s.time_us.least, s.time_us.most) if value > 0]
    axis.log_axis(right, "y", min(times), max(times), lambda us: spelling.seconds(us / 1e6))
    left.set_ylabel("Bus bandwidth (GB/s)")
    right.set_ylabel("Time")
    if len(curves) > 1:
        canvas.legend(figure, handles, columns)
    caption = (
        "Median over repetitions, the band from the least to the most; bus bandwidth is bytes/time·2(n-1)/n, "
        "time is the slowest rank's."
    )
    caption += f" The first {MOST_CURVES} curves; {left_out} more are in the table." if left_out > 0 else ""
    yield canvas.finish(figure, "allreduce", "All-reduce", caption, png)


def _by_place(p: PointBandwidth, report: AllReduceReport) -> Iterator[tuple[str, list[SizeResult]]]:
    several = len({each.bundle for each in report.points}) > 1
    series = len({each.point.series for each in report.points}) > 1
    both = len({s.in_place for each in report.points for s in each.sizes}) > 1
    for in_place in (False, True):
        sizes = [s for s in p.sizes if s.in_place is in_place and s.bytes > 0 and s.messages == 1]
        if sizes:
            parts = [p.bundle if several else "", p.point.series if series else "", f"{p.point.workers} workers"]
            parts.append(f"({p.point.layout})" if p.point.nodes > 1 else "")
            parts.append(("in place" if in_place else "out of place") if both else "")
            yield " ".join(part for part in parts if part), sizes


def _sizes_axis(axes: Axes, sizes: Sequence[SizeResult]) -> None:
    counts = sorted({s.bytes for s in sizes})
    axes.set_xscale("log", base=2)
    axes.set_xlim(counts[0] / 2**0.6, counts[-1] * 2**0.6)
    ticks = axis.thinned(counts, 6)
    axis.fixed_ticks(axes, "x", ticks, [spelling.size(tick) for tick in ticks])
    axes.set_xlabel("Message")
