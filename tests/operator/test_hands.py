import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from scalecurve_operator.reconcile.task_pool import Hands


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
        async with Hands(2) as hands:
            for trial in ("a", "b", "c", "a"):
                hands.take(trial, work.on(trial))
            await settle()
            assert work.begun == ["a", "b"]
            work.ends["b"].set_result(True)
            await hands.some_done(never)
            assert set(hands.tasks) == {"a"}
            hands.take("c", work.on("c"))
            await settle()
            assert work.begun == ["a", "b", "c"]
            work.ends["a"].set_result(True)
            work.ends["c"].set_result(True)
            await hands.some_done(never)
        assert not hands.tasks

    asyncio.run(run())


def test_what_had_to_wait_is_left_for_another_turn() -> None:
    async def run() -> None:
        work = Work()
        async with Hands(2) as hands:
            hands.take("a", work.on("a"))
            await settle()
            work.ends["a"].set_result(False)
            await hands.some_done(never)
            hands.take("a", work.on("a"))
            assert not hands.tasks

    asyncio.run(run())


def test_something_new_is_decided_on_while_others_are_slow() -> None:
    async def run() -> None:
        work = Work()
        async with Hands(2) as hands:
            hands.take("a", work.on("a"))
            await asyncio.wait_for(hands.some_done(lambda: True), 5)
            await settle()
            work.ends["a"].set_result(True)

    asyncio.run(run())


def test_a_failure_is_told_when_the_others_have_ended() -> None:
    async def run(work: Work) -> None:
        async with Hands(2) as hands:
            for trial in ("a", "b"):
                hands.take(trial, work.on(trial))
            await settle()
            work.ends["a"].set_exception(RuntimeError("a broke"))
            asyncio.get_running_loop().call_later(0.02, work.ends["b"].set_result, True)
            await hands.some_done(never)

    work = Work()
    with pytest.raises(RuntimeError, match="a broke"):
        asyncio.run(run(work))
    assert work.ended == ["b"]


def test_a_turn_that_is_cancelled_leaves_nothing_running() -> None:
    async def run() -> None:
        work = Work()

        async def turn() -> None:
            async with Hands(2) as hands:
                hands.take("a", work.on("a"))
                await hands.some_done(never)

        task = asyncio.create_task(turn())
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert work.begun == ["a"]
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())
