"""The worker's side: an optimizer whose step pushes gradients to the servers and pulls their parameters."""

import json
import secrets
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import overload

import torch
from torch import Tensor, nn

from scalecurve_api.features.parameter_servers.facts import PUSHES, SERVERS, ServerCounts
from scalecurve_api.features.parameter_servers.fields import TCP
from scalecurve_api.programs.torch import TorchWorkload
from scalecurve_api.programs.torch_options import Updates
from scalecurve_api.record.rank import Traffic
from scalecurve_worker.features.parameter_servers import protocol
from scalecurve_worker.features.parameter_servers.protocol import Header, MessageKind
from scalecurve_worker.features.parameter_servers.server import ServerSpec
from scalecurve_worker.process.identity import identify
from scalecurve_worker.process.trial_spec import out_folder
from scalecurve_worker.rendezvous.communicator import Communicator, find_communicator
from scalecurve_worker.sdk.bench import Bench
from scalecurve_worker.sdk.sections import Sections
from scalecurve_worker.torch.data import Batch
from scalecurve_worker.torch.optimizers import rule_of
from scalecurve_worker.torch.process_group import own_address
from scalecurve_worker.torch.strategies import RankStrategy, Update, WrappedModel


class ParameterServerOptimizer(torch.optim.Optimizer):
    """Gradients to every server, then its parameters back: one push and one fetch a step.

    With backup workers a gradient may come too late: ``used`` is then False, and ``behind`` is how many further steps
    the others have ended meanwhile, which this worker has to exclude (0 where updates are asynchronous).
    """

    def __init__(
        self, params: Iterable[nn.Parameter], rate: float, connections: Sequence[socket.socket], synchronous: bool
    ) -> None:
        super().__init__(params, {"lr": rate})
        self._held: list[nn.Parameter] = [each for group in self.param_groups for each in group["params"]]
        self._sizes = [parameter.numel() for parameter in self._held]
        self._device = self._held[0].device
        elements, on_gpu = sum(self._sizes), self._device.type == "cuda"
        self._gradients, self._parameters = (torch.zeros(elements, pin_memory=on_gpu) for _ in range(2))
        self._connections = list(connections)
        cuts = shares(elements, len(connections))
        self._outgoing = [protocol.bytes_of(self._gradients[begin:end]) for begin, end in cuts]
        self._incoming = [protocol.bytes_of(self._parameters[begin:end]) for begin, end in cuts]
        self._versions = [0] * len(connections)
        self._synchronous = synchronous
        self.pushes = self.sent_bytes = self.behind = 0
        self.used = True
        self.waiting: AbstractContextManager[None] = nullcontext()

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...
    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Push this step's gradients and take the parameters that the servers then have."""
        self._read([each.grad for each in self._held], self._gradients)
        rate = self.param_groups[0]["lr"]
        before = self._versions[0]
        with self.waiting:
            for connection, version, payload in zip(self._connections, self._versions, self._outgoing, strict=True):
                self.sent_bytes += protocol.send(connection, Header(MessageKind.push, version, rate=rate), payload)
            self.used = all(self._take())
        self.pushes += 1
        self.behind = self._versions[0] - before - 1 if self._synchronous else 0
        return None

    @torch.no_grad()
    def begin(self) -> None:
        self._read(self._held, self._parameters)
        for connection, payload in zip(self._connections, self._incoming, strict=True):
            protocol.send(connection, Header(MessageKind.initial), payload)
        # An answer says that they have them.
        self.fetch()

    @torch.no_grad()
    def fetch(self) -> None:
        for connection in self._connections:
            protocol.send(connection, Header(MessageKind.fetch))
        self._take()

    def counts(self) -> list[ServerCounts]:
        counts = []
        for connection in self._connections:
            protocol.send(connection, Header(MessageKind.counts))
            header = protocol.receive(connection)
            data = bytearray(header.size)
            protocol.receive_into(connection, header, memoryview(data))
            counts.append(ServerCounts.model_validate(json.loads(data)))
        return counts

    def close(self) -> None:
        for connection in self._connections:
            connection.close()

    def _take(self) -> list[bool]:
        used = []
        for index, (connection, view) in enumerate(zip(self._connections, self._incoming, strict=True)):
            header = protocol.receive(connection)
            protocol.receive_into(connection, header, view)
            self._versions[index] = header.version
            used.append(header.used)
        fetched = self._parameters.to(self._device, non_blocking=True)
        for parameter, values in zip(self._held, torch.split(fetched, self._sizes), strict=True):
            parameter.copy_(values.view_as(parameter))
        return used

    def _read(self, tensors: Sequence[Tensor | None], into: Tensor) -> None:
        """Lay tensors end to end in host memory; a parameter without a gradient counts as zero."""
        pairs = zip(tensors, self._held, strict=True)
        flat = [(torch.zeros_like(held) if tensor is None else tensor).reshape(-1) for tensor, held in pairs]
        if self._device.type == "cuda":
            into.copy_(torch.cat(flat))
        else:
            torch.cat(flat, out=into)


@dataclass
class ParameterServerClient:
    """A worker's optimizer, the other workers, and the server processes that this worker has started."""

    optimizer: ParameterServerOptimizer
    communicator: Communicator
    processes: list[subprocess.Popen[str]]
    elements: int

    def train(self, bench: Bench, update: Update, batches: Iterator[list[Batch]], samples: int) -> None:
        """Run every timed step, and note what the servers counted, on rank 0.

        A step is an update of the servers. With backup workers a worker may be late: its gradient is dropped, it skips
        the updates that the others made meanwhile, and none of them counts a sample of this worker. J. Chen et al.,
        "Revisiting distributed synchronous SGD", arXiv:1604.00981.
        """
        missed = 0
        waiting = bench.sections.section("input")
        while bench.step(samples):
            if missed:
                missed -= 1
                bench.counted(0)
                continue
            with waiting:
                batch = next(batches)
            bench.loss(update(batch))
            if not self.optimizer.used:
                bench.counted(0)
            missed = self.optimizer.behind
        self.settle()
        facts = bench.session.facts
        facts.backend = TCP
        PUSHES.put(facts, self.optimizer.pushes)
        if self.communicator.rank == 0:
            SERVERS.put(facts, self.optimizer.counts())
        # Nobody goes on to other gradients before these are counted.
        self.communicator.barrier()

    def settle(self) -> None:
        """Wait for all workers' updates, then take the parameters: the same on every worker."""
        self.communicator.barrier()
        self.optimizer.fetch()
        self.communicator.barrier()

    def watch_sections(self, sections: Sections) -> None:
        """Time gradients on their way, their use by the servers, and parameters on their way back as ``server``."""
        self.optimizer.waiting = sections.section("server")
        sections.seen.add("server")
        sections.watch(self._rest)

    def _rest(self) -> None:
        self.optimizer.waiting = nullcontext()

    def traffic(self) -> Traffic | None:
        """Return the traffic of the gradients that this worker sends in a step, as counted at its sockets."""
        optimizer = self.optimizer
        if not optimizer.pushes:
            return None
        size = 4.0 * self.elements
        sent = optimizer.sent_bytes / optimizer.pushes
        how = "counted at the sockets: gradients to the servers, which send as many parameters back"
        return Traffic(payload_bytes=size, wire_bytes=sent, plain_payload_bytes=size, how=how)

    def close(self) -> None:
        self.optimizer.close()
        self.communicator.barrier()
        for process in self.processes:
            process.wait()


def start(model: nn.Module, workload: TorchWorkload) -> ParameterServerClient:
    """Start the servers and join them. Collective; every rank has the same model.

    Server s runs beside rank s modulo the worker count, on that rank's cores: servers are spread as evenly as
    workers are, on one machine and over pods alike.
    """
    identity = identify()
    communicator = find_communicator(identity, out_folder())
    rank, workers, settings = communicator.rank, communicator.world, workload.parameter_server
    elements = sum(parameter.numel() for parameter in model.parameters())
    token = secrets.token_hex(protocol.TOKEN_BYTES) if rank == 0 else None
    token = str(communicator.all_gather(token)[0])
    host, rule = own_address(), workload.optimizer
    processes, mine = [], []
    for index, (begin, end) in enumerate(shares(elements, settings.servers)):
        if index % workers == rank:
            spec = ServerSpec(
                host=host, token=token, index=index, elements=end - begin, workers=workers, settings=settings, rule=rule
            )
            process, port = _spawn(spec)
            processes.append(process)
            mine.append((index, host, port))
    connections = []
    for _, host, port in sorted(address for each in communicator.all_gather(mine) for address in each):
        connection = socket.create_connection((host, port))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        protocol.greet(connection, bytes.fromhex(token), rank)
        connections.append(connection)
    rate = float(rule_of(rule, workers)[1]["lr"])
    synchronous = settings.updates is Updates.synchronous
    optimizer = ParameterServerOptimizer(model.parameters(), rate, connections, synchronous)
    client = ParameterServerClient(optimizer, communicator, processes, elements)
    if rank == 0:
        optimizer.begin()
    client.settle()
    return client


def shares(elements: int, servers: int) -> list[tuple[int, int]]:
    """Begin and end of each server's part of the flat parameters; sizes differ by one at most."""
    return [(elements * index // servers, elements * (index + 1) // servers) for index in range(servers)]


def _spawn(spec: ServerSpec) -> tuple[subprocess.Popen[str], int]:
    command = [sys.executable, "-P", "-m", "scalecurve_worker.features.parameter_servers.server"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdin as pipe:
        pipe.write(json.dumps(spec.wire()) + "\n")
    with process.stdout as output:
        line = output.readline()
    if not line.strip().isdigit():
        raise ConnectionError(f"parameter server {spec.index} did not start: exit code {process.wait()}")
    return process, int(line)


def parameter_server(model: nn.Module, device: torch.device, workload: TorchWorkload) -> WrappedModel:
    """Start the servers and join them."""
    client = start(model, workload)
    return WrappedModel(
        model,
        "ParameterServer",
        client.optimizer,
        unexposed="a worker has no update of its own: there is no step without the servers",
        traffic=client.traffic,
        remote=client,
        options={
            **workload.parameter_server.wire(),
            "serverPlacement": "server s is a process beside rank s modulo workers, on its cores",
        },
    )


PARAMETER_SERVER = RankStrategy(parameter_server, initial_checksum=True)
