"""What one table refuses, no other prints: every verb over every packed bundle, as JSON."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from scalecurve.bundle.open import open_bundles
from scalecurve.cli import main
from scalecurve.reporting.compose import compose
from scalecurve.reporting.findings import analyze
from tests.analysis.packed_bundles import PACKED, name_of

OVER = ("--workers", "3,512")
"""Two counts of which none is measured: one between measured ones, or near them, and one far away."""
CALLS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("status", "explain", "diagnose", "cost", "history", "training", "allreduce", "collectives"), ()),
    **dict.fromkeys(("predict", "recommend"), OVER),
}
"""Verb → its words beside the bundle. `fit` shows what `predict` does, without further counts."""
NOTHING = {"allreduce", "collectives", "training", "cost", "predict", "recommend"}
"""Verbs that refuse a bundle which has nothing of what they show."""


class Shown(NamedTuple):
    """A cell of a table that is of one series at one count."""

    verb: str
    table: str
    series: str
    workers: int
    column: str
    kind: str
    value: Any
    status: str | None

    @property
    def refused(self) -> bool:
        return isinstance(self.value, dict) and self.value.get("value") is None and "reason" in self.value

    @property
    def plain(self) -> bool:
        if self.status == "range" and self.column in ("low", "high"):  # given in a prediction's place
            return False
        value = self.value["value"] if isinstance(self.value, dict) else self.value
        return isinstance(value, int | float) and not isinstance(value, bool)


@pytest.mark.parametrize("packed", PACKED, ids=name_of)
def test_what_one_table_refuses_no_other_prints(packed: Path) -> None:
    shown = [*_cells("report", json.loads(compose(analyze(open_bundles([packed])), draw=False).json()))]
    for verb in CALLS:
        shown += _shown(verb, packed)
    counts, numbers = _refused(shown)
    assert not [
        cell
        for cell in shown
        if cell.plain
        and (
            (cell.kind in ("number", "percent") and (cell.series, cell.workers) in counts)
            or (cell.series, cell.workers, cell.column) in numbers
        )
    ]


def test_both_kinds_of_refusal_are_found() -> None:
    (flagship,) = (packed for packed in PACKED if name_of(packed) == "h200/resnet50")
    counts, numbers = _refused(_shown("predict", flagship))
    assert counts == {("weak", 512)}
    assert {("strong", 3, "predicted_cost"), ("weak", 512, "predicted_s")} <= numbers


def _refused(shown: list[Shown]) -> tuple[set[tuple[str, int]], set[tuple[str, int, str]]]:
    """(series, count) of which no number is known, and (series, count, column) of single numbers."""
    counts = {(cell.series, cell.workers) for cell in shown if cell.column == "status" and cell.value == "refused"}
    return counts, {(cell.series, cell.workers, cell.column) for cell in shown if cell.refused}


def _shown(verb: str, packed: Path) -> list[Shown]:
    """What a verb shows of a bundle; nothing where the bundle has nothing of it."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
        main([verb, str(packed), *CALLS[verb], "--output", "json"])
    if ended.value.code == 2 and verb in NOTHING:
        return []
    assert ended.value.code in (0, 1, None), err.getvalue()
    return [*_cells(verb, json.loads(out.getvalue()))]


def _cells(verb: str, tree: Any) -> Iterator[Shown]:
    if isinstance(tree, list):
        for inner in tree:
            yield from _cells(verb, inner)
    elif isinstance(tree, dict) and "rows" in tree and "columns" in tree:
        for row in tree["rows"]:
            series = row.get("series") or row.get("curve")
            if series is not None and row.get("workers") is not None:
                for column in tree["columns"]:
                    name = column["name"]
                    here = (verb, tree["name"], series, row["workers"])
                    yield Shown(*here, name, column["kind"], row[name], row.get("status"))
    elif isinstance(tree, dict):
        for inner in tree.values():
            yield from _cells(verb, inner)
