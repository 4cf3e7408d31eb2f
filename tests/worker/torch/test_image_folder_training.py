"""A folder with train and test, in the torch program: a share of train validates, and test is judged once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from scalecurve_api.contract import OUT_ENV
from scalecurve_api.features.accuracy.facts import EVALUATIONS
from scalecurve_api.record.facts.dataset import DATASET
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_worker.torch.program import run
from tests.worker.forked_ranks import fork_ranks
from tests.worker.worker_ranks import SCRIPTS, make_trial, records

COLORS = {"blue": (30, 40, 220), "green": (20, 210, 40), "red": (220, 30, 40)}
AUGMENTED = {"augmentation": "flip", "rotation": 15, "shift": 0.1, "zoom": 0.1, "cutout": 2, "instances": 2}


def write_colors(root: Path) -> Path:
    """Fifteen noisy images of each color to train on, and four to test."""
    random = np.random.default_rng(0)
    for split, count in (("train", 15), ("test", 4)):
        for name, color in COLORS.items():
            folder = root / split / name
            folder.mkdir(parents=True)
            for item in range(count):
                noise = random.normal(0, 30, (20, 24, 3))
                pixels = (np.array(color) + noise).clip(0, 255).astype(np.uint8)
                Image.fromarray(pixels).save(folder / f"{item}.jpg")
    return root


def asked(root: Path, workers: int, **workload: object) -> TrialSpec:
    data = {"source": "image-folder", "path": str(root), "shape": [3, 8, 8], "validation": 0.2, **AUGMENTED}
    return make_trial(
        workers,
        workload={"data": data, "optimizer": {"name": "adam", "learningRate": 0.001}, **workload},
        measure={"accuracy": {"epochs": 3}, "exposedCommunication": False, "maxForeignLoad": 1},
    )


def test_one_worker_tests_once_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OUT_ENV, str(tmp_path))
    run(asked(write_colors(tmp_path / "images"), 1, strategy="single"))
    (record,) = records(tmp_path, 1)
    data = DATASET.of(record)
    assert data is not None
    assert (data.train, data.val, data.test) == (36, 9, 12)
    assert data.class_names == sorted(COLORS)
    assert data.test_accuracy is not None
    # A third is chance.
    assert data.test_accuracy > 0.6
    assert EVALUATIONS.of(record)[-1].accuracy > 0.6
    assert record.options["instances"] == 2


@pytest.mark.processes
def test_two_workers_share_the_test_set(tmp_path: Path) -> None:
    root = write_colors(tmp_path / "images")
    fork_ranks(tmp_path, 2, SCRIPTS / "built_in.py", trial=asked(root, 2))
    first, second = records(tmp_path, 2)
    assert first.parameter_checksum == second.parameter_checksum
    data = DATASET.of(first)
    assert data is not None
    assert (data.test, DATASET.of(second)) == (12, None)
    assert data.test_accuracy is not None
    assert data.test_accuracy > 0.6
