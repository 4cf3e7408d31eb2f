"""Cutout, standard augmentation and batch augmentation: by hand, and what holds of every draw."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from scalecurve_api.programs.data import Augmentation
from scalecurve_worker.torch.data import DataError, DataOptions, open_data
from scalecurve_worker.torch.data.augment import crop_and_flip, cut_out, warp


class Scripted:
    """Stands in for ``torch.randint`` with the corners and centres that a case by hand has."""

    def __init__(self, *draws: list[int]) -> None:
        self.draws = [torch.tensor(draw).view(-1, 1) for draw in draws]

    def __call__(self, *_: Any, **__: Any) -> torch.Tensor:
        return self.draws.pop(0)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(
    ("side", "centre", "rows", "columns"),
    [
        (1, (2, 3), (2, 3), (3, 4)),
        (3, (2, 2), (1, 4), (1, 4)),
        (3, (0, 4), (0, 2), (3, 5)),  # over the corner: what lies outside is lost
        (2, (2, 2), (1, 3), (1, 3)),
        (5, (2, 2), (0, 5), (0, 5)),
    ],
)
def test_a_square_lies_around_its_centre_and_ends_at_the_edges(
    monkeypatch: pytest.MonkeyPatch,
    side: int,
    centre: tuple[int, int],
    rows: tuple[int, int],
    columns: tuple[int, int],
) -> None:
    monkeypatch.setattr(torch, "randint", Scripted([centre[0]], [centre[1]]))
    x = torch.arange(1.0, 51.0).view(1, 2, 5, 5)
    expected = x.clone()
    expected[:, :, rows[0] : rows[1], columns[0] : columns[1]] = 0
    assert torch.equal(cut_out(x, side, generator()), expected)


@settings(max_examples=60)
@given(
    side=st.integers(1, 12), height=st.integers(1, 12), width=st.integers(1, 12), batch=st.integers(1, 6),
    seed=st.integers(0, 2**32),
)  # fmt: skip
def test_what_is_blotted_out_is_one_rectangle_no_larger_than_the_square(
    side: int, height: int, width: int, batch: int, seed: int
) -> None:
    x = torch.rand((batch, 2, height, width), generator=generator()) + 1
    found = cut_out(x, side, generator(seed))
    assert torch.equal(found, cut_out(x, side, generator(seed)))
    gone = found == 0
    assert torch.equal(found[~gone], x[~gone])
    assert torch.equal(gone[:, 0], gone[:, 1])
    for image in gone[:, 0]:
        tall, wide = int(image.any(1).sum()), int(image.any(0).sum())
        assert int(image.sum()) == tall * wide <= side * side
        # The centre is inside: at least half of the square, or all that the image has on the shorter side of it.
        assert min(-(-side // 2), height) <= tall <= min(side, height)
        assert min(-(-side // 2), width) <= wide <= min(side, width)


def test_every_pixel_is_as_often_a_centre() -> None:
    x = torch.ones((20_000, 1, 4, 5))
    hit = (cut_out(x, 1, generator()) == 0).sum(0)[0]
    # 1000 expected, deviation 31
    assert hit.sum() == 20_000
    assert 850 < hit.min() <= hit.max() < 1150


def test_a_crop_without_mirroring_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    corner = torch.tensor([[[0]], [[2]]])  # one row up, one column to the right
    monkeypatch.setattr(torch, "randint", lambda *_, **__: corner)
    images = torch.tensor([[[[1, 2, 3], [4, 5, 6], [7, 8, 9]]]], dtype=torch.uint8)
    found = crop_and_flip(images, generator(), pad=1, mirror=False)
    assert found.tolist() == [[[[0, 0, 0], [2, 3, 0], [5, 6, 0]]]]


OPTIONS = ("augmentation", "rotation", "shift", "zoom", "cutout", "instances")


def epoch(source: str = "digits", number: int = 0, **arguments: Any) -> tuple[torch.Tensor, torch.Tensor]:
    options = {name: arguments.pop(name) for name in OPTIONS if name in arguments}
    loader = open_data(source, **({"batch": 16} | arguments), options=DataOptions(**options))
    loader.set_epoch(number)
    batches = list(loader)
    return torch.stack([x for x, _ in batches[:6]]), torch.stack([y for _, y in batches[:6]])


SYNTHETIC = {"source": "synthetic", "shape": (3, 16, 16), "classes": 7}


@pytest.mark.parametrize("arguments", [{}, SYNTHETIC])
def test_one_instance_without_cutout_is_what_it_was(arguments: dict[str, Any]) -> None:
    (x, y), (again, same) = epoch(**arguments), epoch(**arguments, cutout=0, instances=1)
    assert torch.equal(x, again)
    assert torch.equal(y, same)


@pytest.mark.parametrize("arguments", [{}, SYNTHETIC])
@settings(max_examples=8)
@given(instances=st.integers(1, 5))
def test_a_batch_holds_each_of_its_samples_so_often(arguments: dict[str, Any], instances: int) -> None:
    plain, labels = epoch(**arguments)
    x, y = epoch(**arguments, instances=instances)
    assert x.shape == (len(plain), 16 * instances, *plain.shape[2:])
    # Copy by copy, so that as many micro-batches hold every sample once.
    for part in range(instances):
        assert torch.equal(y[:, part * 16 : (part + 1) * 16], labels)
        assert torch.equal(x[:, part * 16 : (part + 1) * 16], plain)
    spec = open_data(**({"batch": 16, "source": "digits"} | arguments)).spec
    assert spec == open_data(**({"batch": 16, "source": "digits"} | arguments), options=DataOptions(instances=4)).spec


@pytest.mark.parametrize("arguments", [{}, SYNTHETIC])
def test_copies_of_a_sample_are_augmented_differently(arguments: dict[str, Any]) -> None:
    x, _ = epoch(**arguments, instances=2, cutout=5, augmentation=Augmentation.standard)
    first, second = x[:, :16], x[:, 16:]
    different = (first != second).flatten(2).any(2)
    assert different.float().mean() > 0.8
    assert not torch.equal(x, epoch(**arguments, number=1, instances=2, cutout=5)[0])


def test_crops_are_the_same_with_cutout_and_without() -> None:
    plain, _ = epoch(augmentation=Augmentation.standard)
    cut, _ = epoch(augmentation=Augmentation.standard, cutout=3)
    assert torch.equal(cut[cut != 0], plain[cut != 0])
    assert (cut != plain).flatten(2).any(2).all()


def test_digits_move_by_one_pixel_and_are_not_mirrored() -> None:
    moved, _ = epoch(augmentation=Augmentation.standard)
    plain, _ = epoch()
    empty = plain.min()  # a pixel without ink, as it comes in at the edges
    framed = torch.nn.functional.pad(plain, (1, 1, 1, 1), value=float(empty))
    shifts = torch.stack([framed[..., top : top + 8, left : left + 8] for top in range(3) for left in range(3)])
    assert (shifts == moved).flatten(3).all(3).any(0).all()
    assert not torch.equal(moved, plain)


def test_validation_images_stay_clean() -> None:
    options = DataOptions(augmentation=Augmentation.standard, cutout=4, instances=3)
    clean = list(open_data("digits", batch=50, split="val"))
    for (x, y), (again, same) in zip(clean, open_data("digits", batch=50, split="val", options=options), strict=True):
        assert torch.equal(x, again)
        assert torch.equal(y, same)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"cutout": 9}, "digits: cutout 9: images have 8x8 pixels"),
        (SYNTHETIC | {"cutout": 17}, "synthetic: cutout 17: images have 16x16 pixels"),
        (
            SYNTHETIC | {"shape": (20,), "instances": 2},
            "synthetic: shape [20]: augmentation, rotation, shift, zoom, cutout",
        ),
        (SYNTHETIC | {"shape": (20,), "augmentation": Augmentation.standard}, "synthetic: shape [20]: augmentation, "),
    ],
)
def test_what_images_cannot_go_through_is_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError) as caught:
        epoch(**arguments)
    assert message in str(caught.value)


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32), height=st.integers(1, 9), width=st.integers(1, 9))
def test_every_augmented_image_is_a_padded_crop_perhaps_mirrored(seed: int, height: int, width: int) -> None:
    random = torch.Generator().manual_seed(seed)
    images = torch.randint(1, 256, (3, 2, height, width), dtype=torch.uint8, generator=random)
    padded = F.pad(images, (4, 4, 4, 4))
    for result, source in zip(crop_and_flip(images, random), padded, strict=True):
        crops = [source[:, top : top + height, left : left + width] for top in range(9) for left in range(9)]
        assert any(torch.equal(result, crop) or torch.equal(result, crop.flip(2)) for crop in crops)


def test_a_quarter_turn_a_shift_and_a_scaling_by_hand() -> None:
    images = torch.arange(16, dtype=torch.uint8).reshape(1, 1, 4, 4)
    still = torch.tensor([[[1.0, 0, 0], [0, 1, 0]]])
    assert torch.equal(warp(images, still), images.float())
    turn = torch.tensor([[[0.0, -1, 3], [1, 0, 0]]])  # column 3 - row, row = column
    assert torch.allclose(warp(images, turn)[0, 0], torch.rot90(images[0, 0].float(), 1, (0, 1)))
    right = torch.tensor([[[1.0, 0, -1], [0, 1, 0]]])  # each pixel from its left neighbor, the edge from itself
    expected = images[0, 0].float()[:, [0, 0, 1, 2]]
    assert torch.allclose(warp(images, right)[0, 0], expected)
    half = torch.tensor([[[0.5, 0, 0], [0, 1, 0]]])
    assert torch.allclose(warp(images, half)[0, 0, 0], torch.tensor([0.0, 0.5, 1.0, 1.5]))


@pytest.mark.parametrize("arguments", [{}, SYNTHETIC])
def test_images_are_warped_by_item_and_anew_in_each_epoch(arguments: dict[str, Any]) -> None:
    options = {"rotation": 25.0, "shift": 0.1, "zoom": 0.2}
    (plain, labels), (x, y) = epoch(**arguments), epoch(**arguments, **options)
    assert torch.equal(y, labels)
    assert (x != plain).flatten(2).any(2).float().mean() > 0.9
    assert torch.equal(x, epoch(**arguments, **options)[0])
    assert not torch.equal(x, epoch(**arguments, number=1, **options)[0])
    # Copies are turned apart.
    copied, _ = epoch(**arguments, instances=2, **options)
    assert (copied[:, :16] != copied[:, 16:]).flatten(2).any(2).float().mean() > 0.9


def test_flip_mirrors_half_of_the_images_and_moves_none() -> None:
    flipped, _ = epoch(augmentation=Augmentation.flip)
    plain, _ = epoch()
    same = (flipped == plain).flatten(2).all(2)
    mirrored = (flipped == plain.flip(-1)).flatten(2).all(2)
    assert (same | mirrored).all()
    assert 0.2 < mirrored.float().mean() < 0.8
