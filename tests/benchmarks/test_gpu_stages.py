"""A stage of benchmarks/gpu/collect.sh with tiny models on CPUs: predictions recorded before their run, and scored."""

import os
import subprocess
from pathlib import Path

import pytest

from scalecurve.bundle.open import open_bundle
from scalecurve_models.projection.error_ledger import scores
from tools.landings import ROOT

pytestmark = pytest.mark.processes


def test_batches_are_predicted_before_they_run(tmp_path: Path) -> None:
    path = f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}"
    settings = {"SMALL": "1", "MODELS": "gpt2-small", "WORK": str(tmp_path / "work"), "PATH": path}
    done = subprocess.run(
        ["benchmarks/gpu/collect.sh", "batches", str(tmp_path / "out")],
        cwd=ROOT,
        env={**os.environ, **settings, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    scored = scores(open_bundle(tmp_path / "out" / "batches-gpt2-small.zip"))
    assert {(each.model, each.predicted.series[-2:], each.before) for each in scored} == {
        (model, batch, True) for model in ("linear", "roofline") for batch in ("32", "64")
    }
