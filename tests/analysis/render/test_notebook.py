"""Results in a notebook: every result of a verb shows its tables, and nothing of a bundle becomes markup."""

from pathlib import Path

import pytest

import scalecurve
from scalecurve.render.notebook import table_html
from scalecurve.render.table import Column, Table
from tests.analysis.synthetic import Truth, experiment, write_bundle


def test_a_name_of_a_bundle_stays_text() -> None:
    table = Table("t", "<b>t</b>", (Column("a", "A & B"),), (("<script>",),), ("x < y",))
    html = table_html(table)
    assert "<caption>&lt;b&gt;t&lt;/b&gt;</caption>" in html
    assert "<th>A &amp; B</th>" in html
    assert "<td>&lt;script&gt;</td>" in html
    assert "x &lt; y" in html


def test_an_empty_table_says_so() -> None:
    assert ">nothing<" in table_html(Table("t", "T", (Column("a", "A"),), ()))


@pytest.mark.parametrize("verb", ["allreduce", "cost", "diagnose", "explain", "scaling", "training"])
def test_results_show_their_tables(tmp_path: Path, verb: str) -> None:
    spec = experiment("small", modes=["weak"], workers=[1, 2], repetitions=2, windows=2, steps_per_window=15)
    bundles = scalecurve.open_bundles([write_bundle(tmp_path / "b", spec, Truth())])
    html = getattr(scalecurve, verb)(bundles)._repr_html_()
    assert html == "" if verb == "training" else html.startswith(("<table><caption>", "<ul><li>weak"))
