"""Optimus' speed, or the time to a loss, over workers, from coefficients alone."""

from collections.abc import Sequence

from matplotlib.lines import Line2D

from scalecurve.reporting.drawing import Drawing, Sheet, axis, style, theme
from scalecurve_api.text import count
from scalecurve_models.optimus.speed import EQUATIONS, speed
from scalecurve_models.optimus.table import kind_of

MOST_DENSE = 512  # workers up to which a line has every count


def draw_speed(
    theta: Sequence[float], workers: Sequence[int], servers: Sequence[int], batch: float | None, steps: float | None
) -> Drawing:
    """A curve for each number of servers, with marks at ``workers``: steps/s, or seconds where ``steps`` are known.

    Raises FitError as ``speed`` does.
    """
    kind = kind_of(theta)
    equation = EQUATIONS[kind]
    law = f"{equation.number} of Optimus: {'f' if steps is None else f'{steps:,.0f} steps / f'}"
    labels = [count(p, "server") for p in servers]
    sheet = Sheet(labels=[*labels, law], width=5.2)
    (axes,) = sheet.panels
    counts = sorted(set(workers))
    dense = range(counts[0], counts[-1] + 1) if counts[-1] <= MOST_DENSE else counts
    heights: list[float] = []
    for index, (label, p) in enumerate(zip(labels, servers, strict=True)):
        look = style(index)
        rates = {w: speed(kind, theta, w, servers=p, batch=batch) for w in dense}
        values = rates if steps is None else {w: steps / rate for w, rate in rates.items()}
        axes.plot(list(values), list(values.values()), color=look.color, linestyle=look.line)
        marks = [values[w] for w in counts]
        (sheet.handles[label],) = axes.plot(
            counts, marks, color=look.color, marker=look.marker, linestyle="none", label=label
        )
        heights += values.values()
    sheet.handles[law] = Line2D([], [], color=theme.INK, label=law)
    axis.workers_axis(axes, counts)
    axis.log_axis(axes, "y", min(heights), max(heights), axis.short)
    axes.set_ylabel("Speed (steps/s)" if steps is None else "Time to the loss (s)")
    sheet.name_panels([equation.equation])
    title = "Speed with parameter servers" if steps is None else "Time to the loss with parameter servers"
    return sheet.drawing(title, f"Predicted from the coefficients alone: w workers, p servers, global batch M. {law}.")
