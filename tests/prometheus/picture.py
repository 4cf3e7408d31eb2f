"""Draw the dashboard of a real run: each panel's own queries, asked of a real Prometheus, as one page for a browser.

    python -m tests.prometheus.picture dashboard.html [experiment.yaml]
    chromium --headless --no-sandbox --window-size=1500,2640 --screenshot=dashboard.png dashboard.html

It is no Grafana: the layout, the units and the lines are the dashboard's, the drawing is this file's.
"""

from __future__ import annotations

import html
import io
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from tests.prometheus import panels, scene
from tests.prometheus.panels import Panel, Query, Span
from tests.prometheus.prometheus_server import PrometheusServer, Series
from tools.devcluster.tier import Tier

COLOURS = ("#73bf69", "#f2cc0c", "#5794f2", "#ff780a", "#b877d9", "#f2495c", "#37a2a5", "#8f8f8f")
ROW_PX = 34
STYLE = f"""
body {{ background: #111217; color: #ccccdc; font: 13px/1.35 Inter, "DejaVu Sans", sans-serif; margin: 12px; }}
.grid {{ display: grid; grid-template-columns: repeat(24, 1fr); grid-auto-rows: {ROW_PX}px; gap: 8px; }}
.panel {{ background: #181b1f; border: 1px solid #2b2e34; border-radius: 3px; padding: 6px 8px; overflow: hidden;
  display: flex; flex-direction: column; }}
.row {{ font-weight: 600; align-self: end; }}
h2 {{ font-size: 13px; font-weight: 600; margin: 0 0 4px; }}
svg {{ width: 100%; flex: 1; min-height: 0; }}
ul {{ list-style: none; margin: 2px 0 0; padding: 0; font-size: 11px; }}
li {{ display: inline-block; margin-right: 12px; }}
i {{ display: inline-block; width: 12px; height: 3px; margin-right: 5px; vertical-align: middle; }}
table {{ border-collapse: collapse; font-size: 12px; width: 100%; }}
th, td {{ text-align: left; padding: 3px 8px; border-bottom: 1px solid #2b2e34; white-space: nowrap; }}
.bar {{ display: grid; grid-template-columns: 10em 1fr 3em; gap: 8px; align-items: center; margin: 3px 0; }}
.bar b {{ background: #3274d9; height: 13px; display: block; }}
"""


def page(prometheus: PrometheusServer, span: Span, title: str) -> str:
    """The whole dashboard over a time range."""
    boxes = "\n".join(_box(panel, prometheus, span) for panel in panels.panels())
    head = f'<!doctype html><meta charset="utf-8"><title>{html.escape(title)}</title><style>{STYLE}</style>'
    return f'{head}<h1 style="font-size:16px">{html.escape(title)}</h1><div class="grid">{boxes}</div>\n'


def _box(panel: Panel, prometheus: PrometheusServer, span: Span) -> str:
    grid = panel.grid
    place = f"grid-column: {grid['x'] + 1} / span {grid['w']}; grid-row: {grid['y'] + 1} / span {grid['h']}"
    if panel.kind == "row":
        return f'<div class="row" style="{place}">{html.escape(panel.title)}</div>'
    found = [
        (query, each)
        for query in panel.queries
        for each in panels.answer(query, span, prometheus.instant, prometheus.over)
    ]
    draw = {"table": _table, "bargauge": _bars}.get(panel.kind, _lines)
    return f'<div class="panel" style="{place}"><h2>{html.escape(panel.title)}</h2>{draw(panel, found, span)}</div>'


def _lines(panel: Panel, found: Sequence[tuple[Query, Series]], span: Span) -> str:
    size = (panel.grid["w"] * 61 - 24) / 96, (panel.grid["h"] * (ROW_PX + 8) - 70) / 96
    figure = Figure(figsize=size, facecolor="none")
    axes = figure.add_axes((0.6 / size[0], 0.26 / size[1], 1 - 0.7 / size[0], 1 - 0.36 / size[1]), facecolor="none")
    legends = []
    for number, (query, series) in enumerate(found):
        colour = COLOURS[number % len(COLOURS)]
        times, values = _with_gaps(series.points, span)
        axes.plot(times, values, color=colour, linewidth=1.6)
        legends.append(
            f'<li><i style="background:{colour}"></i>{html.escape(panels.legend(query, series.labels))}</li>'
        )
    axes.set_xlim(0, span.end - span.start)
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 3, 6, 10], integer=True))
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: spelled(value, panel.unit)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{int(value) // 60}:{int(value) % 60:02d}"))
    axes.grid(color="#2b2e34", linewidth=0.8)
    axes.tick_params(colors="#9a9aa8", labelsize=9, length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    text = io.StringIO()
    figure.savefig(text, format="svg", transparent=True)
    svg = text.getvalue()
    return f"{svg[svg.index('<svg') :]}<ul>{''.join(legends)}</ul>"


def _with_gaps(points: Sequence[tuple[float, float]], span: Span) -> tuple[list[float], list[float]]:
    """Seconds from the range's start, and a hole wherever a point is missing."""
    times: list[float] = []
    values: list[float] = []
    for at, value in points:
        if times and at - span.start - times[-1] > 1.5 * span.step:
            times.append(times[-1] + span.step)
            values.append(float("nan"))
        times.append(at - span.start)
        values.append(value)
    return times, values


def _bars(panel: Panel, found: Sequence[tuple[Query, Series]], span: Span) -> str:
    most = max((series.last for _, series in found), default=1) or 1
    return "".join(
        f'<div class="bar"><span>{html.escape(panels.legend(query, series.labels))}</span>'
        f'<b style="width:{100 * series.last / most:.0f}%"></b><span>{series.last:g}</span></div>'
        for query, series in found
    )


def _table(panel: Panel, found: Sequence[tuple[Query, Series]], span: Span) -> str:
    several = len(panel.queries) > 1
    names = ("samples/s", "step time")
    rows: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}
    for query, series in found:
        row = rows.setdefault(tuple(sorted(series.labels.items())), dict(series.labels))
        if several:
            number = panel.queries.index(query)
            row[names[number]] = spelled(series.last, "s" if number else "short")
    columns = list(dict.fromkeys(name for row in rows.values() for name in row))
    header = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(row.get(name, ''))}</td>" for name in columns) + "</tr>"
        for row in rows.values()
    )
    return f"<table><tr>{header}</tr>{body}</table>"


def spelled(value: float, unit: str) -> str:
    """A number as the dashboard's unit has it."""
    if unit == "percentunit":
        return f"{100 * value:.3g} %"
    if unit == "bytes":
        return f"{value / 2**20:.3g} MiB"
    if unit == "s":
        return f"{value:.3g} s" if value >= 1 else f"{value * 1e3:.3g} ms"
    return f"{value / 1e3:.3g} K" if value >= 1e3 else f"{value:.3g}"


def main(output: Path, experiment: Mapping[str, Any] = scene.EXPERIMENT) -> None:
    with tempfile.TemporaryDirectory() as folder, Tier() as tier:
        tier.add_nodes(4)
        with scene.scene(tier, Path(folder), experiment, repetitions=8) as found:
            step = max(1.0, (found.during - found.begun) // 400)
            span = Span(found.begun, found.during, step)
            output.write_text(page(found.prometheus, span, "ScaleCurve"), encoding="utf-8")
    print(output)


if __name__ == "__main__":
    given = yaml.safe_load(Path(sys.argv[2]).read_text(encoding="utf-8")) if len(sys.argv) > 2 else scene.EXPERIMENT
    main(Path(sys.argv[1]), given)
