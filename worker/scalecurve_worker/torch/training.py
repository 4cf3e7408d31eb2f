"""One optimizer update."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from scalecurve_api.programs.workload import Precision
from scalecurve_worker.sdk.sections import Sections
from scalecurve_worker.torch.data import Batch
from scalecurve_worker.torch.device import autocast
from scalecurve_worker.torch.models import AuxiliaryLogits, training_loss
from scalecurve_worker.torch.strategies import WrappedModel

_PASSES = ("forward", "backward", "optimizer")
_UNTIMED: Mapping[str, AbstractContextManager[None]] = dict.fromkeys(_PASSES, nullcontext())


class Trainer:
    """A wrapped model with its optimizer, and its arithmetic."""

    def __init__(
        self,
        wrapped: WrappedModel,
        forward: Callable[[Tensor], Any],
        precision: Precision,
        device: torch.device,
        loss: Callable[[Any, Tensor], Tensor] = training_loss,
    ) -> None:
        """``forward`` is the wrapped module, or its compiled form, and ``loss`` :func:`training_loss` of its output."""
        self.wrapped = wrapped
        self.forward = forward
        self.optimizer = wrapped.optimizer
        # bf16 needs none.
        self.scaler = torch.amp.GradScaler(device.type) if precision is Precision.fp16 else None
        # Nothing watches a timed window: both are for trainings to accuracy.
        self.watch: Callable[[Tensor, Tensor], None] | None = None  # with each micro-batch's logits and targets
        self.after_backward: Callable[[int, int], None] | None = None  # with its index and the number of them
        self._sections = _UNTIMED
        self._learning = wrapped.learns_graph
        self._precision = precision if wrapped.autocast else Precision.fp32
        self._device = device
        self._loss = loss

    def update(self, batches: list[Batch], communicate: bool = True) -> Tensor:
        """Take one step over micro-batches of equal size; return their mean loss, a scalar on the device.

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
        with self._sections["optimizer"]:
            if self.scaler is None:
                self.optimizer.step()
            else:
                self.scaler.step(self.optimizer)
                self.scaler.update()
        return losses[0] if last == 0 else torch.stack(losses).mean()

    def watch_sections(self, sections: Sections) -> None:
        """Tell of the passes, and of waiting for parameter servers or Horovod, until ``sections`` is closed."""
        self._sections = {name: sections.section(name) for name in _PASSES}
        sections.seen |= set(_PASSES)
        sections.watch(self._rest)
        if self.wrapped.remote is not None:
            self.wrapped.remote.watch_sections(sections)

    def _rest(self) -> None:
        self._sections = _UNTIMED

    def autocast(self) -> AbstractContextManager[None]:
        """Return the context of a forward pass and its loss."""
        return autocast(self._precision, self._device)

    def _accumulate(self, batch: Batch, parts: int) -> Tensor:
        inputs, targets = batch
        with self._sections["forward"], self.autocast():
            output = self.forward(inputs)
            loss = self._loss(output, targets)
        if self.watch is not None:
            self.watch(output.logits if isinstance(output, AuxiliaryLogits) else output, targets)
        share = loss if parts == 1 else loss / parts
        with self._sections["backward"]:
            self.wrapped.backward(share if self.scaler is None else self.scaler.scale(share))
        return loss.detach()
