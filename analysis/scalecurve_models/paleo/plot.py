"""Paleo's throughput, run time, cost and speed-up over the worker count, as a course asks for them."""

from collections.abc import Mapping, Sequence
from typing import Any

from scalecurve.reporting.drawing import Drawing, Sheet, axis, style, theme
from scalecurve_api.text import count
from scalecurve_models.comparison.compare_models import CostBasis

SPEEDUP = "Speed-up"
MOST_SECONDS = 7200
_CAPTION = (
    "Predicted by Paleo (Qi et al., ICLR 2017), not measured. Speed-up is relative to {}; the dashed line is ideal."
)


def draw_paleo(rows: Sequence[Mapping[str, Any]], work: CostBasis, title: str) -> Drawing:
    """A panel for each quantity.

    ``rows`` have workers, throughput in samples/s, the seconds and cost of ``work``, and may have a speed-up.
    """
    rows = sorted(rows, key=lambda row: row["workers"])
    counts = [row["workers"] for row in rows]
    base = rows[0]["throughput"] / counts[0]
    speedups = [row.get("speedup", row["throughput"] / base) for row in rows]
    factor, unit = (3600, "Hours") if max(row["seconds"] for row in rows) > MOST_SECONDS else (1, "Seconds")
    panels = [
        ("Throughput", "Samples/s", [row["throughput"] for row in rows]),
        (SPEEDUP, SPEEDUP, speedups),
        (f"Run time of {work.title}", unit, [row["seconds"] / factor for row in rows]),
    ]
    if all(row["cost"] for row in rows):
        panels.append((f"Cost of {work.title}", work.currency, [row["cost"] for row in rows]))
    sheet = Sheet(len(panels))
    for axes, (name, unit, values) in zip(sheet.panels, panels, strict=True):
        axes.plot(counts, values, **style(0).curve)
        axis.workers_axis(axes, counts)
        heights = list(values)
        if name == SPEEDUP:
            axes.plot(counts, counts, color=theme.FAINT, linewidth=1, linestyle=theme.DASHED, zorder=1)
            at = (counts[-1], counts[-1])
            axes.annotate("ideal", at, (4, -3), textcoords="offset points", color=theme.FAINT, fontsize=8.5)
            heights += counts
        axis.log_axis(axes, "y", min(heights), max(heights), axis.short)
        axes.set_ylabel(unit)
        axes.set_title(name, loc="left")
    reference = "one machine" if "speedup" in rows[0] else f"{count(counts[0], 'worker')}, taken as {counts[0]}"
    return sheet.drawing(title, _CAPTION.format(reference))
