"""Folders of images: which files train, validate and test."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from scalecurve_worker.training.data.image_list import has_test, list_images
from scalecurve_worker.training.data.images import DataError, FolderSplit


def write(root: Path, *splits: str, count: int = 10) -> Path:
    for split in splits:
        for name in ("ant", "bee"):
            folder = root / split / name
            folder.mkdir(parents=True)
            for item in range(count):
                (folder / f"{item:02}.jpg").touch()
    return root


def files(root: Path, split: FolderSplit, validation: float | None = None, seed: int = 0) -> set[str]:
    images = list_images(root, split, validation=validation, split_seed=seed)
    return {str(images.file(index).relative_to(root)) for index in range(len(images))}


def test_a_share_of_train_validates_and_test_is_left(tmp_path: Path) -> None:
    """The folders of a Keras lab: train and test, and validation_split=0.2."""
    root = write(tmp_path, "train", "test")
    train, val, test = (files(root, split, 0.2) for split in ("train", "val", "test"))
    assert (len(train), len(val), len(test)) == (16, 4, 20)
    assert Counter(name.split("/")[1] for name in val) == {"ant": 2, "bee": 2}
    assert train | val == {str(file.relative_to(root)) for file in (root / "train").rglob("*.jpg")}
    assert all(name.startswith("test/") for name in test)
    assert files(root, "val", 0.2, seed=1) != val
    assert has_test(root, 0.2)


def test_without_a_share_test_validates(tmp_path: Path) -> None:
    root = write(tmp_path, "train", "test")
    assert files(root, "val") == files(root, "test")
    assert len(files(root, "train")) == 20
    # What training is validated on is no test any more.
    assert not has_test(root, None)


def test_three_folders_are_three_splits(tmp_path: Path) -> None:
    root = write(tmp_path, "train", "val", "test")
    assert all(name.startswith("val/") for name in files(root, "val"))
    assert has_test(root, None)
    with pytest.raises(DataError, match=r": has train and val; validation 0.2 is for a folder without val$"):
        list_images(root, "train", validation=0.2)


def test_a_test_folder_without_labels_is_none(tmp_path: Path) -> None:
    root = write(tmp_path, "train")
    (root / "test").mkdir()
    (root / "test" / "1.jpg").touch()
    assert not has_test(root, 0.2)
    assert len(files(root, "val", 0.2)) == 4
    with pytest.raises(DataError, match=r"/val: no such folder; image-folder reads "):
        list_images(root, "val")


def test_a_class_of_test_must_be_one_of_train(tmp_path: Path) -> None:
    root = write(tmp_path, "train", "test")
    (root / "test" / "cat").mkdir()
    with pytest.raises(DataError, match=r"test/cat: .*train has no class of that name"):
        list_images(root, "test", validation=0.2)


def test_classes_alone_have_neither_test_nor_train(tmp_path: Path) -> None:
    root = write(tmp_path, ".")
    assert (len(files(root, "train", 0.3)), len(files(root, "val", 0.3))) == (14, 6)
    assert not has_test(root, 0.3)
