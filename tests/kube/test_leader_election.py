"""One operator at a time, on a clock of our own: stalls, lost answers, an API server that is away."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalecurve_kube import leader_election as leasing
from scalecurve_kube.leader_election import LeaderElector
from scalecurve_kube.resources import LEASES
from tests.examples import examples
from tests.operator.api_in_memory import InMemory, Store

AT = LEASES.path("system").removeprefix("/")
SECONDS = 10.0
_yield = asyncio.sleep


class Clock:
    """Time passes only when everybody sleeps; ``oversleeps`` says by how much."""

    def __init__(self) -> None:
        self.now, self.sleepers, self.count = 1000.0, list[tuple[float, int, asyncio.Future[None]]](), itertools.count()
        self.oversleeps: Callable[[], float] = lambda: 0.0

    async def sleep(self, seconds: float) -> None:
        done = asyncio.get_running_loop().create_future()
        heapq.heappush(self.sleepers, (self.now + seconds + self.oversleeps(), next(self.count), done))
        await done

    async def until(self, when: float, check: Callable[[], None] = lambda: None) -> None:
        """Let everybody go on until then."""
        while True:
            for _ in range(6):
                await _yield(0)
                check()
            if not self.sleepers or self.sleepers[0][0] > when:
                break
            self.now, _, sleeper = heapq.heappop(self.sleepers)
            check()
            if not sleeper.done():
                sleeper.set_result(None)
        self.now = when
        check()


class Faulty(InMemory):
    """A way to the API server on which answers get lost, or requests."""

    faults: Callable[[], str] = staticmethod(lambda: "none")

    async def _send(
        self, method: str, url: str, body: Any, content_type: str, sink: Any = None
    ) -> tuple[int, Mapping[str, str], bytes]:
        fault = self.faults()
        if fault == "request":
            raise TimeoutError
        answer = await super()._send(method, url, body, content_type)
        await asyncio.sleep(0)  # on its way back
        if fault == "answer":
            raise TimeoutError
        return answer


@pytest.fixture(scope="module", autouse=True)
def clock() -> Iterator[Clock]:
    made = Clock()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leasing.time, "monotonic", lambda: made.now)
        patch.setattr(asyncio, "sleep", made.sleep)
        yield made


def operator(store: Store, name: str) -> LeaderElector:
    return LeaderElector(Faulty(store), "system", "lease", name, SECONDS)


def lease_of(store: Store) -> dict[str, Any]:
    found: dict[str, Any] = store.objects[AT, "lease"]["spec"]
    return found


async def lead(one: LeaderElector, waiting: Callable[[str], None] = lambda why: None) -> None:
    await one.acquire(waiting)
    await one.keep()


def test_the_first_leads_and_renews(clock: Clock) -> None:
    async def run() -> None:
        store, start = Store(), clock.now
        one = operator(store, "one")
        task = asyncio.create_task(lead(one))
        await clock.until(start + 1)
        first = dict(lease_of(store))
        assert (one.leading, first["holderIdentity"], first["leaseDurationSeconds"]) == (True, "one", 10)
        await clock.until(start + 100)
        assert one.leading
        renewed = lease_of(store)
        assert renewed["renewTime"] > first["renewTime"]
        assert (renewed["acquireTime"], renewed["leaseTransitions"]) == (first["acquireTime"], 0)
        task.cancel()

    asyncio.run(run())


def test_a_second_waits_says_for_whom_and_takes_a_dead_ones_lease(clock: Clock) -> None:
    async def run() -> None:
        store, start, told = Store(), clock.now, list[str]()
        one, two = operator(store, "one"), operator(store, "two")
        first = asyncio.create_task(lead(one))
        await clock.until(start + 1)
        second = asyncio.create_task(lead(two, told.append))
        await clock.until(start + 60)
        assert (one.leading, two.leading, told) == (True, False, ["is held by one"])
        first.cancel()  # as a kill -9 would
        await clock.until(start + 60 + 1.5 * SECONDS)
        assert (one.leading, two.leading) == (False, True)
        assert lease_of(store)["leaseTransitions"] == 1
        second.cancel()

    asyncio.run(run())


def test_a_released_lease_is_taken_at_once(clock: Clock) -> None:
    async def run() -> None:
        store, start = Store(), clock.now
        one, two = operator(store, "one"), operator(store, "two")
        first = asyncio.create_task(lead(one))
        await clock.until(start + 1)
        second = asyncio.create_task(lead(two))
        await clock.until(start + 2)
        first.cancel()
        releasing = asyncio.create_task(one.release())
        await clock.until(start + 2)
        assert releasing.done()
        assert not one.leading
        await clock.until(start + 2 + SECONDS / 5)
        assert two.leading
        second.cancel()

    asyncio.run(run())


def test_who_is_robbed_leads_no_more(clock: Clock) -> None:
    async def run() -> None:
        store, start = Store(), clock.now
        one = operator(store, "one")
        task = asyncio.create_task(lead(one))
        await clock.until(start + 1)
        body = store.objects[AT, "lease"]
        store.put(AT, {**body, "spec": {**body["spec"], "holderIdentity": "robber"}})
        await clock.until(start + SECONDS)
        assert task.done()
        assert not one.leading
        assert lease_of(store)["holderIdentity"] == "robber"

    asyncio.run(run())


def test_an_answer_that_is_lost_loses_no_lease(clock: Clock) -> None:
    async def run() -> None:
        store, start = Store(), clock.now
        one = operator(store, "one")
        task = asyncio.create_task(lead(one))
        await clock.until(start + 1)
        faults = iter(["answer", "answer", "request"])
        one.cluster.faults = lambda: next(faults, "none")  # type: ignore[attr-defined]
        await clock.until(start + 3 * SECONDS)
        assert next(faults, "all came") == "all came"
        assert one.leading
        task.cancel()

    asyncio.run(run())


@settings(max_examples=examples(15, nightly=60))
@given(st.integers(0, 2**32), st.sampled_from([0.0, 0.1, 0.4]), st.sampled_from([0.0, 0.05, 0.2]))
def test_there_are_never_two(clock: Clock, seed: int, faults: float, stalls: float) -> None:
    chance = random.Random(seed)
    clock.oversleeps = lambda: chance.uniform(0, 3 * SECONDS) if chance.random() < stalls else 0.0

    async def run() -> None:
        store, start = Store(), clock.now
        operators = [operator(store, name) for name in ("one", "two", "three")]

        def fault() -> str:
            return chance.choice(["request", "answer"]) if chance.random() < faults else "none"

        async def for_ever(one: LeaderElector) -> None:
            one.cluster.faults = fault  # type: ignore[attr-defined]
            while True:
                await lead(one)

        def check() -> None:
            assert sum(one.leading for one in operators) <= 1

        tasks = [asyncio.create_task(for_ever(one)) for one in operators]
        await clock.until(start + 40 * SECONDS, check)
        clock.oversleeps = lambda: 0.0
        for one in operators:
            one.cluster.faults = lambda: "none"  # type: ignore[attr-defined]
        await clock.until(start + 50 * SECONDS, check)
        assert sum(one.leading for one in operators) == 1
        for task in tasks:
            task.cancel()

    asyncio.run(run())
