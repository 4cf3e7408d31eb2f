"""What every loader keeps, on data that need no folder; and how a wrong request is named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from scalecurve_worker.torch.data import DataError, DataOptions, Loader, open_data


def synthetic(**arguments: Any) -> Loader:
    return open_data("synthetic", **({"batch": 8, "shape": (3, 16, 16), "classes": 10} | arguments))


def test_synthetic_images_are_normal_deviates() -> None:
    loader = synthetic()
    for x, y in loader:
        assert x.shape == (8, 3, 16, 16)
        assert x.dtype == torch.float32
        assert x.mean().item() == pytest.approx(0, abs=0.1)
        assert x.std().item() == pytest.approx(1, abs=0.1)
        assert y.dtype == torch.int64
        assert 0 <= y.min() <= y.max() < 10
    assert len(loader) == 4
    assert (loader.spec.items, loader.spec.samples, loader.spec.samples_per_step) == (32, 32, 8)


def test_synthetic_batches_are_made_once() -> None:
    loader = synthetic()
    first = [x.data_ptr() for x, _ in loader]
    assert len(set(first)) == 4
    assert first == [x.data_ptr() for x, _ in loader]


def test_synthetic_data_depend_on_seed_rank_and_split_alone() -> None:
    def first(**arguments: Any) -> torch.Tensor:
        return next(iter(synthetic(**arguments)))[0]

    reference = first()
    assert torch.equal(first(), reference)
    for other in ({"seed": 1}, {"rank": 1, "world": 2}, {"split": "val"}):
        assert not torch.equal(first(**other), reference)


def test_synthetic_tokens_are_followed_by_the_next_token() -> None:
    loader = synthetic(shape=(6,), classes=50, options=DataOptions(kind="tokens"))
    x, y = next(iter(loader))
    assert x.shape == y.shape == (8, 6)
    assert torch.equal(x[:, 1:], y[:, :-1])
    assert 0 <= x.min() <= x.max() < 50
    assert x.is_contiguous()
    assert y.is_contiguous()
    assert loader.spec.samples_per_step == 8 * 6
    assert loader.spec.samples == 4 * 8 * 6


def test_inputs_come_in_the_asked_form() -> None:
    options = DataOptions(channels_last=True)
    for loader in (synthetic(options=options), open_data("digits", batch=4, shape=(3, 16, 16), options=options)):
        x, _ = next(iter(loader))
        assert x.is_contiguous(memory_format=torch.channels_last)
    x, _ = next(iter(synthetic(shape=(20,), options=options)))
    assert x.shape == (8, 20)


def test_the_global_random_state_is_not_touched() -> None:
    before = torch.get_rng_state()
    np_before = np.random.get_state()[1].copy()  # type: ignore[index,union-attr]
    for loader in (synthetic(), open_data("digits", batch=16)):
        for _ in loader:
            pass
    assert torch.equal(torch.get_rng_state(), before)
    assert np.array_equal(np.random.get_state()[1], np_before)  # type: ignore[index]


def test_endless_goes_through_the_epochs() -> None:
    loader = open_data("digits", batch=500)
    assert len(loader) == 2
    stream = loader.endless()
    taken = [next(stream)[1] for _ in range(4)]
    for epoch in (0, 1):
        loader.set_epoch(epoch)
        again = [y for _, y in loader]
        assert torch.equal(torch.stack(again), torch.stack(taken[2 * epoch : 2 * epoch + 2]))
    empty = open_data("digits", batch=1, split="val", rank=399, world=400)
    assert len(empty) == 0
    assert list(empty) == []
    with pytest.raises(DataError, match="digits: this worker has no item of the val split"):
        next(empty.endless())


def test_a_closed_loader_says_so() -> None:
    for loader in (synthetic(), open_data("digits", batch=16)):
        loader.close()
        with pytest.raises(DataError, match="this loader was closed"):
            iter(loader)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"source": "imagenet"}, "data source 'imagenet' is unknown; expected one of synthetic, digits"),
        ({"source": "digits", "split": "test"}, "digits: split 'test': expected train or val"),
        ({"source": "digits", "batch": 0}, "digits: batch 0, rank 0 of 1 workers"),
        ({"source": "digits", "rank": 2, "world": 2}, "rank 2 of 2 workers"),
        ({"source": "digits", "classes": 9}, "digits: classes 9: the set has 10"),
        ({"source": "digits", "shape": (64,)}, "digits: shape [64]: expected [channels, height, width]"),
        ({"source": "digits", "batch": 1439}, "1438 items do not fill one batch of 1439 on each of 1 workers"),
        ({"source": "synthetic"}, "synthetic: expected shape and classes"),
        (
            {"source": "synthetic", "shape": (3, 4), "classes": 5, "options": DataOptions(kind="tokens")},
            "synthetic: shape [3, 4]: tokens have [length]",
        ),
        ({"source": "cifar10"}, "cifar10: path: expected the folder that holds cifar-10-batches-py, unpacked from"),
        ({"source": "cifar10", "path": "/nowhere"}, "cifar10: path /nowhere: no such folder"),
    ],
)
def test_a_wrong_request_is_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError) as caught:
        open_data(**({"batch": 4} | arguments))
    assert message in str(caught.value)
