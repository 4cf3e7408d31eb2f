"""A bundle as points of a corpus."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalecurve.bundle.open import open_bundles
from scalecurve_corpus.corpus_file import read_corpus, write_corpus
from scalecurve_corpus.from_bundle import corpus_of
from scalecurve_corpus.schema import CorpusError


def test_every_measured_point_has_a_run_for_each_repetition(tmp_path: Path):
    (bundle,) = open_bundles(["docs/evidence/gpu/sessions.zip"])
    made = corpus_of(bundle, "our-cluster", "2026-11-25")
    assert [(p.system, p.workers, len(p.runs)) for p in made.points] == [
        ("resnet50-h200, strong", 1, 9),
        ("resnet50-h200, strong", 2, 9),
        ("resnet50-h200, weak", 1, 9),
        ("resnet50-h200, weak", 2, 9),
    ]
    first = made.points[0]
    assert (first.benchmark, first.device, first.global_batch, first.precision) == ("resnet50", "H100", 256, "bf16")
    assert all(3800 < rate < 4000 for rate in first.rates)
    assert "torch 2" in first.software
    write_corpus(made, tmp_path / "own.corpus")
    assert read_corpus(tmp_path / "own.corpus") == made


def test_a_bundle_without_a_model_is_refused():
    (bundle,) = open_bundles(["docs/evidence/gpu/collectives.zip"])
    with pytest.raises(CorpusError, match="no point"):
        corpus_of(bundle, "our-cluster", "2026-11-25")
