"""``python -m scalecurve_worker.extras.parameter_server.server``: one parameter server, which ends with its workers.

The first line of its input says what to serve; its own first line of output is the port.
"""

import json
import socket
import sys
import threading

import torch

from scalecurve_api.model import Model
from scalecurve_api.programs.optimizer import TorchOptimizer
from scalecurve_api.programs.torch import ParameterServerOptions
from scalecurve_worker.extras.parameter_server import protocol
from scalecurve_worker.extras.parameter_server.protocol import Closed, Header, MessageKind
from scalecurve_worker.extras.parameter_server.shard import ParameterShard
from scalecurve_worker.process.startup import die_with_parent


class ServerSpec(Model):
    """What a server is told by the worker that starts it; ``token`` is hexadecimal."""

    host: str
    token: str
    index: int
    elements: int
    workers: int
    settings: ParameterServerOptions
    rule: TorchOptimizer


def main() -> None:
    """Serve until every worker has closed its connection."""
    die_with_parent()
    # A server shares the cores of the worker that started it.
    torch.set_num_threads(1)
    spec = ServerSpec.model_validate_json(sys.stdin.readline())
    shard = ParameterShard(spec.index, spec.elements, spec.workers, spec.settings, spec.rule)
    with socket.create_server((spec.host, 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        threads: list[threading.Thread] = []
        while len(threads) < spec.workers:
            thread = threading.Thread(target=_serve, args=(_accept(listener, spec), shard, spec.elements))
            thread.start()
            threads.append(thread)
    for thread in threads:
        thread.join()


def _accept(listener: socket.socket, spec: ServerSpec) -> tuple[socket.socket, int]:
    while True:
        connection, _ = listener.accept()
        try:
            token, rank = protocol.greeted(connection)
        except ConnectionError:
            continue
        if token.hex() == spec.token:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connection, rank
        connection.close()


def _serve(worker: tuple[socket.socket, int], shard: ParameterShard, elements: int) -> None:
    connection, rank = worker
    gradient, parameters = torch.empty(elements), torch.empty(elements)
    incoming, outgoing = protocol.bytes_of(gradient), protocol.bytes_of(parameters)
    with connection:
        while True:
            try:
                header = protocol.receive(connection)
            except Closed:
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
