"""scikit-learn's digits: the same everywhere, standardised, and learnable."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from scalecurve_worker.torch.data import open_data
from scalecurve_worker.torch.models import build, training_loss
from scalecurve_worker.training.data.small_sets import read_digits


def test_digits_are_scikit_learns_own_in_a_fixed_split() -> None:
    from sklearn.datasets import load_digits

    bunch = load_digits()
    train, val = read_digits("train"), read_digits("val")
    assert (len(train.labels), len(val.labels)) == (1438, 359)

    def rows(images: Any, labels: Any) -> list[tuple[int, ...]]:
        flat = np.column_stack([np.asarray(images).reshape(len(labels), -1), labels]).astype(int)
        return sorted(tuple(row) for row in flat.tolist())

    together = rows(np.concatenate([train.images, val.images]), np.concatenate([train.labels, val.labels]))
    assert together == rows(bunch.data, bunch.target)
    assert set(val.labels.tolist()) == set(range(10))
    assert train.mean == val.mean  # of the training part for both


def test_digits_are_standardised_and_upsampled() -> None:
    (plain, labels), (upsampled, same_labels) = (
        next(iter(open_data("digits", batch=1438, shape=shape))) for shape in ((1, 8, 8), (3, 32, 32))
    )
    assert plain.mean().item() == pytest.approx(0, abs=1e-4)
    assert plain.std().item() == pytest.approx(1, abs=1e-3)
    assert torch.equal(labels, same_labels)
    assert torch.equal(upsampled[:, 0], upsampled[:, 2])
    expected = F.interpolate(plain, size=(32, 32), mode="bilinear")
    torch.testing.assert_close(upsampled[:, :1], expected)


def test_digits_can_be_learnt() -> None:
    torch.manual_seed(0)
    model = build("mlp", classes=10, input_shape=(1, 8, 8), hidden=(64,))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for x, y in itertools.islice(open_data("digits", batch=32).endless(), 44 * 6):
        optimizer.zero_grad()
        torch.autograd.backward(training_loss(model(x), y))
        optimizer.step()
    right = total = 0
    with torch.no_grad():
        for rank in range(3):
            for x, y in open_data("digits", batch=50, split="val", rank=rank, world=3):
                right += int((model(x).argmax(1) == y).sum())
                total += len(y)
    assert total == 359
    assert right / total > 0.95
