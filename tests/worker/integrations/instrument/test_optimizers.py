"""Which model optimizers train, and which of their updates ends a step."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch import nn  # noqa: E402
from torch.optim import SGD  # noqa: E402

from scalecurve_worker.integrations.instrument import optimizers  # noqa: E402
from scalecurve_worker.integrations.instrument.optimizers import (  # noqa: E402
    StepEnds,
    count_distinct,
    trained_model,
)

A, B, C = 10, 11, 12


def steps(*updates: int, living: int) -> str:
    order = StepEnds()
    return "".join("|" if order.ends_step(update, lambda: living) else "." for update in updates)


def test_the_only_optimizer_ends_steps_from_its_first_update() -> None:
    assert steps(A, A, A, living=1) == "|||"


def test_the_last_of_a_round_ends_it() -> None:
    assert steps(*[A, B] * 4, living=2) == "...|.|.|"


def test_the_rarest_ends_a_step() -> None:
    assert steps(*[A, A, A, B] * 4, living=2) == ".......|...|...|"
    assert steps(*[B, A, A, A] * 4, living=2) == "....|...|...|..."


def test_one_that_never_updates_is_not_awaited_for_ever() -> None:
    told = steps(*[A] * 100, living=2)
    assert set(told[:60]) == {"."}
    assert set(told[64:]) == {"|"}


def test_a_replaced_optimizer_hands_over() -> None:
    told = steps(*[A] * 3, *[B] * 200, living=1)
    assert told.startswith("|||.")
    assert told.endswith("|" * 100)


@given(
    st.permutations([A, B, C]), st.permutations([1, 2, 3]), st.lists(st.integers(1, 3), min_size=3), st.integers(3, 8)
)
def test_a_step_is_a_round(order: list[int], at: list[int], repeats: list[int], rounds: int) -> None:
    """Whatever the order and the number of updates, if one optimizer has one: once known, every round has one end."""
    counts = [1, repeats[0], repeats[1]]
    once = [key for key, index in zip(order, at, strict=True) for _ in range(counts[index - 1])]
    told = steps(*once * rounds, living=3)
    for start in range(2 * len(once), len(told), len(once)):
        assert told[start : start + len(once)].count("|") == 1


def test_the_model_of_the_optimizers() -> None:
    inner = nn.Linear(2, 3)
    middle = nn.Sequential(inner, nn.ReLU())
    outermost = nn.ModuleDict({"module": middle})
    other = nn.Linear(900, 1)
    optimizer = SGD(inner.parameters())
    assert trained_model([optimizer]) is outermost
    both = trained_model([optimizer, SGD(other.parameters())])
    assert isinstance(both, nn.ModuleList)
    assert set(both) == {outermost, other}
    assert count_distinct([optimizer, SGD(inner.parameters()), SGD(other.parameters())]) == 2


def test_an_optimizer_of_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """As ZeRO and apex: what is updated are partitions or copies of the parameters."""
    largest = nn.Linear(50, 10)
    # Of all modules in this process some may be another test's, and larger.
    monkeypatch.setattr(optimizers, "_modules", lambda: [nn.Linear(5, 10), largest])
    assert trained_model([SGD([nn.Parameter(torch.ones(3))])]) is largest
