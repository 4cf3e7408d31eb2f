"""Time to the target over workers, a curve for each number of parameter servers: measured, and by Optimus' equation."""

from scalecurve.reporting.drawing import Drawing, Sheet, axis, style
from scalecurve.reporting.findings import Findings
from scalecurve.reporting.registry import plot
from scalecurve_api.text import count
from scalecurve_models.report.model_results import model_results

_CAPTION = (
    "Marks are measured medians; lines are the steps to the target over the speed that the equation, fitted to the "
    "same runs, gives at each worker count."
)


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
    return sheet.drawing("Time to the target with parameter servers", _CAPTION)
