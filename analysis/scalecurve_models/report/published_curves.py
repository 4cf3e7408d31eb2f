"""Published curves of the same network with a measured weak curve, each labeled as published."""

from scalecurve.reporting.drawing import WIDE_PANEL, Drawing, Sheet, axis, level_line, style, theme
from scalecurve.reporting.drawing.scales import percent_scale
from scalecurve.reporting.findings import Findings
from scalecurve.reporting.registry import plot
from scalecurve_api.spec.scaling import Mode
from scalecurve_models.report.model_results import model_results

_OWN_WIDTH, _OTHER_WIDTH = 2.4, 1.1
_CAPTION = (
    "Thick: measured here, relative to its own baseline. All others were published by others, with other hardware, "
    "software and batches, each relative to its own smallest count; single marks are published efficiencies. They show "
    "what was reached elsewhere and do not validate the measured curve. Sources are in the table."
)


@plot("published", section="published", order=10)
def published_curves(findings: Findings) -> Drawing | None:
    """Weak efficiency over the worker count, measured and published."""
    published = findings.once(model_results).published
    own = [
        series
        for series in findings.scaling.series
        if series.mode is Mode.weak and sum(p.efficiency is not None for p in series.points) > 1
    ]
    if not published or not own:
        return None
    several = len({series.bundle for series in own}) > 1
    networks = len({curve.network for curve in published}) > 1
    named = [f"measured: {series.bundle + ', ' if several else ''}{series.name}" for series in own]
    others = [f"{curve.title}{' (' + curve.network + ')' if networks else ''}" for curve in published]
    sheet = Sheet(labels=[*named, *others], width=WIDE_PANEL)
    (axes,) = sheet.panels
    counts, heights = [], []
    here = [[(p.workers, p.efficiency.value) for p in series.points if p.efficiency is not None] for series in own]
    there = [[(n, efficiency) for n, _, efficiency in curve.points] for curve in published]
    for index, (label, points) in enumerate(zip([*named, *others], [*here, *there], strict=True)):
        look = style(index if index < len(own) else index - len(own))
        (line,) = axes.plot(*zip(*points, strict=True), marker=look.marker, label=label)
        if index < len(own):
            line.set(color=theme.INK, linewidth=_OWN_WIDTH, zorder=5)
        else:
            line.set(color=look.color, linestyle=theme.DASHES[2], linewidth=_OTHER_WIDTH, mfc=theme.PAPER, zorder=3)
        sheet.handles[label] = line
        counts += [n for n, _ in points]
        heights += [y for _, y in points]
    axis.workers_axis(axes, counts)
    percent_scale(axes, own, heights)
    level_line(axes, 1)
    axes.set_ylabel("Efficiency, weak scaling")
    axes.set_xlabel("Workers (accelerators)")
    return sheet.drawing("Published curves", _CAPTION)
