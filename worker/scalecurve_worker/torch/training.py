"""One optimizer update."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from scalecurve_api.programs.workload import Precision
from scalecurve_worker.torch.data import Batch
from scalecurve_worker.torch.device import autocast, scaler_for
from scalecurve_worker.torch.models import AuxiliaryLogits, training_loss
from scalecurve_worker.torch.strategies import WrappedModel


class Trainer:
    """A wrapped model with its optimizer, and its arithmetic."""

    def __init__(
        self,
        wrapped: WrappedModel,
        forward: Callable[[Tensor], Any],
        precision: Precision,
        device: torch.device,
        auxiliary_weight: float = 0.3,
        smoothing: float = 0.0,
        loss: Callable[..., Tensor] = training_loss,
    ) -> None:
        """``forward`` is the module to call: the wrapped one, or its compiled form; ``smoothing`` is that of labels.

        ``loss`` is :func:`training_loss`, or its compiled form.
        """
        self.wrapped = wrapped
        self.forward = forward
        self.optimizer = wrapped.optimizer
        self.scaler = scaler_for(precision, device)
        self.watch: Callable[[Tensor, Tensor], None] | None = None
        """Called with the logits and targets of every micro-batch; nothing watches a timed window."""
        self.after_backward: Callable[[int, int], None] | None = None
        """Called after each backward pass with the micro-batch's index and their number; likewise."""
        self._learning = wrapped.learns_graph
        self._precision = precision
        self._device = device
        self._auxiliary_weight = auxiliary_weight
        self._smoothing = smoothing
        self._loss = loss

    def update(self, batches: list[Batch], communicate: bool = True) -> Tensor:
        """One step over micro-batches of equal size; their mean loss, a scalar on the device.

        Gradients are reduced with the last micro-batch, or never where ``communicate`` is False. While DDP learns its
        static graph they are reduced with every one, which comes to the same sum: no_sync there is an internal error
        of torch (reducer.cpp, expect_autograd_hooks_).
        """
        # To None, as is torch's default; Horovod's has no such argument.
        self.optimizer.zero_grad()
        last = len(batches) - 1
        losses: list[Tensor] = []
        for index, batch in enumerate(batches):
            reduce = communicate and (index == last or self._learning)
            with nullcontext() if reduce else self.wrapped.no_sync():
                losses.append(self._accumulate(batch, len(batches)))
            if self.after_backward is not None:
                self.after_backward(index, len(batches))
        self._learning = False
        if self.scaler is None:
            self.optimizer.step()
        else:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        return losses[0] if last == 0 else torch.stack(losses).mean()

    def _accumulate(self, batch: Batch, parts: int) -> Tensor:
        inputs, targets = batch
        with autocast(self._precision, self._device):
            output = self.forward(inputs)
            loss = self._loss(output, targets, auxiliary_weight=self._auxiliary_weight, smoothing=self._smoothing)
        if self.watch is not None:
            self.watch(output.logits if isinstance(output, AuxiliaryLogits) else output, targets)
        share = loss if parts == 1 else loss / parts
        torch.autograd.backward(share if self.scaler is None else self.scaler.scale(share))
        return loss.detach()
