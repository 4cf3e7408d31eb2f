"""``python -m scalecurve_worker.features.parameter_servers.server``: one parameter server, which ends with its workers.

The first line of its input says what to serve; its own first line of output is the port.
"""

import json
import socket
import sys
import threading
from collections import Counter
from typing import NamedTuple

import torch
from torch import Tensor, nn

from scalecurve_api.features.parameter_servers.facts import ServerCounts
from scalecurve_api.model import Model
from scalecurve_api.programs.optimizer import Optimizer
from scalecurve_api.programs.torch_options import ParameterServerOptions, Updates
from scalecurve_worker.features.parameter_servers import protocol
from scalecurve_worker.features.parameter_servers.protocol import ConnectionClosedError, Header, MessageKind
from scalecurve_worker.process.startup import die_with_parent
from scalecurve_worker.torch.optimizers import make_optimizer


class ServerSpec(Model):
    """What a server is told by the worker that starts it; ``token`` is hexadecimal."""

    host: str
    token: str
    index: int
    elements: int
    workers: int
    settings: ParameterServerOptions
    rule: Optimizer


class PushReply(NamedTuple):
    """``version`` of the parameters that were copied out, and whether the gradient was used."""

    version: int
    used: bool


class ParameterShard:
    """Parameters with their optimizer; called by one thread for each worker."""

    def __init__(self, spec: ServerSpec) -> None:
        self._index, self._settings = spec.index, spec.settings
        self._needed = max(1, spec.workers - spec.settings.backup_workers)
        self._parameters = nn.Parameter(torch.zeros(spec.elements))
        self._optimizer = make_optimizer([self._parameters], spec.rule)
        self._changed = threading.Condition()
        self._waiting: dict[int, Tensor] = {}
        self._staleness: Counter[int] = Counter()
        self._version = self._gradients = self._dropped = self._received = self._sent = 0

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
            if fetched != self._version:
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
        gradients = [self._waiting[rank] for rank in sorted(self._waiting)]
        mean = gradients[0].clone()
        for gradient in gradients[1:]:
            mean += gradient
        self._staleness[0] += len(gradients)
        self._waiting.clear()
        self._step(mean.div_(len(gradients)), rate)

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


def main() -> None:
    """Serve until every worker has closed its connection."""
    die_with_parent()
    # A server shares the cores of the worker that started it.
    torch.set_num_threads(1)
    spec = ServerSpec.model_validate_json(sys.stdin.readline())
    shard = ParameterShard(spec)
    # The process ends when its threads have.
    with socket.create_server((spec.host, 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        for _ in range(spec.workers):
            threading.Thread(target=_serve, args=(*_accept(listener, spec), shard, spec.elements)).start()


def _accept(listener: socket.socket, spec: ServerSpec) -> tuple[socket.socket, int]:
    while True:
        connection, _ = listener.accept()
        try:
            token, rank = protocol.receive_greeting(connection)
        except ConnectionError:
            continue
        if token.hex() == spec.token:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connection, rank
        connection.close()


def _serve(connection: socket.socket, rank: int, shard: ParameterShard, elements: int) -> None:
    gradient, parameters = torch.empty(elements), torch.empty(elements)
    incoming, outgoing = protocol.bytes_of(gradient), protocol.bytes_of(parameters)
    with connection:
        while True:
            try:
                header = protocol.receive(connection)
            except ConnectionClosedError:
                return
            received = sent = 0
            match header.kind:
                case MessageKind.initial:
                    received = protocol.receive_into(connection, header, incoming)
                    shard.begin(gradient)
                case MessageKind.push:
                    received = protocol.receive_into(connection, header, incoming)
                    answer = shard.push(rank, gradient, header.version, header.rate, parameters)
                    reply = Header(MessageKind.parameters, answer.version, used=answer.used)
                    sent = protocol.send(connection, reply, outgoing)
                case MessageKind.fetch:
                    version, _ = shard.fetch(parameters)
                    sent = protocol.send(connection, Header(MessageKind.parameters, version), outgoing)
                case MessageKind.counts:
                    protocol.send(connection, Header(MessageKind.counts), json.dumps(shard.counts().wire()).encode())
                case MessageKind.parameters:
                    raise ConnectionError(f"rank {rank} sent parameters to a server")
            shard.moved(received, sent)


if __name__ == "__main__":
    main()
