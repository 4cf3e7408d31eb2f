"""llm-foundry's table: a unit is proved where three columns agree; what differs is refused or skipped with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalecurve_corpus.schema import TOKENS, CorpusError
from tests.tools.corpus.published_pages import foundry, written
from tools.corpus.llm_foundry import import_llm_foundry


def test_a_row_is_a_point_with_all_that_it_states(tmp_path: Path):
    imported = import_llm_foundry(written(tmp_path / "README.md", foundry({})))
    (point,) = imported.corpus.points
    assert (point.benchmark, point.device, point.workers, point.nodes) == ("mpt-7b", "H100", 16, 2)
    assert (point.global_batch, point.precision, point.sequence_length) == (96, "bf16", 2048)
    assert (point.unit, point.rates, point.parameters) == (TOKENS, (167600.0,), 6658859008.0)
    assert point.mfu == pytest.approx(0.4571)
    assert "FULL_SHARD" in point.system
    assert "checkpointing" in point.system


@pytest.mark.parametrize(
    "wrong", [{"Throughput (T/s/GPU)": "167600"}, {"Throughput (S/s)": "8"}, {"SeqLen (T)": "4096"}, {"# GPUs": "8"}]
)
def test_a_row_whose_rates_contradict_each_other_has_no_unit(wrong: dict[str, str], tmp_path: Path):
    first, second = import_llm_foundry(written(tmp_path / "README.md", foundry(wrong, {}))).corpus.points
    assert (first.unit, first.rates, bool(first.reason)) == (None, (), True)
    assert second.unit == TOKENS


def test_a_cell_that_is_no_number_is_named_by_its_line(tmp_path: Path):
    imported = import_llm_foundry(written(tmp_path / "README.md", foundry({"MFU": "n/a"}, {})))
    assert len(imported.corpus.points) == 1
    assert any("line 6" in note for note in imported.notes)


def test_a_page_without_such_a_table_is_refused(tmp_path: Path):
    with pytest.raises(CorpusError):
        import_llm_foundry(written(tmp_path / "README.md", "| a |\n|---|\n| 1 |\n"))
