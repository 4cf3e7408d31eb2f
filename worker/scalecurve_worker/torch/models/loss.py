"""The loss that training minimizes."""

from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor


class AuxiliaryLogits(NamedTuple):
    """Output, in training mode, of a network with auxiliary classifiers: its logits and theirs."""

    logits: Tensor
    auxiliary: tuple[Tensor, ...]


def cross_entropy(logits: Tensor, target: Tensor, *, smoothing: float = 0.0) -> Tensor:
    """Mean cross entropy: logits (batch, classes) or (batch, length, classes), target without the last axis.

    ``smoothing`` is the share of each target spread over all classes alike: C. Szegedy et al., CVPR 2016,
    arXiv:1512.00567, section 7.
    """
    return F.cross_entropy(logits.flatten(0, -2), target.flatten(), label_smoothing=smoothing)


def training_loss(
    output: Tensor | AuxiliaryLogits, target: Tensor, *, auxiliary_weight: float = 0.3, smoothing: float = 0.0
) -> Tensor:
    """Cross entropy of the logits against smoothed labels, plus the weighted one of each auxiliary classifier, if any.

    0.3 is the weight of section 5 of C. Szegedy et al., "Going deeper with convolutions", CVPR 2015; a model's own
    weight is ``ModelEntry.auxiliary_weight``.
    """
    if isinstance(output, AuxiliaryLogits):
        loss = cross_entropy(output.logits, target, smoothing=smoothing)
        for logits in output.auxiliary:
            loss = loss + auxiliary_weight * cross_entropy(logits, target, smoothing=smoothing)
        return loss
    return cross_entropy(output, target, smoothing=smoothing)
