"""Published curves of the same network under a measured weak curve, each labelled as others' own figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from scalecurve.curves.compute import Scaling
from scalecurve.reporting.drawing import axis, canvas
from scalecurve.reporting.drawing.canvas import Plot
from scalecurve.reporting.drawing.scales import percent_scale
from scalecurve_api.spec.scaling import Mode
from scalecurve_models.comparison.published import PublishedCurve

_OWN_WIDTH, _OTHER_WIDTH = 2.4, 1.1
_CAPTION = (
    "Thick: measured here, over its own baseline. All others were published by others, on other hardware with other "
    "software and batches, each over its own smallest count; single marks are a printed efficiency. They say what was "
    "reached elsewhere, and prove nothing of the measured curve. Sources stand in the table."
)


def overlay(published: Sequence[PublishedCurve], result: Scaling, png: bool) -> Iterator[Plot]:
    """Weak efficiency over the worker count, measured and published."""
    own = [
        series
        for series in result.series
        if series.mode is Mode.weak and sum(p.efficiency is not None for p in series.points) > 1
    ]
    if not published or not own:
        return
    several = len({series.bundle for series in own}) > 1
    networks = len({curve.network for curve in published}) > 1
    named = [f"measured: {series.bundle + ', ' if several else ''}{series.name}" for series in own]
    others = [f"{curve.title}{' (' + curve.network + ')' if networks else ''}" for curve in published]
    width = canvas.figure_width(2, 2) - canvas.LEFT - canvas.RIGHT
    columns, rows = canvas.legend_shape([*named, *others], width)
    figure, (axes,) = canvas.panels(1, 1, rows, width=width)
    handles, counts, heights = [], [], []
    for index, (label, series) in enumerate(zip(named, own, strict=True)):
        points = [(p.workers, p.efficiency.value) for p in series.points if p.efficiency is not None]
        look = canvas.style(index)
        (line,) = axes.plot(
            *zip(*points, strict=True),
            color=canvas.INK,
            linewidth=_OWN_WIDTH,
            marker=look.marker,
            label=label,
            zorder=5,
        )
        handles.append(line)
        counts += [n for n, _ in points]
        heights += [y for _, y in points]
    for index, (label, curve) in enumerate(zip(others, published, strict=True)):
        look = canvas.style(index)
        points = [(n, efficiency) for n, _, efficiency in curve.points]
        (line,) = axes.plot(
            *zip(*points, strict=True),
            color=look.color,
            linestyle=canvas.DASHES[2],
            linewidth=_OTHER_WIDTH,
            marker=look.marker,
            mfc=canvas.PAPER,
            label=label,
            zorder=3,
        )
        handles.append(line)
        counts += [n for n, _ in points]
        heights += [y for _, y in points]
    axis.workers_axis(axes, counts)
    percent_scale(axes, own, heights)
    axes.axhline(1, color=canvas.FAINT, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
    axes.set_ylabel("Efficiency, weak scaling")
    axes.set_xlabel("Workers (accelerators)")
    canvas.legend(figure, handles, columns)
    yield canvas.finish(figure, "published", "Beside published curves", _CAPTION, png)
