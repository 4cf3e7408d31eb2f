import asyncio

import pytest

from scalecurve_api.lifecycle import Clean, Start
from scalecurve_operator.reconcile.reconciler import _allowed
from scalecurve_operator.reconcile.task_pool import AT_ONCE, at_once


def test_work_is_done_at_once_but_not_all_of_it() -> None:
    now = most = 0

    async def work(index: int) -> int:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.001)
        now -= 1
        return index

    async def run() -> list[int]:
        return await at_once([work(index) for index in range(3 * AT_ONCE)])

    assert asyncio.run(run()) == list(range(3 * AT_ONCE))
    assert most == AT_ONCE


def test_what_fails_stops_nothing_else() -> None:
    done: list[int] = []

    async def work(index: int) -> None:
        await asyncio.sleep(0)
        if index == 0:
            raise RuntimeError("trial 0")
        done.append(index)

    async def run() -> None:
        await at_once([work(index) for index in range(5)])

    with pytest.raises(RuntimeError, match="trial 0"):
        asyncio.run(run())
    assert done == [1, 2, 3, 4]


def test_attempts_under_way_take_the_room_of_those_that_are_named() -> None:
    collect, a, b, c = Clean("x"), Start("a", 1), Start("b", 1), Start("c", 1)
    assert _allowed([collect, a, b], set()) == [collect, a, b]
    assert _allowed([a, collect], {"a"}) == [a, collect], "named again, as long as its job is not seen"
    assert _allowed([a, b], {"b"}) == [a, b]
    assert _allowed([a], {"b"}) == [], "the one place is taken by another already"
    assert _allowed([a, c], {"b"}) == [a]
    assert _allowed([], {"b"}) == []
