"""The study of docs/studies/fine-tuning.md, as it stands, small: an experiment for each framework, real runs, a report.

Minutes: every trial loads torch or TensorFlow, and builds a model of 20 layers.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.worker.features.horovod.horovod_ranks import reason
from tests.worker.features.tensorflow.tensorflow_ranks import needs_tensorflow

STUDIES = Path(__file__).parents[4] / "manifests" / "studies"
WHY = reason() or reason("tensorflow")
pytestmark = [
    pytest.mark.processes,
    pytest.mark.timeout(2400),
    needs_tensorflow,
    pytest.mark.skipif(bool(WHY), reason=WHY or "-"),
]
FRAMEWORKS = {"torch": "DistributedDataParallel", "horovod": "DistributedOptimizer"}
FRAMEWORKS |= {"tensorflow": "DistributedGradientTape"}


def scalecurve(folder: Path, *words: str | Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "scalecurve", *map(str, words)],
        cwd=folder,
        env={**os.environ, "SCALECURVE_LOCKS": str(folder / "locks")},
        capture_output=True,
        text=True,
        timeout=2000,
    )
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def records_of(bundle: Path) -> dict[str, dict[str, Any]]:
    """The record of each trial."""
    return {file.parent.name: json.loads(file.read_text()) for file in bundle.glob("trials/*/trial.json")}


def test_the_study_runs_alike_under_three_frameworks(tmp_path: Path) -> None:
    (tmp_path / "locks").mkdir()
    images = [sys.executable, str(STUDIES / "fine-tuning-tensorflow" / "images.py"), "results/images"]
    subprocess.run(images, cwd=tmp_path, check=True)
    pretrain = STUDIES / "fine-tuning-torch" / "pretrain.yaml"
    scalecurve(tmp_path, "run", "--quiet", pretrain, "--bundle", "pretrain")
    assert [path.name for path in (tmp_path / "pretrained").iterdir()] == ["weak-1-1x1-r1.pt"]
    for name, wrapper in FRAMEWORKS.items():
        study = STUDIES / f"fine-tuning-{name}"
        small = ("--overlay", study / "small.yaml")
        scalecurve(tmp_path, "run", "--quiet", study / "experiment.yaml", *small, "--bundle", name)
        found = records_of(tmp_path / name)
        assert {record["trial"]["point"]["workers"] for record in found.values()} == {1, 2}
        for trial, record in found.items():
            assert record["phase"] == "Succeeded", record["checks"]
            assert record["strategy"] == wrapper
            assert record["options"]["head"] == "new, for another number of classes"
            # The same files train, validate and test whatever the framework and the worker count.
            facts = {**record["dataset"], "pictures": [], "testAccuracy": 0}
            assert facts == {
                "train": 144,
                "val": 36,
                "test": 60,
                "testAccuracy": 0,
                "classCounts": [48] * 3,
                "classNames": ["across", "down", "square"],
                "pictures": [],
            }
            # Of three classes that are easy to tell apart.
            accuracies = [row["accuracy"] for row in record["evaluations"]]
            assert len(accuracies) == 3
            assert max(accuracies) > 0.6, (name, trial, accuracies)
            assert record["dataset"]["testAccuracy"] > 0.5, (name, trial)
        # Rank 0 alone writes, and what it wrote is the next experiment's checkpoint.
        written = sorted(path.name for path in (tmp_path / "trained" / name).iterdir())
        ending = "safetensors" if name == "tensorflow" else "pt"
        assert written == [f"{trial}.{ending}" for trial in sorted(found)]
    table = scalecurve(tmp_path, "training", *FRAMEWORKS, "--output", "json")
    assert all(f"fine-tuning-{name}-small" in table for name in FRAMEWORKS)
    scalecurve(tmp_path, "report", *FRAMEWORKS, "--out", "report", "--format", "html")
    (page,) = (tmp_path / "report").glob("*.html")
    assert "Test accuracy" in page.read_text()
