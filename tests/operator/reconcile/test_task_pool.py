import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from scalecurve_operator.reconcile.task_pool import CONCURRENCY, TaskPool, gather_bounded
from tests.waiting import PATIENCE_S


class Work:
    """Actions that end when told, each with its own result."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.ended: list[str] = []
        self.ends: dict[str, asyncio.Future[bool]] = {}

    def on(self, trial: str) -> Callable[[], Coroutine[Any, Any, bool]]:
        async def act() -> bool:
            self.begun.append(trial)
            self.ends[trial] = asyncio.get_running_loop().create_future()
            result = await self.ends[trial]
            self.ended.append(trial)
            return result

        return act


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def never() -> bool:
    return False


def test_one_that_ends_makes_room_and_waits_for_no_other() -> None:
    async def run() -> None:
        work = Work()
        async with TaskPool(2) as pool:
            for trial in ("a", "b", "c", "a"):
                pool.submit(trial, work.on(trial))
            await settle()
            assert work.begun == ["a", "b"]
            work.ends["b"].set_result(True)
            await pool.wait(never)
            assert set(pool.tasks) == {"a"}
            pool.submit("c", work.on("c"))
            await settle()
            assert work.begun == ["a", "b", "c"]
            work.ends["a"].set_result(True)
            work.ends["c"].set_result(True)
            await pool.wait(never)
        assert not pool.tasks

    asyncio.run(run())


def test_what_had_to_wait_is_left_for_another_turn() -> None:
    async def run() -> None:
        work = Work()
        async with TaskPool(2) as pool:
            pool.submit("a", work.on("a"))
            await settle()
            work.ends["a"].set_result(False)
            await pool.wait(never)
            pool.submit("a", work.on("a"))
            assert not pool.tasks

    asyncio.run(run())


def test_something_new_is_decided_on_while_others_are_slow() -> None:
    async def run() -> None:
        work = Work()
        async with TaskPool(2) as pool:
            pool.submit("a", work.on("a"))
            await asyncio.wait_for(pool.wait(lambda: True), PATIENCE_S)
            await settle()
            work.ends["a"].set_result(True)

    asyncio.run(run())


def test_a_failure_is_told_when_the_others_have_ended() -> None:
    async def run(work: Work) -> None:
        async with TaskPool(2) as pool:
            for trial in ("a", "b"):
                pool.submit(trial, work.on(trial))
            await settle()
            work.ends["a"].set_exception(RuntimeError("a broke"))
            asyncio.get_running_loop().call_later(0.02, work.ends["b"].set_result, True)
            await pool.wait(never)

    work = Work()
    with pytest.raises(RuntimeError, match="a broke"):
        asyncio.run(run(work))
    assert work.ended == ["b"]


def test_a_turn_that_is_cancelled_leaves_nothing_running() -> None:
    async def run() -> None:
        work = Work()

        async def turn() -> None:
            async with TaskPool(2) as pool:
                pool.submit("a", work.on("a"))
                await pool.wait(never)

        task = asyncio.create_task(turn())
        await settle()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert work.begun == ["a"]
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())


def test_work_is_done_at_once_but_not_all_of_it() -> None:
    now = most = 0
    done: list[int] = []

    async def work(index: int) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)
        now -= 1
        done.append(index)

    asyncio.run(gather_bounded([work(index) for index in range(3 * CONCURRENCY)]))
    assert done == list(range(3 * CONCURRENCY))
    assert most == CONCURRENCY


def test_what_fails_stops_nothing_else() -> None:
    done: list[int] = []

    async def work(index: int) -> None:
        await asyncio.sleep(0)
        if index == 0:
            raise RuntimeError("trial 0")
        done.append(index)

    async def run() -> None:
        await gather_bounded([work(index) for index in range(5)])

    with pytest.raises(RuntimeError, match="trial 0"):
        asyncio.run(run())
    assert done == [1, 2, 3, 4]
