"""Parameter servers: the rule by which gradients change parameters, and the bytes between processes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from scalecurve_api.programs.optimizer import Optimizer
from scalecurve_api.programs.workload import ParameterServer, Updates
from scalecurve_worker.extras.parameter_server import protocol
from scalecurve_worker.extras.parameter_server.protocol import Closed, Header, MessageKind
from scalecurve_worker.extras.parameter_server.shard import ParameterShard, PushReply
from scalecurve_worker.extras.parameter_server.worker import shares

SGD = Optimizer(momentum=0.0)
RATE = 0.5


def shard(workers: int = 2, rule: Optimizer = SGD, **asked: object) -> ParameterShard:
    """Three parameters, at 1, 2 and 3."""
    made = ParameterShard(0, 3, workers, ParameterServer.model_validate(asked), rule)
    made.begin(torch.tensor([1.0, 2.0, 3.0]))
    return made


def push(to: ParameterShard, rank: int, gradient: list[float], fetched: int) -> tuple[PushReply, list[float]]:
    into = torch.empty(3)
    answer = to.push(rank, torch.tensor(gradient), fetched, RATE, into)
    return answer, into.tolist()


class Pushing(threading.Thread):
    """A push that waits for others."""

    def __init__(self, to: ParameterShard, rank: int, gradient: list[float], fetched: int) -> None:
        super().__init__(daemon=True)
        self._arguments = (to, rank, gradient, fetched)
        self.start()

    def run(self) -> None:
        self.found = push(*self._arguments)

    def end(self) -> tuple[PushReply, list[float]]:
        self.join()
        return self.found


def test_an_asynchronous_gradient_is_applied_as_it_comes() -> None:
    served = shard()
    assert push(served, 0, [1.0, 0.0, 0.0], 0) == (PushReply(1, True), [0.5, 2.0, 3.0])
    assert push(served, 1, [0.0, 1.0, 0.0], 0) == (PushReply(2, True), [0.5, 1.5, 3.0])
    assert push(served, 1, [0.0, 0.0, 2.0], 2) == (PushReply(3, True), [0.5, 1.5, 2.0])
    counts = served.counts()
    assert (counts.updates, counts.gradients, counts.dropped) == (3, 3, 0)
    assert counts.staleness == {"0": 2, "1": 1}


def test_a_stale_gradient_counts_less_where_that_is_asked_for() -> None:
    served = shard(stalenessAware=True)
    for _ in range(4):
        push(served, 0, [0.0, 0.0, 0.0], 0)
    # Four updates since it was fetched: an eighth of it, where 0.5 is the rate.
    assert push(served, 1, [8.0, 0.0, 0.0], 0) == (PushReply(5, True), [0.0, 2.0, 3.0])
    # One update behind is no more than every worker but one must be.
    assert push(served, 0, [1.0, 0.0, 0.0], 4)[1] == [-0.5, 2.0, 3.0]


def test_adagrad_at_the_server() -> None:
    served = shard(rule=Optimizer(name="adagrad"))
    _, first = push(served, 0, [4.0, 0.0, 0.0], 0)
    _, second = push(served, 1, [3.0, 0.0, 0.0], 0)
    assert first[0] == pytest.approx(1 - RATE)
    assert second[0] == pytest.approx(1 - RATE - RATE * 3 / 5)


def test_synchronous_gradients_are_averaged_by_rank() -> None:
    served = shard(updates="synchronous")
    waiting = Pushing(served, 1, [2.0, 0.0, 0.0], 0)
    assert push(served, 0, [0.0, 4.0, 0.0], 0) == (PushReply(1, True), [0.5, 1.0, 3.0])
    assert waiting.end() == (PushReply(1, True), [0.5, 1.0, 3.0])
    assert served.counts().staleness == {"0": 2}


def test_the_slowest_gradient_of_a_step_is_dropped() -> None:
    served = shard(workers=3, updates="synchronous", backupWorkers=1)
    waiting = Pushing(served, 2, [2.0, 0.0, 0.0], 0)
    assert push(served, 0, [0.0, 4.0, 0.0], 0) == (PushReply(1, True), [0.5, 1.0, 3.0])
    waiting.end()
    assert push(served, 1, [99.0, 99.0, 99.0], 0) == (PushReply(1, False), [0.5, 1.0, 3.0])
    counts = served.counts()
    assert (counts.updates, counts.gradients, counts.dropped) == (1, 3, 1)


@settings(deadline=None, max_examples=10)
@given(workers=st.integers(1, 4), steps=st.integers(1, 5), seed=st.integers(0, 99))
def test_synchronous_servers_give_the_same_as_one_big_batch(workers: int, steps: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    gradients = torch.randn(steps, workers, 3, generator=generator)
    rule = Optimizer(momentum=0.9, weight_decay=0.1)
    served = shard(workers=workers, rule=rule, updates=Updates.synchronous)
    for step in range(steps):
        pushing = [Pushing(served, rank, gradients[step, rank].tolist(), step) for rank in range(workers)]
        ends = [each.end() for each in pushing]
        assert len({str(end) for end in ends}) == 1
    alone = torch.nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))
    optimizer = torch.optim.SGD([alone], lr=RATE, momentum=0.9, weight_decay=0.1)
    for step in range(steps):
        alone.grad = gradients[step].mean(dim=0)
        optimizer.step()
    assert ends[0][1] == pytest.approx(alone.tolist(), rel=1e-5, abs=1e-6)


@given(elements=st.integers(0, 10_000), servers=st.integers(1, 300))
def test_shares_cover_everything_once_and_evenly(elements: int, servers: int) -> None:
    cuts = shares(elements, servers)
    assert [begin for begin, _ in cuts] == [0, *(end for _, end in cuts[:-1])]
    assert cuts[-1][1] == elements
    sizes = {end - begin for begin, end in cuts}
    assert max(sizes) - min(sizes) <= 1


@contextmanager
def connected() -> Iterator[tuple[socket.socket, socket.socket]]:
    left, right = socket.socketpair()
    with left, right:
        yield left, right


def test_a_message_arrives_as_it_was_sent() -> None:
    sent, found = torch.arange(5.0), torch.zeros(5)
    with connected() as (left, right):
        protocol.greet(left, b"x" * protocol.TOKEN_BYTES, 3)
        assert protocol.greeted(right) == (b"x" * protocol.TOKEN_BYTES, 3)
        taken = protocol.send(left, Header(MessageKind.push, version=7, rate=0.25, used=False), protocol.bytes_of(sent))
        header = protocol.receive(right)
        assert header == Header(MessageKind.push, version=7, size=20, rate=0.25, used=False)
        assert protocol.receive_into(right, header, protocol.bytes_of(found)) == taken
        assert torch.equal(found, sent)
        left.close()
        with pytest.raises(Closed):
            protocol.receive(right)


def test_a_payload_of_another_size_is_refused() -> None:
    with connected() as (left, right):
        protocol.send(left, Header(MessageKind.push), b"1234")
        with pytest.raises(ConnectionError, match="push with 4 bytes, 8 were expected"):
            protocol.receive_into(right, protocol.receive(right), memoryview(bytearray(8)))
