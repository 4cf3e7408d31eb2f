"""torchtitan's tables: figures of one GPU have a unit, others a reason; the page says on what they were measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalecurve_corpus.schema import TOKENS, CorpusError
from tests.tools.corpus.published_pages import TITAN, written
from tests.tools.corpus.synthetic_round import committed
from tools.corpus.torchtitan_tables import import_torchtitan

NAME = "benchmarks/llama3_h100_202412_someone.md"


def test_every_figure_is_a_point_and_one_of_unclear_extent_is_refused(tmp_path: Path):
    written(tmp_path / NAME, TITAN.format(memory=80))
    imported = import_torchtitan(committed(tmp_path))
    assert not imported.notes
    assert [
        (p.benchmark, p.device, p.workers, p.global_batch, p.precision, p.sequence_length, p.rates)
        for p in imported.corpus.points
    ] == [
        ("llama3.1-8b", "H100", 128, 256, "bf16", None, (5605.0 * 128,)),
        ("llama3.1-8b", "H100", 128, 256, "fp8", None, (8380.0 * 128,)),
        ("llama3.1-8b", "H100", 8, None, "bf16", 262144, (548.0 * 8,)),
        ("llama3.1-70b", "H100", 256, None, "bf16", None, ()),
    ]
    assert {p.submitter for p in imported.corpus.points} == {"someone"}
    assert [p.unit for p in imported.corpus.points] == [TOKENS, TOKENS, TOKENS, None]
    assert imported.corpus.points[-1].runs[0].relative == 597.3


def test_a_device_with_other_memory_is_another_device(tmp_path: Path):
    written(tmp_path / NAME, TITAN.format(memory=96))
    assert {point.device for point in import_torchtitan(committed(tmp_path)).corpus.points} == {"H100_96GB_HBM3"}


def test_nodes_of_a_row_make_its_devices(tmp_path: Path):
    page = written(
        tmp_path / "llama3-8b_h200_202506_else.md",
        "Llama 3.1 8B\n\n- 8 NVIDIA H200 GPUs\n\n--training.local_batch_size=2\n\n"
        "| NUM_NODES | TPS/GPU |\n|---|---|\n| 4 | 10938 |\n",
    )
    (point,) = import_torchtitan(page).corpus.points
    assert (point.workers, point.nodes, point.global_batch) == (32, 4, 64)
    assert point.rates == (10938.0 * 32,)


def test_a_table_without_its_model_or_devices_is_skipped_with_its_line(tmp_path: Path):
    written(tmp_path / NAME, TITAN.format(memory=80))
    written(tmp_path / "benchmarks/a.md", "| x | TPS/GPU |\n|---|---|\n| y | 5 |\n")
    assert any("a.md, line 3" in note for note in import_torchtitan(committed(tmp_path)).notes)


def test_a_repository_without_such_a_table_is_refused(tmp_path: Path):
    with pytest.raises(CorpusError):
        import_torchtitan(written(tmp_path / "a.md", "no table"))
