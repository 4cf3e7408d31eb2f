"""What a model gives in training, and the loss that training minimises."""

from __future__ import annotations

from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor


class AuxiliaryLogits(NamedTuple):
    """Output, in training mode, of a network with auxiliary classifiers: its logits and theirs."""

    logits: Tensor
    auxiliary: tuple[Tensor, ...]


def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """Mean cross entropy: logits (batch, classes) or (batch, length, classes), target without the last axis."""
    return F.cross_entropy(logits.flatten(0, -2), target.flatten())


def training_loss(output: Tensor | AuxiliaryLogits, target: Tensor, *, auxiliary_weight: float = 0.3) -> Tensor:
    """Cross entropy of the logits, plus the weighted one of each auxiliary classifier if there are any.

    0.3 is the weight of section 5 of C. Szegedy et al., "Going deeper with convolutions", CVPR 2015; a model's own
    weight is ``ModelSpec.auxiliary_weight``.
    """
    if isinstance(output, AuxiliaryLogits):
        loss = cross_entropy(output.logits, target)
        for logits in output.auxiliary:
            loss = loss + auxiliary_weight * cross_entropy(logits, target)
        return loss
    return cross_entropy(output, target)
