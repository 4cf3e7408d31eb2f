"""The loop's bookkeeping in this process; that torch's hooks reach it, test_scripts.py shows."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch import nn  # noqa: E402
from torch.optim import SGD  # noqa: E402
from torch.utils.data import DataLoader, IterableDataset, TensorDataset  # noqa: E402

from scalecurve_worker.integrations.instrument.loop import Loop, taken_samples  # noqa: E402
from scalecurve_worker.integrations.instrument.samples import INDICES  # noqa: E402


class Noted:
    """A bench that notes what it is told."""

    samples_per_step = 4
    bare = False

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> bool:
            self.calls.append((name, *arguments) if arguments else name)
            return True

        return call

    def since(self) -> list[Any]:
        calls, self.calls = self.calls, []
        return calls


@pytest.fixture
def loop() -> Loop:
    loop = Loop()
    loop._model = nn.Linear(2, 1)
    loop._bench = Noted()  # type: ignore[assignment]
    return loop


def bench(loop: Loop) -> Noted:
    assert isinstance(loop._bench, Noted)
    return loop._bench


def update(loop: Loop, *optimizers: object) -> None:
    for optimizer in optimizers:
        loop.begin_update(optimizer)
    for optimizer in reversed(optimizers):
        loop.end_update(optimizer)


def test_an_update_made_of_others_is_one(loop: Loop) -> None:
    whole = SGD(nn.Linear(2, 1).parameters())
    inner = SGD(nn.Linear(2, 1).parameters())
    loop.optimizers.update([whole])

    def wrapper() -> None:  # as torch's own around every step
        loop.begin_update(whole)
        inner_step()
        inner_step()
        loop.end_update(whole)

    def inner_step() -> None:
        namespace = {"loop": loop, "inner": inner}
        code = "def wrapper():\n    loop.begin_update(inner)\n    loop.end_update(inner)\n"
        exec(compile(code, "/x/torch/optim/optimizer.py", "exec"), namespace)
        namespace["wrapper"]()  # type: ignore[operator]

    outer: dict[str, Any] = {"body": wrapper}
    exec(compile("def wrapper():\n    body()\n", "/x/torch/optim/optimizer.py", "exec"), outer)
    outer["wrapper"]()
    assert loop.updates == 1


def test_an_update_that_raised_hides_no_other(loop: Loop) -> None:
    optimizer = SGD(nn.Linear(2, 1).parameters())
    loop.optimizers.add(optimizer)
    loop.begin_update(optimizer)  # out of memory: it never ends
    for _ in range(3):
        update(loop, optimizer)
    assert loop.updates == 3
    assert bench(loop).since().count("step") == 3


def test_a_loss_that_is_no_scalar_is_left_alone(loop: Loop) -> None:
    loop.loss(torch.ones(3))
    loop.loss(torch.tensor(2.5))
    assert bench(loop).since() == ["backward", "backward", ("loss", torch.tensor(2.5))]


def test_bare_steps_are_told_of_nothing_but_their_end(loop: Loop) -> None:
    assert loop._model is not None
    bench(loop).bare = True
    batches = iter(DataLoader(TensorDataset(torch.ones(8, 2)), 4))
    loop.take(batches, next(batches))
    loop._forward(loop._model, (torch.ones(4, 2),), {})
    loop.loss(torch.tensor(2.0))
    assert set(names(bench(loop).since())) == {"resume"}


def test_a_scaled_loss_is_noted_before_it_is_scaled(loop: Loop) -> None:
    loop.unscaled_loss(torch.tensor(2.0))
    loop.loss(torch.tensor(131072.0))
    loop.loss(torch.tensor(3.0))
    calls = [call for call in bench(loop).since() if call != "backward"]
    assert calls == [("loss", torch.tensor(2.0)), ("loss", torch.tensor(3.0))]


def names(calls: list[Any]) -> list[str]:
    return [call if isinstance(call, str) else call[0] for call in calls]


def test_time_stands_still_while_another_data_set_is_evaluated(loop: Loop) -> None:
    assert loop._model is not None
    train, test = TensorDataset(torch.ones(8, 2)), TensorDataset(torch.ones(6, 2))
    optimizer = SGD(loop._model.parameters())
    loop.optimizers.add(optimizer)
    batches = iter(DataLoader(train, 4))
    loop.take(batches, next(batches))
    update(loop, optimizer)
    assert ("counted", 4) in bench(loop).since()
    loop._model.eval()
    loop.open_loader(test)
    held_out = iter(DataLoader(test, 3))
    loop.take(held_out, next(held_out))
    assert set(names(bench(loop).since())) == {"pause"}
    loop.take(batches, next(batches))  # training data, though nobody has called train() yet
    assert names(bench(loop).since()) == ["resume", "observe"]
    loop._model.train()
    update(loop, optimizer)
    assert ("counted", 4) in bench(loop).since()


def test_a_model_that_is_fine_tuned_in_the_mode_of_evaluation(loop: Loop) -> None:
    assert loop._model is not None
    loop._model.eval()
    loop._mode = False
    loop._forward(loop._model, (torch.ones(4, 2),), {})
    assert bench(loop).since() == ["resume", ("forward", 8)]
    assert loop._samples.end_step() == 4


def sizes(loader: Any, planned: int | None = 4) -> list[int | None]:
    batches = iter(loader)
    return [taken_samples(batches, batch, planned) for batch in batches]


class Stream(IterableDataset[Any]):
    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __iter__(self) -> Any:
        return iter(self.items)


def test_samples_that_no_index_tells() -> None:
    """Without the hook of the sampler, as in a loader of another kind."""
    dataset = TensorDataset(torch.ones(10, 5, 5))
    assert sizes(DataLoader(dataset, 4)) == [4, 4, 2]
    assert sizes(DataLoader(dataset, 4, collate_fn=lambda items: [{"a": [1, 2]}])) == [4, 4, 4]
    assert sizes(DataLoader(Stream([torch.ones(2)] * 5), 4)) == [4, 1]
    assert sizes(DataLoader(Stream([torch.ones(3, 2)] * 2), batch_size=None)) == [3, 3]
    assert sizes(DataLoader(Stream([[{"a": 1}]] * 2), batch_size=None)) == [None, None]


def test_the_samplers_indices_tell() -> None:
    batches = iter(DataLoader(TensorDataset(torch.ones(10, 5, 5)), 4))
    batches.__dict__[INDICES] = deque([4, 2])
    assert [taken_samples(batches, None, 4) for _ in range(2)] == [4, 2]
