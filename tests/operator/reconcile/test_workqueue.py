import asyncio
from collections.abc import Callable

import pytest

from scalecurve_operator.cache.cached_objects import Key
from scalecurve_operator.reconcile.workqueue import WorkQueue
from tests.waiting import PATIENCE_S


def key(name: str) -> Key:
    return Key("ns", name)


class Reconciles:
    """Records reconciles; each lasts until `release` is called for it."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.gates: dict[str, asyncio.Event] = {}
        self.now = self.most = 0

    async def __call__(self, of: Key) -> None:
        self.begun.append(of.name)
        self.now += 1
        self.most = max(self.most, self.now)
        gate = self.gates.setdefault(of.name, asyncio.Event())
        await gate.wait()
        gate.clear()
        self.now -= 1

    async def release(self, *names: str) -> None:
        for name in names:
            self.gates.setdefault(name, asyncio.Event()).set()
        await settle()


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.001)


def test_one_reconcile_at_a_time_repeated_if_enqueued_meanwhile() -> None:
    async def run() -> list[str]:
        reconciles = Reconciles()
        queue = WorkQueue(reconciles)
        for _ in range(3):
            queue.enqueue(key("a"))
            await settle()
        assert reconciles.begun == ["a"]
        await reconciles.release("a")
        assert reconciles.begun == ["a", "a"]
        await reconciles.release("a")
        assert not queue.running
        assert not queue.started
        return reconciles.begun

    assert asyncio.run(run()) == ["a", "a"]


def test_calm_turns_leave_room_for_pressing_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scalecurve_operator.reconcile.workqueue._LOW_PRIORITY_INTERVAL_S", 3600)

    async def run() -> None:
        reconciles, urgent = Reconciles(), {"p0", "p1"}
        queue = WorkQueue(reconciles, lambda of: of.name in urgent, concurrency=4, low_priority_concurrency=2)
        for name in ("c0", "c1", "c2", "c3"):
            queue.enqueue(key(name))
        await settle()
        assert reconciles.begun == ["c0", "c1"]
        queue.enqueue(key("p0"))
        queue.enqueue(key("p1"))
        await settle()
        assert reconciles.begun == ["c0", "c1", "p0", "p1"]
        await reconciles.release("c0", "c1")
        assert reconciles.begun[4:] == []
        await reconciles.release("p0")
        assert reconciles.begun[4:] == ["c2"]
        await reconciles.release("p1")
        assert reconciles.begun[5:] == ["c3"]
        await reconciles.release("c2", "c3")
        assert reconciles.most == 4
        assert not queue.running
        await queue.close()

    asyncio.run(run())


def test_a_hanging_reconcile_does_not_block_low_priority(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scalecurve_operator.reconcile.workqueue._LOW_PRIORITY_INTERVAL_S", 0.01)

    async def run() -> None:
        reconciles = Reconciles()
        queue = WorkQueue(reconciles, lambda of: of.name == "hangs", low_priority_concurrency=1)
        for name in ("hangs", "a", "b"):
            queue.enqueue(key(name))
        await until(lambda: len(reconciles.begun) == 3)
        assert reconciles.begun == ["hangs", "a", "b"]
        await reconciles.release("hangs", "a", "b")
        await queue.close()

    asyncio.run(run())


def test_what_waits_calmly_and_becomes_pressing_goes_first() -> None:
    async def run() -> None:
        reconciles, urgent = Reconciles(), set[str]()
        queue = WorkQueue(reconciles, lambda of: of.name in urgent, concurrency=1)
        for name in ("a", "b", "c"):
            queue.enqueue(key(name))
        await settle()
        urgent.add("c")
        queue.enqueue(key("c"))
        await reconciles.release("a")
        assert reconciles.begun == ["a", "c"]
        await reconciles.release("c", "b")
        assert reconciles.begun == ["a", "c", "b"]

    asyncio.run(run())


def test_a_failed_reconcile_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scalecurve_operator.reconcile.workqueue._FIRST_BACKOFF_S", 0.01)

    async def run() -> int:
        count = 0
        done = asyncio.Event()

        async def turn(_: Key) -> None:
            nonlocal count
            count += 1
            if count < 3:
                raise RuntimeError("no")
            done.set()

        queue = WorkQueue(turn)
        queue.enqueue(key("a"))
        await asyncio.wait_for(done.wait(), PATIENCE_S)
        await settle()
        assert not queue.failures
        return count

    assert asyncio.run(run()) == 3


def test_an_earlier_time_wins_over_a_later_one() -> None:
    async def run() -> None:
        reconciles = Reconciles()
        queue = WorkQueue(reconciles)
        queue.enqueue(key("a"), after=3600)
        queue.enqueue(key("a"), after=0.01)
        queue.enqueue(key("a"), after=3600)
        await until(lambda: bool(reconciles.begun))
        assert reconciles.begun == ["a"]
        await reconciles.release("a")
        await queue.close()

    asyncio.run(run())


def test_nothing_begins_after_the_end() -> None:
    async def run() -> None:
        reconciles = Reconciles()
        queue = WorkQueue(reconciles, concurrency=1)
        queue.enqueue(key("a"))
        queue.enqueue(key("b"))
        await settle()
        closing = asyncio.create_task(queue.close())
        await settle()
        queue.enqueue(key("c"))
        await reconciles.release("a")
        await closing
        assert reconciles.begun == ["a"]

    asyncio.run(run())
