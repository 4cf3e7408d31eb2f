"""Published curves, as the prior and its tests use them: ``data/published_points.csv``, one run per count."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

from scalecurve_models.laws.normal_form import CurvePoint


@dataclass(frozen=True)
class PublishedSeries:
    """One curve of one publisher, by ascending worker count."""

    source: str
    name: str
    points: tuple[CurvePoint, ...]


@lru_cache(maxsize=1)
def corpus() -> tuple[PublishedSeries, ...]:
    """Every published curve of the repository; where each was read stands in the file's first lines."""
    text = (files("scalecurve_models.laws") / "data" / "published_points.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    series: dict[tuple[str, str], list[CurvePoint]] = {}
    for row in rows:
        point = CurvePoint(int(row["workers"]), float(row["throughput"]), int(row["nodes"]))
        series.setdefault((row["source"], row["series"]), []).append(point)
    return tuple(
        PublishedSeries(source, name, tuple(sorted(points, key=lambda point: point.workers)))
        for (source, name), points in series.items()
    )
