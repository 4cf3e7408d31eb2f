"""Stages of benchmarks/gpu/collect.sh with tiny models on CPUs: predictions recorded before their run, and scored."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from benchmarks.gpu.llama_block import score
from scalecurve.bundle.open import open_bundle
from scalecurve_models.projection.error_ledger import scores
from tools import ROOT

pytestmark = pytest.mark.processes


def run_stage(stage: str, tmp_path: Path, **settings: str) -> None:
    """Run a stage in its small form; its output is in ``out``."""
    path = f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}"
    settings = {"SMALL": "1", "WORK": str(tmp_path / "work"), "PATH": path, **settings}
    done = subprocess.run(
        ["benchmarks/gpu/collect.sh", stage, str(tmp_path / "out")],
        cwd=ROOT,
        env={**os.environ, **settings, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_batches_are_predicted_before_they_run(tmp_path: Path) -> None:
    run_stage("batches", tmp_path, MODELS="gpt2-small")
    scored = scores(open_bundle(tmp_path / "out" / "batches-gpt2-small.zip"))
    assert {(each.model, each.predicted.series[-2:], each.before) for each in scored} == {
        (model, batch, True) for model in ("linear", "roofline") for batch in ("32", "64")
    }


def test_another_model_is_predicted_before_it_runs_and_a_block_timed(tmp_path: Path) -> None:
    run_stage("models", tmp_path, PREDICTED="vgg16")
    scored = scores(open_bundle(tmp_path / "out" / "models-vgg16.zip"))
    assert [(each.model, each.before) for each in scored] == [("projection", True)]
    block = json.loads((tmp_path / "out" / "llama-block.json").read_text())
    assert block["eager"]["one_s"] > 0
    rates = [{"workers": 8, "mode": "eager", "tokens": 1000.0}]
    assert "| FSDP | 8 | 1,000 |" in score({"rows": rates})
