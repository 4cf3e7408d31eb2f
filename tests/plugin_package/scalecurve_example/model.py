"""A model for program torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scalecurve_api.programs.model_catalog import ModelEntry

if TYPE_CHECKING:
    from torch import nn

PERCEPTRON = ModelEntry(
    "perceptron",
    family="perceptron",
    shape=(1, 28, 28),
    classes=10,
    parameters=7850,
    torch="scalecurve_example.model:perceptron",
)


def perceptron(*, channels: int, classes: int) -> nn.Module:
    """One linear layer."""
    from torch import nn  # the catalog's entry needs no framework

    return nn.Sequential(nn.Flatten(1), nn.Linear(channels * 28 * 28, classes))
