from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scalecurve_worker.integrations.instrument.updates import StepEnds

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
