import asyncio

import pytest

from scalecurve_operator.cache.object_cache import Key
from scalecurve_operator.reconcile.workqueue import Worklist


def key(name: str) -> Key:
    return Key("ns", name)


class Turns:
    """Records turns; each lasts until `release` is called for it."""

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


def test_one_turn_at_a_time_and_again_for_what_came_meanwhile() -> None:
    async def run() -> list[str]:
        turns = Turns()
        worklist = Worklist(turns)
        for _ in range(3):
            worklist.nudge(key("a"))
            await settle()
        assert turns.begun == ["a"]
        await turns.release("a")
        assert turns.begun == ["a", "a"]
        await turns.release("a")
        assert not worklist.running
        assert not worklist.began
        return turns.begun

    assert asyncio.run(run()) == ["a", "a"]


def test_calm_turns_leave_room_for_pressing_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scalecurve_operator.reconcile.workqueue._CALM_EVERY_S", 3600)

    async def run() -> None:
        turns, pressing = Turns(), {"p0", "p1"}
        worklist = Worklist(turns, lambda of: of.name in pressing, at_once=4, calm_below=2)
        for name in ("c0", "c1", "c2", "c3"):
            worklist.nudge(key(name))
        await settle()
        assert turns.begun == ["c0", "c1"]
        worklist.nudge(key("p0"))
        worklist.nudge(key("p1"))
        await settle()
        assert turns.begun == ["c0", "c1", "p0", "p1"]
        await turns.release("c0", "c1")
        assert turns.begun[4:] == []
        await turns.release("p0")
        assert turns.begun[4:] == ["c2"]
        await turns.release("p1")
        assert turns.begun[5:] == ["c3"]
        await turns.release("c2", "c3")
        assert turns.most == 4
        assert not worklist.running
        await worklist.close()

    asyncio.run(run())


def test_turns_that_hang_do_not_stop_the_calm_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scalecurve_operator.reconcile.workqueue._CALM_EVERY_S", 0.01)

    async def run() -> None:
        turns = Turns()
        worklist = Worklist(turns, lambda of: of.name == "hangs", calm_below=1)
        for name in ("hangs", "a", "b"):
            worklist.nudge(key(name))
        await asyncio.sleep(0.1)
        assert turns.begun == ["hangs", "a", "b"]
        await turns.release("hangs", "a", "b")
        await worklist.close()

    asyncio.run(run())


def test_what_waits_calmly_and_becomes_pressing_goes_first() -> None:
    async def run() -> None:
        turns, pressing = Turns(), set[str]()
        worklist = Worklist(turns, lambda of: of.name in pressing, at_once=1)
        for name in ("a", "b", "c"):
            worklist.nudge(key(name))
        await settle()
        pressing.add("c")
        worklist.nudge(key("c"))
        await turns.release("a")
        assert turns.begun == ["a", "c"]
        await turns.release("c", "b")
        assert turns.begun == ["a", "c", "b"]

    asyncio.run(run())


def test_a_turn_that_fails_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scalecurve_operator.reconcile.workqueue._FIRST_WAIT_S", 0.01)

    async def run() -> int:
        count = 0
        done = asyncio.Event()

        async def turn(_: Key) -> None:
            nonlocal count
            count += 1
            if count < 3:
                raise RuntimeError("no")
            done.set()

        worklist = Worklist(turn)
        worklist.nudge(key("a"))
        await asyncio.wait_for(done.wait(), 10)
        await settle()
        assert not worklist.failures
        return count

    assert asyncio.run(run()) == 3


def test_an_earlier_time_wins_over_a_later_one() -> None:
    async def run() -> None:
        turns = Turns()
        worklist = Worklist(turns)
        worklist.nudge(key("a"), after=3600)
        worklist.nudge(key("a"), after=0.01)
        worklist.nudge(key("a"), after=3600)
        await asyncio.sleep(0.05)
        assert turns.begun == ["a"]
        await turns.release("a")
        await worklist.close()

    asyncio.run(run())


def test_nothing_begins_after_the_end() -> None:
    async def run() -> None:
        turns = Turns()
        worklist = Worklist(turns, at_once=1)
        worklist.nudge(key("a"))
        worklist.nudge(key("b"))
        await settle()
        closing = asyncio.create_task(worklist.close())
        await settle()
        worklist.nudge(key("c"))
        await turns.release("a")
        await closing
        assert turns.begun == ["a"]

    asyncio.run(run())
