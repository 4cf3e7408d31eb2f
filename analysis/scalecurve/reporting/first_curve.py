"""The figure of the first screen: every curve with its intervals, as small as can be read."""

from collections import Counter
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from scalecurve.curves.along_axes import spelled
from scalecurve.render import formatting
from scalecurve.render.labels import brief
from scalecurve.reporting.answer import FEW_SERIES, MOST_SERIES, place_of, point_in_words, scales
from scalecurve.reporting.contributions import AxisPoint, contributions
from scalecurve.reporting.drawing import Drawing, Sheet, axis, interval_bars, style
from scalecurve.reporting.drawing.marks import diagonal, hollow_caption, hollow_marks
from scalecurve.reporting.drawing.scales import in_sight, ratio_scale
from scalecurve.reporting.drawing.views import form
from scalecurve.reporting.findings import WORKERS, Analysis, axis_results, report_axis
from scalecurve_api.model import canonical_json
from scalecurve_api.spec.experiment import AxisValue
from scalecurve_api.text import count

_LOG_FROM = 4.0
_AIR = 0.12


def value_axis(axes: Axes, values: Sequence[AxisValue]) -> dict[str, float]:
    """Where each value stands, by its ``canonical_json``; a log scale where the largest is several times the least."""
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    spelled = [value if isinstance(value, str) else canonical_json(value) for value in values]
    keys = [canonical_json(value) for value in values]
    if len(numbers) < len(values) or min(numbers) <= 0 or len(set(numbers)) < 2:
        axis.fixed_ticks(axes, "x", range(len(values)), list(map(axis.folded, spelled)))
        axis.category_limits(axes, len(values), least=2)
        return dict(zip(keys, map(float, range(len(values))), strict=True))
    low, high = float(min(numbers)), float(max(numbers))
    if high >= _LOG_FROM * low:
        axes.set_xscale("log")
        air = (high / low) ** _AIR
        axes.set_xlim(low / air, high * air)
    else:
        axes.set_xlim(low - (high - low) * _AIR, high + (high - low) * _AIR)
    step = -(-len(numbers) // axis.MOST_TICKS)
    axis.fixed_ticks(axes, "x", [float(number) for number in numbers[::step]], spelled[::step])
    axes.xaxis.set_minor_locator(NullLocator())
    return dict(zip(keys, map(float, numbers), strict=True))


_WIDTH, _TOP = 4.3, 0.08
_HEIGHT, _PHONE_HEIGHT, _LOW = 1.95, 1.45, 1.15
_DODGE = 0.05  # octaves between the curves of one count, so that their intervals do not hide each other


def x_axis(analysis: Analysis) -> str:
    """What the first figure is over: as chosen, or the worker count, or the axis with most values; "" for nothing."""
    if chosen := analysis.x or analysis.once(report_axis):
        return chosen
    if scales(analysis):
        return WORKERS
    values = {(r.axis, spelled(r.value)) for r in analysis.once(axis_results)}
    counted = Counter(axis for axis, _ in sorted(values))
    if any(contribution.leads(analysis) for contribution in contributions()):
        return ""
    return next((axis for axis, _ in counted.most_common(1)), "")


def first_curve(analysis: Analysis) -> Drawing | None:
    """Speed-up over workers of the first curves, or what another axis changes; None where nothing varies."""
    name = x_axis(analysis)
    return draw_speedup_lines(analysis) if name == WORKERS else draw_axis_lines(analysis, name) if name else None


def draw_axis_lines(analysis: Analysis, name: str) -> Drawing | None:
    """Accuracy where points were trained, throughput otherwise: a line for each worker count, others at one value."""
    trained = [point for contribution in contributions() for point in contribution.along_axis(analysis, name)]
    results = [r for r in analysis.once(axis_results) if r.axis == name]
    points = trained or [AxisPoint(r.bundle, r.rest, r.workers, r.value, r.throughput) for r in results]
    if not points:
        return None
    groups = Counter((bundle, rest) for bundle, rest, *_ in points)
    (bundle, rest), _ = groups.most_common(1)[0]
    shown = [point for point in points if point[:2] == (bundle, rest)]
    counts = sorted({workers for _, _, workers, *_ in shown})[-MOST_SERIES:]
    labels = [count(workers, "worker") for workers in counts]
    sheet = Sheet(
        labels=labels if len(counts) > 1 else [],
        width=_WIDTH,
        height=_LOW if form().phone else _HEIGHT,
        top=_TOP,
    )
    (axes,) = sheet.panels
    at = value_axis(axes, list({spelled(value): value for *_, value, _ in shown}.values()))
    heights: list[float] = []
    for index, (workers, label) in enumerate(zip(counts, labels, strict=True)):
        look = style(index)
        line = sorted(
            ((at[canonical_json(value)], e, value) for _, _, own, value, e in shown if own == workers),
            key=lambda place: place[0],
        )
        (drawn,) = axes.plot([x for x, *_ in line], [e.value for _, e, _ in line], **look.curve, zorder=3)
        bars = interval_bars(axes, ((x, e.low, e.high) for x, e, _ in line), look.color, alpha=0.4, caps=True)
        heights += [*bars, *(e.value for _, e, _ in line)]
        if sheet.labels:
            sheet.handles[label] = drawn
        for x, e, value in line:
            number = formatting.interval(e, as_percent=bool(trained)) + ("" if trained else "/s")
            sheet.tip(axes, x, e.value, f"{name} {spelled(value)}, {label}: {number}")
    if trained:
        air = max(0.01, (max(heights) - min(heights)) * 0.08)
        axis.linear_axis(axes, "y", max(0.0, min(heights) - air), min(1.0, max(heights) + air), axis.percent)
    else:
        axis.linear_axis(axes, "y", 0, max(heights) * 1.08, axis.short)
    axes.set_xlabel(name)
    axes.set_ylabel("Accuracy" if trained else "Throughput (1/s)")
    others = f" Other axes: {rest}." if rest else ""
    title = f"{'Accuracy' if trained else 'Throughput'} over {name}"
    return sheet.drawing(title, f"Bars are intervals.{others}")


def draw_speedup_lines(analysis: Analysis) -> Drawing | None:
    """Speed-up of the first curves."""
    shown = [s for s in analysis.curves.series if any(p.speedup for p in s.points)][:MOST_SERIES]
    if not shown:
        return None
    short = brief([series.name for series in shown], [series.mode.value for series in shown])
    several = len(analysis.bundles) > 1
    labels = [f"{series.bundle}, {short[series.name]}" if several else short[series.name] for series in shown]
    height = (_PHONE_HEIGHT if len(shown) <= FEW_SERIES else _LOW) if form().phone else _HEIGHT
    sheet = Sheet(width=_WIDTH, height=height, top=_TOP)
    (axes,) = sheet.panels
    axis.workers_axis(axes, [p.workers for series in shown for p in series.points])
    heights, _ = in_sight([p.speedup for series in shown for p in series.points if p.speedup])
    for index, (label, series) in enumerate(zip(labels, shown, strict=True)):
        look = style(index)
        heights += diagonal(axes, series, lambda p: p.speedup, look.color)
        shift = 2 ** (_DODGE * (index - (len(shown) - 1) / 2))
        points = [(p.workers * shift, p.speedup, p) for p in series.points if p.speedup]
        axes.plot([x for x, *_ in points], [v.value for _, v, _ in points], **look.curve, zorder=3)
        hollow_marks(axes, [(x, v.value) for x, v, p in points if p.marks], look)
        bars = [(x, v.low, v.high) for x, v, p in points if p.workers != series.baseline]
        interval_bars(axes, bars, look.color, alpha=0.4, caps=True)
        for x, v, p in points:
            sheet.tip(axes, x, v.value, f"{label}: {point_in_words(series, p)}", place_of(series, p))
    ratio_scale(axes, shown, heights)
    axes.set_ylabel("Speed-up")
    hollow = hollow_caption(p for series in shown for p in series.points)
    return sheet.drawing("Speed-up", f"Bars are intervals, the dashed line is ideal.{hollow}")
