"""What a training to accuracy says of its data, and folders of which a share is held out."""

from __future__ import annotations

from base64 import b64decode
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from scalecurve_api.programs.data import Augmentation
from scalecurve_api.programs.labels import Pictures, PseudoLabels, TrainingLabels
from scalecurve_api.record.facts.dataset import Picture
from scalecurve_worker.torch.data import DataError, DataOptions, Loader, dataset_facts, open_data
from scalecurve_worker.training.data.image_list import list_images
from scalecurve_worker.training.data.small_sets import read_digits


def pixels(picture: Picture, which: str) -> np.ndarray[Any, Any]:
    return np.frombuffer(b64decode(getattr(picture, which)), np.uint8).reshape(picture.shape)


def facts(source: str, options: DataOptions, **arguments: Any) -> Any:
    train, val = (open_data(source, batch=4, split=split, options=options, **arguments) for split in ("train", "val"))
    return dataset_facts(train, val)


def test_digits_are_counted_and_shown() -> None:
    found = facts("digits", DataOptions(augmentation=Augmentation.none, cutout=3, instances=2))
    labels = read_digits("train").labels.tolist()
    assert (found.train, found.val) == (1438, 359)
    assert found.class_counts == [Counter(labels)[digit] for digit in range(10)]
    assert found.class_names == list("0123456789")
    assert [picture.label for picture in found.pictures] == list(range(8))
    for picture in found.pictures:
        original, trained = pixels(picture, "original"), pixels(picture, "trained")
        stored = read_digits("train").images[labels.index(picture.label)]
        assert np.array_equal(original, np.round(stored * (255 / 16)))
        mean = round(255 / 16 * read_digits("train").mean[0])
        changed = trained != original
        assert 0 < changed.sum() <= 9
        assert (trained[changed] == mean).all()


def test_large_pictures_become_small_and_grey_ones_colour() -> None:
    found = facts("digits", DataOptions(), shape=(3, 64, 48))
    assert {tuple(picture.shape) for picture in found.pictures} == {(3, 32, 24)}
    assert len(b64decode(found.pictures[0].original)) == len(b64decode(found.pictures[0].trained)) == 3 * 32 * 24


def test_synthetic_data_have_sizes_alone() -> None:
    found = facts("synthetic", DataOptions(), shape=(3, 8, 8), classes=4)
    assert (found.train, found.pictures, found.class_counts) == (16, [], [])


def write_classes(root: Path, counts: dict[str, int]) -> None:
    for number, (name, count) in enumerate(counts.items()):
        (root / name).mkdir(parents=True)
        for item in range(count):
            Image.new("RGB", (20, 16), (40 * number, 10 * item, 99)).save(root / name / f"{item:03}.png")


def test_a_share_of_each_class_is_held_out(tmp_path: Path) -> None:
    write_classes(tmp_path, {"001.ant": 10, "002.bee": 5, "257.cat": 2})
    options = DataOptions(validation=0.2, loaders=0)
    found = facts("image-folder", options, path=tmp_path, shape=(3, 8, 8))
    assert (found.train, found.val) == (8 + 4 + 1, 2 + 1 + 1)
    assert (found.class_counts, found.class_names) == ([8, 4, 1], ["001.ant", "002.bee", "257.cat"])
    assert [tuple(picture.shape) for picture in found.pictures] == [(3, 8, 8)] * 3
    assert pixels(found.pictures[2], "original")[0].max() == 80
    train, val = (list_images(tmp_path, split, validation=0.2) for split in ("train", "val"))
    names = [*train.names.tolist(), *val.names.tolist()]
    assert len(set(names)) == len(names) == 17
    assert all(train.file(index).is_file() for index in range(len(train)))
    other = list_images(tmp_path, "val", validation=0.2, split_seed=1)
    assert other.names.tolist() != val.names.tolist()
    assert Counter(other.labels.tolist()) == Counter(val.labels.tolist())


@settings(max_examples=25)
@given(counts=st.lists(st.integers(2, 30), min_size=1, max_size=4), share=st.floats(0.01, 0.99), seed=st.integers(0, 9))
def test_any_split_leaves_both_parts_something(
    tmp_path_factory: pytest.TempPathFactory, counts: list[int], share: float, seed: int
) -> None:
    root = tmp_path_factory.mktemp("classes")
    for number, count in enumerate(counts):
        (root / f"{number}").mkdir()
        for item in range(count):
            (root / f"{number}" / f"{item}.jpg").touch()
    train, val = (list_images(root, split, validation=share, split_seed=seed) for split in ("train", "val"))
    again = list_images(root, "val", validation=share, split_seed=seed)
    assert again.names.tolist() == val.names.tolist()
    assert not set(train.names.tolist()) & set(val.names.tolist())
    for number, count in enumerate(counts):
        held = int((val.labels == number).sum())
        assert held + int((train.labels == number).sum()) == count
        assert abs(held - share * count) <= 1
        assert 1 <= held < count


def test_a_folder_of_the_other_form_is_named(tmp_path: Path) -> None:
    def message(**arguments: Any) -> str:
        with pytest.raises(DataError) as caught:
            list_images(tmp_path, "train", **arguments)
        return str(caught.value)

    write_classes(tmp_path, {"ant": 3, "bee": 1})
    assert message(validation=0.5).startswith(f"{tmp_path}/bee: holds one image; validation 0.5 needs at least two")
    assert f"or {tmp_path}/<class>/<image> with validation set to the share to hold out" in message()
    (tmp_path / "train").mkdir()
    (tmp_path / "val").mkdir()
    assert message(validation=0.5).startswith(f"{tmp_path}: has train and val; validation 0.5 is for")


def test_instances_of_a_file_are_cropped_anew(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    for split in ("train", "val"):
        (tmp_path / split / "ant").mkdir(parents=True)
        for item in range(4):
            Image.fromarray(random.integers(0, 256, (40, 40, 3), dtype=np.uint8)).save(
                tmp_path / split / "ant" / f"{item}.png"
            )

    def epoch(instances: int, cutout: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
        options = DataOptions(instances=instances, cutout=cutout, loaders=0)
        return next(iter(open_data("image-folder", path=tmp_path, batch=4, shape=(3, 12, 12), options=options)))

    (once, labels), (thrice, same) = epoch(1), epoch(3)
    assert thrice.shape == (12, 3, 12, 12)
    assert torch.equal(thrice[:4], once)
    assert torch.equal(same, labels.repeat(3))
    assert not torch.equal(thrice[4:8], once)
    cut, _ = epoch(3, cutout=5)
    assert torch.equal(cut[cut != 0], thrice[cut != 0])
    assert ((cut == 0).all(1).flatten(1).sum(1) <= 25).all()
    assert (cut == 0).flatten(1).any(1).all()


def test_labels_are_changed_for_training_alone_and_counted() -> None:
    request = TrainingLabels(imbalance=10.0, noise=0.25)
    changed = facts("digits", DataOptions(labels=request))
    stored = facts("digits", DataOptions())
    assert changed.labels is not None
    assert changed.labels.stored_counts == stored.class_counts
    assert changed.train == changed.labels.distinct == 1438 - changed.labels.left_out
    assert changed.labels.flipped == round(0.25 * changed.train)
    assert changed.val == stored.val
    assert stored.labels is None


def test_every_rank_trains_on_the_same_changed_labels() -> None:
    options = DataOptions(labels=TrainingLabels(noise=0.5))
    ranks = [open_data("digits", batch=4, rank=rank, world=2, seed=rank, options=options) for rank in (0, 1)]
    first, second = (loader.labels_of_all for loader in ranks)
    assert first is not None
    assert second is not None
    assert first.tolist() == second.tolist()


def test_a_teacher_sees_images_without_labels_as_validation_does() -> None:
    seen = []

    def teacher(unlabeled: Loader) -> torch.Tensor:
        seen.append(torch.cat([inputs for inputs, _ in unlabeled]))
        return torch.eye(10)[torch.arange(len(seen[0])) % 10]

    pseudo = PseudoLabels(teacher="by-hand.pt", per_class=7)
    options = DataOptions(
        augmentation=Augmentation.standard,
        labels=TrainingLabels(labeled=0.1, pseudo_labels=pseudo),
        teacher=teacher,
    )
    training = open_data("digits", batch=4, rank=1, world=2, options=options)
    assert training.label_facts is not None
    assert len(seen[0]) == training.label_facts.unlabeled == 1438 - (training.spec.items - 70)
    assert training.label_facts.pseudo_labeled == 70


def test_pictures_of_chosen_classes() -> None:
    train, val = (open_data("digits", batch=4, split=split) for split in ("train", "val"))
    chosen = dataset_facts(train, val, Pictures(classes=["7", "2"], per_class=2))
    assert [picture.label for picture in chosen.pictures] == [7, 7, 2, 2]
    with pytest.raises(DataError, match="'seven' is no class of the training set"):
        dataset_facts(train, val, Pictures(classes=["seven"]))


def test_no_picture_is_kept_where_none_of_a_class_is_shown() -> None:
    train, val = (open_data("digits", batch=4, split=split) for split in ("train", "val"))
    found = dataset_facts(train, val, Pictures(per_class=0))
    assert (found.pictures, sum(found.class_counts)) == ([], 1438)
