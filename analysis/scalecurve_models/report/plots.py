"""The plots that the models add to a report, registered by their import; here of published curves and of servers."""

from scalecurve.reporting.drawing import WIDE_PANEL, Drawing, Sheet, axis, level_line, style, theme
from scalecurve.reporting.drawing.scales import percent_scale
from scalecurve.reporting.findings import Findings
from scalecurve.reporting.registry import plot
from scalecurve_api.spec.scaling import Mode
from scalecurve_api.text import count
from scalecurve_models.report import collectives, learning_curves, paleo, predicted
from scalecurve_models.report.model_results import model_results

__all__ = ["collectives", "learning_curves", "paleo", "predicted"]


_OWN_WIDTH, _OTHER_WIDTH = 2.4, 1.1
_PUBLISHED = (
    "Thick: measured here, relative to its own baseline. All others were published by others, with other hardware, "
    "software and batches, each relative to its own smallest count; single marks are published efficiencies. They show "
    "what was reached elsewhere and do not validate the measured curve. Sources are in the table."
)
_SERVERS = (
    "Marks are measured medians; lines are the steps to the target over the speed that the equation, fitted to the "
    "same runs, gives at each worker count."
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
    return sheet.drawing("Published curves", _PUBLISHED)


@plot("time-with-servers", section="learning", order=30)
def time_with_servers(findings: Findings) -> Drawing | None:
    """Of the first program whose servers were varied and whose runs reached the target."""
    programs = [program for program in findings.once(model_results).served if len(program.servers) > 1]
    program = next((one for one in programs if any(point.to_target_s for point in one.points)), None)
    if program is None:
        return None
    counts = sorted({point.workers for point in program.points})
    labels = [count(servers, "server") for servers in program.servers]
    sheet = Sheet(labels=labels)
    (axes,) = sheet.panels
    heights: list[float] = []
    for index, (label, servers) in enumerate(zip(labels, program.servers, strict=True)):
        look = style(index)
        points = [p for p in program.points if p.servers == servers and p.to_target_s]
        marks = sorted((p.workers, p.to_target_s) for p in points if p.to_target_s)
        if marks:
            (sheet.handles[label],) = axes.plot(
                *zip(*marks, strict=True), color=look.color, marker=look.marker, linestyle="none", label=label
            )
            heights += [seconds for _, seconds in marks]
        predicted = [(n, program.seconds(n, servers)) for n in range(counts[0], counts[-1] + 1)]
        known = [(n, seconds) for n, seconds in predicted if seconds is not None]
        if known:
            (line,) = axes.plot(*zip(*known, strict=True), color=look.color, linestyle=look.line)
            sheet.handles.setdefault(label, line)
            heights += [seconds for _, seconds in known]
    axis.workers_axis(axes, counts)
    axis.log_axis(axes, "y", min(heights), max(heights), axis.short)
    axes.set_ylabel("Training time to the target (s)")
    return sheet.drawing("Time to the target with parameter servers", _SERVERS)
