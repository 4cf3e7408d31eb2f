"""Image folders that cannot be trained on are refused by `validate`, before anything runs."""

from pathlib import Path

import pytest

from scalecurve.checks.validation import validate

EXPERIMENT = """\
apiVersion: scalecurve.dev/v1alpha1
kind: ScalingExperiment
metadata: {name: fruits}
spec:
  scaling: {modes: [weak], workers: [1], batch: {perWorker: 4}}
  workload:
    program: torch
    model: resnet18
    data: {source: image-folder, path: FOLDER, validation: SHARE}
"""


def messages(folder: Path, files: list[str], share: str = "null") -> list[str]:
    for file in files:
        (folder / "fruits" / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / "fruits" / file).touch()
    path = folder / "fruits.yaml"
    path.write_text(EXPERIMENT.replace("FOLDER", str(folder / "fruits")).replace("SHARE", share))
    (checked,) = validate([path])
    return [problem.message for problem in checked.problems]


@pytest.mark.parametrize(
    ("files", "share"),
    [
        (["train/apple/1.jpg", "train/pear/1.jpg", "test/apple/1.jpg"], "null"),  # as Kaggle has Fruits-360
        (["train/apple/1.jpg", "test/apple/1.jpg"], "0.2"),
        (["train/apple/1.jpg", "test/1.jpg"], "0.2"),  # a test set without labels
        (["train/apple/1.jpg", "val/apple/1.jpg"], "null"),
        (["apple/1.jpg", "pear/1.jpg"], "0.2"),
        ([], "null"),  # on another machine
    ],
)
def test_folders_that_train(tmp_path: Path, files: list[str], share: str):
    assert messages(tmp_path, files, share) == []


@pytest.mark.parametrize(
    ("files", "share", "part"),
    [
        (["train/apple/1.jpg"], "null", "data.validation set to the share to hold out"),
        (["train/apple/1.jpg", "test/1.jpg"], "null", "images in test have no folders of classes"),
        (["train/apple/1.jpg", "val/pear/1.jpg"], "null", "val/pear is none of them"),
        (["train/apple/1.jpg", "val/apple/1.jpg"], "0.2", "remove it"),
        (["apple/1.jpg"], "null", "or data.validation set to the share of <class>/<image>"),
        (["train/1.jpg"], "0.2", "or with <class>/<image>"),
    ],
)
def test_folders_that_cannot(tmp_path: Path, files: list[str], share: str, part: str):
    (text,) = messages(tmp_path, files, share)
    assert part in text
