from __future__ import annotations

import pytest
import torch

from scalecurve_worker.torch.models.layers import AuxiliaryLogits, cross_entropy, training_loss


def test_smoothed_labels_by_hand() -> None:
    logits = torch.tensor([[2.0, 0.0, -1.0, 0.5]])
    log_p = torch.log_softmax(logits, 1)[0]
    # Of a share of 0.2, each of four classes gets 0.05.
    by_hand = -(0.8 * log_p[1] + 0.05 * log_p.sum())
    target = torch.tensor([1])
    assert training_loss(logits, target, smoothing=0.2).item() == pytest.approx(by_hand.item())
    assert torch.equal(training_loss(logits, target), cross_entropy(logits, target))
    both = AuxiliaryLogits(logits, (logits,))
    assert training_loss(both, target, auxiliary_weight=0.5, smoothing=0.2).item() == pytest.approx(
        1.5 * by_hand.item()
    )
