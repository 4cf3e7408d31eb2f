"""Rotations, shifts and scalings: drawn by item, about the middle, within their bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalecurve_api.programs.data import TrainingData
from scalecurve_worker.training.data.augmentation import Augment, Warps, augment_for
from scalecurve_worker.training.data.images import DataError

HEIGHT, WIDTH = 20, 30


def matrices(augment: Augment, items: list[int], *, seed: int = 0, epoch: int = 0) -> np.ndarray[Any, Any]:
    return Warps(augment, 50, seed, epoch).matrices(np.array(items), HEIGHT, WIDTH)


@given(rotation=st.floats(0, 180), shift=st.floats(0, 0.99), zoom=st.floats(0, 0.9), seed=st.integers(0, 9))
def test_every_draw_is_within_its_bounds(rotation: float, shift: float, zoom: float, seed: int) -> None:
    drawn = matrices(Augment(rotation=rotation, shift=shift, zoom=zoom), list(range(50)), seed=seed).astype(np.float64)
    middle = np.array([(WIDTH - 1) / 2, (HEIGHT - 1) / 2])
    moved = drawn[:, :, :2] @ middle + drawn[:, :, 2] - middle
    assert (np.abs(moved) <= shift * np.array([WIDTH, HEIGHT]) + 1e-3).all()
    # Columns of the linear part are a rotation's, each over its scale.
    scales = 1 / np.linalg.norm(drawn[:, :, :2], axis=1)
    assert (np.abs(scales - 1) <= zoom + 1e-4).all()
    angles = np.degrees(np.arctan2(drawn[:, 1, 0], drawn[:, 0, 0]))
    assert (np.abs(angles) <= rotation + 1e-2).all()


def test_an_item_has_its_draw_whoever_gets_it() -> None:
    augment = Augment(rotation=30, shift=0.2, zoom=0.3)
    first = matrices(augment, [3, 7, 11])
    np.testing.assert_array_equal(matrices(augment, [7]), first[1:2])
    assert not np.allclose(matrices(augment, [7], epoch=1), first[1:2])
    assert not np.allclose(matrices(augment, [7], seed=1), first[1:2])


def test_copies_of_an_item_are_drawn_apart_and_laid_batch_after_batch() -> None:
    augment = Augment(rotation=30, instances=3)
    drawn = matrices(augment, [4, 9])
    assert drawn.shape == (6, 2, 3)
    np.testing.assert_array_equal(drawn[1::2], matrices(augment, [9]))
    assert len(np.unique(drawn[:, 0, 0])) == 6


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({}, Augment()),
        ({"augmentation": "standard"}, Augment(pad=1)),
        ({"augmentation": "flip"}, Augment(mirror=True)),
        ({"augmentation": "none", "rotation": 20, "shift": 0.1}, Augment(rotation=20, shift=0.1)),
        ({"cutout": 3, "instances": 2, "zoom": 0.2}, Augment(cutout=3, instances=2, zoom=0.2)),
    ],
)
def test_options_of_images_that_a_mirror_would_change(data: dict[str, Any], expected: Augment) -> None:
    assert augment_for("digits", TrainingData.model_validate(data), (1, 8, 8), size=(8, 8)) == expected


def test_options_of_images_that_may_be_mirrored() -> None:
    def given_by(name: str, **more: Any) -> Augment:
        options = TrainingData.model_validate({"augmentation": name})
        return augment_for("cifar10", options, (3, 32, 32), size=(32, 32), flips=True, **more)

    assert given_by("auto") == given_by("standard") == Augment(pad=4, mirror=True)
    assert given_by("flip") == Augment(mirror=True)
    assert given_by("none") == Augment()
    # A decoder does both.
    options = TrainingData.model_validate({"augmentation": "flip", "rotation": 5})
    assert augment_for("image-folder", options, (3, 8, 8), decoded=True) == Augment(rotation=5)


@pytest.mark.parametrize("data", [{"augmentation": "flip"}, {"rotation": 10}, {"instances": 2}])
def test_what_is_no_image_is_not_changed(data: dict[str, Any]) -> None:
    with pytest.raises(DataError, match=r"shape \[8\]: augmentation, rotation, shift, zoom, cutout and instances are"):
        augment_for("synthetic", TrainingData.model_validate(data), (8,))
