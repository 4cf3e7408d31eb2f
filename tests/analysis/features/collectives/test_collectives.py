"""Bandwidths of collectives with their intervals, and what is beside them."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from scalecurve.bundle.open import open_bundle
from scalecurve.checks.comparability import differences
from scalecurve.cli import cli
from scalecurve.features.collectives.collectives import collectives
from scalecurve.reporting import report
from scalecurve_api.features.collectives.kinds import Collective
from tests.analysis.collective_rows import SIZES, collectives_bundle, truth_us


def test_every_collective_and_size_has_an_interval_over_repetitions(tmp_path: Path) -> None:
    found = collectives([open_bundle(collectives_bundle(tmp_path / "b", workers=(2, 4)))])
    places = [(each.point.workers, each.line.collective, each.line.bytes) for each in found.results]
    assert places == [(count, kind, size) for count in (2, 4) for kind in Collective for size in SIZES]
    for each in found.results:
        count, kind, size = each.point.workers, each.line.collective, each.line.bytes
        busbw = size / truth_us(kind, size, count) / 1e3 * kind.bus_factor(count)
        assert each.busbw.value == pytest.approx(busbw, rel=1e-3)
        assert each.busbw.covers(busbw)
        assert each.time_us.covers(truth_us(kind, size, count))
        assert each.busbw.repetitions == 3


def test_another_tools_rows_are_a_reference(tmp_path: Path) -> None:
    found = collectives([open_bundle(collectives_bundle(tmp_path / "b", reference=0.98))])
    own = [each for each in found.results if each.line.tool == "scalecurve"]
    assert len(own) == len(found.results) / 2
    assert [each.of_reference for each in own] == pytest.approx([0.98] * len(own))
    assert {each.of_reference for each in found.results if each not in own} == {None}
    assert "Of nccl-tests" in found.table().notes[-1]


def test_wrong_results_are_noted(tmp_path: Path) -> None:
    table = collectives([open_bundle(collectives_bundle(tmp_path / "b", errors=1))]).table()
    assert "differ from the expected ones" in table.notes[1]


def test_the_verb_and_the_report_show_them(tmp_path: Path) -> None:
    folder = collectives_bundle(tmp_path / "b")
    done = CliRunner().invoke(cli, ["collectives", str(folder), "-o", "json"])
    assert done.exit_code == 0, done.output
    assert '"reduce-scatter"' in done.output
    bundle = open_bundle(folder)
    paths = report([bundle], tmp_path / "out")
    assert "collectives" in {path.stem for path in paths if path.suffix == ".svg"}
    text = (tmp_path / "out" / "report.md").read_text()
    assert "highest bus bandwidth over 2 workers (1x2): all-reduce 193.1 GB/s" in text


def test_points_that_went_another_way_are_marked(tmp_path: Path) -> None:
    same, other = ({2: "P2P", 4: way} for way in ("P2P", "SHM"))
    alike = open_bundle(collectives_bundle(tmp_path / "same", workers=(2, 4), carried=same))
    apart = open_bundle(collectives_bundle(tmp_path / "other", workers=(2, 4), carried=other))
    assert not [each for each in differences([alike]) if "transport" in each.what]
    (found,) = (each for each in differences([apart]) if "transport" in each.what)
    assert (found.what, found.values) == ("transport within machines", (("P2P", (2,)), ("SHM", (4,))))
