"""One server's share of the parameters, and the rule by which gradients change it."""

import threading
from collections import Counter
from typing import NamedTuple

import torch
from torch import Tensor, nn

from scalecurve_api.programs.optimizer import TorchOptimizer
from scalecurve_api.programs.torch import ParameterServerOptions, Updates
from scalecurve_api.record.rank import ServerCounts
from scalecurve_worker.torch.optimizers import make_optimizer


class PushReply(NamedTuple):
    """``version`` of the parameters that were copied out, and whether the gradient was used."""

    version: int
    used: bool


class ParameterShard:
    """Parameters with their optimizer; called by one thread for each worker."""

    def __init__(
        self, index: int, elements: int, workers: int, settings: ParameterServerOptions, rule: TorchOptimizer
    ) -> None:
        self._index = index
        self._settings = settings
        self._needed = max(1, workers - settings.backup_workers)
        self._parameters = nn.Parameter(torch.zeros(elements))
        self._optimizer = make_optimizer([self._parameters], rule)
        self._changed = threading.Condition()
        self._version = 0
        self._waiting: dict[int, Tensor] = {}
        self._gradients = 0
        self._dropped = 0
        self._staleness: Counter[int] = Counter()
        self._received = 0
        self._sent = 0

    def begin(self, parameters: Tensor) -> None:
        with self._changed:
            self._parameters.data.copy_(parameters)

    def fetch(self, into: Tensor) -> PushReply:
        with self._changed:
            return self._answer(into, used=True)

    def push(self, rank: int, gradient: Tensor, fetched: int, rate: float, into: Tensor) -> PushReply:
        """Use a worker's gradient, which was computed from version ``fetched``, and copy the parameters out.

        Synchronous: waits until the gradients of enough workers are there; one that comes after is dropped.
        Asynchronous: applied at once, whatever has changed since; staleness is the number of updates in between.
        """
        with self._changed:
            self._gradients += 1
            if self._settings.updates is Updates.asynchronous:
                self._apply_stale(gradient, fetched, rate)
                return self._answer(into, used=True)
            used = fetched == self._version
            if not used:
                self._dropped += 1
                return self._answer(into, used=False)
            self._waiting[rank] = gradient
            if len(self._waiting) == self._needed:
                self._apply_mean(rate)
                self._changed.notify_all()
            self._changed.wait_for(lambda: self._version > fetched)
            return self._answer(into, used=True)

    def moved(self, received: int, sent: int) -> None:
        with self._changed:
            self._received += received
            self._sent += sent

    def counts(self) -> ServerCounts:
        with self._changed:
            return ServerCounts(
                server=self._index,
                parameters=self._parameters.numel(),
                updates=self._version,
                gradients=self._gradients,
                dropped=self._dropped,
                received_bytes=self._received,
                sent_bytes=self._sent,
                staleness={str(late): count for late, count in sorted(self._staleness.items())},
            )

    def _apply_stale(self, gradient: Tensor, fetched: int, rate: float) -> None:
        staleness = self._version - fetched
        self._staleness[staleness] += 1
        if self._settings.staleness_aware and staleness > 1:
            # W. Zhang et al., "Staleness-aware async-SGD for distributed deep learning", arXiv:1511.05950, (6).
            rate /= staleness
        self._step(gradient, rate)

    def _apply_mean(self, rate: float) -> None:
        # By rank, not as they came: the same sum in every run.
        ranks = sorted(self._waiting)
        mean = self._waiting[ranks[0]].clone()
        for rank in ranks[1:]:
            mean += self._waiting[rank]
        self._staleness[0] += len(ranks)
        self._waiting.clear()
        self._step(mean.div_(len(ranks)), rate)

    def _step(self, gradient: Tensor, rate: float) -> None:
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        self._parameters.grad = gradient
        self._optimizer.step()
        self._parameters.grad = None
        self._version += 1

    def _answer(self, into: Tensor, used: bool) -> PushReply:
        into.copy_(self._parameters.detach())
        return PushReply(self._version, used)
