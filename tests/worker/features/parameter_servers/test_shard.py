from __future__ import annotations

import threading

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from scalecurve_api.programs.optimizer import Optimizer
from scalecurve_api.programs.torch_options import ParameterServerOptions, Updates
from scalecurve_worker.features.parameter_servers.server import ParameterShard, PushReply, ServerSpec

SGD = Optimizer(momentum=0.0)


RATE = 0.5


def shard(workers: int = 2, rule: Optimizer = SGD, **asked: object) -> ParameterShard:
    """Three parameters, at 1, 2 and 3."""
    options = ParameterServerOptions.model_validate(asked)
    spec = ServerSpec(host="", token="", index=0, elements=3, workers=workers, settings=options, rule=rule)
    made = ParameterShard(spec)
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


@settings(max_examples=10)
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
