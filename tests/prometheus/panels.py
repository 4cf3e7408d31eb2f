"""The dashboard's panels, and what a Prometheus answers to their queries."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.prometheus.prometheus_server import Series

DASHBOARD = Path(__file__).parents[2] / "charts" / "scalecurve" / "files" / "dashboards" / "scalecurve.json"
EVERYTHING = {"namespace": ".*", "experiment": ".*", "baseline": "1"}
"""The dashboard's variables as it opens."""
RATE_INTERVAL_S = 4
"""Four scrape intervals, as Grafana has it."""


@dataclass(frozen=True)
class Query:
    """One line of a panel: PromQL with Grafana's variables in it."""

    expression: str
    legend: str
    instant: bool


@dataclass(frozen=True)
class Panel:
    """One panel, where it lies on a grid of 24 columns, and its unit."""

    id: int
    kind: str
    title: str
    description: str
    unit: str
    grid: Mapping[str, int]
    queries: Sequence[Query]


@dataclass(frozen=True)
class Span:
    """The dashboard's time range, in Unix seconds, and the step of its lines."""

    start: float
    end: float
    step: float = 1.0


Instant = Callable[[str, float], Sequence[Series]]
Over = Callable[[str, float, float, float], Sequence[Series]]


def panels(path: Path = DASHBOARD) -> list[Panel]:
    """All panels in their order, rows too: those have no query."""
    return [_panel(each) for each in json.loads(path.read_text(encoding="utf-8"))["panels"]]


def variables(path: Path = DASHBOARD) -> dict[str, tuple[str, str]]:
    """Name → (metric selector, label) of each variable that Grafana fills by `label_values`."""
    found = {}
    for each in json.loads(path.read_text(encoding="utf-8"))["templating"]["list"]:
        if each["type"] == "query":
            inner = each["definition"].removeprefix("label_values(").removesuffix(")")
            selector, _, label = inner.rpartition(", ")
            found[each["name"]] = (selector, label)
    return found


def substituted(expression: str, span: Span, chosen: Mapping[str, str] = EVERYTHING) -> str:
    """The expression as Grafana sends it.

    Raises:
        ValueError: a variable that nothing is known of.
    """
    built_in = {"__rate_interval": f"{RATE_INTERVAL_S}s", "__range": f"{span.end - span.start:.0f}s"}
    for name, value in sorted({**built_in, **chosen}.items(), key=lambda item: -len(item[0])):
        expression = expression.replace(f"${name}", value)
    if "$" in expression:
        raise ValueError(f"a variable is left: {expression}")
    return expression


def answer(query: Query, span: Span, instant: Instant, over: Over) -> list[Series]:
    """Series with at least one point that is a number."""
    expression = substituted(query.expression, span)
    found = instant(expression, span.end) if query.instant else over(expression, span.start, span.end, span.step)
    return [each for each in found if each.points]


def legend(query: Query, labels: Mapping[str, str]) -> str:
    """The line's name as Grafana spells it."""
    text = query.legend
    for name in {*labels, "experiment", "workers", "mode", "phase", "reason", "method", "answer", "pod"}:
        text = text.replace("{{" + name + "}}", labels.get(name, ""))
    return text.strip()


def _panel(tree: Mapping[str, Any]) -> Panel:
    queries = [
        Query(each["expr"], each.get("legendFormat", ""), bool(each.get("instant"))) for each in tree.get("targets", [])
    ]
    unit = tree.get("fieldConfig", {}).get("defaults", {}).get("unit", "short")
    return Panel(
        tree["id"], tree["type"], tree["title"], tree.get("description", ""), unit, dict(tree["gridPos"]), queries
    )
