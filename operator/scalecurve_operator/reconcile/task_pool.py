"""Several actions under way in one turn, each on a trial of its own: what is slow holds up no other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

AT_ONCE = 8
"""trials of one experiment that are acted on at a time, each with a handful of requests one after the other"""
_LOOK_EVERY_S = 0.05

T = TypeVar("T")


class Hands:
    """Does up to ``most`` things at a time. A trial whose action had to wait (False) is not taken up again.

    As a context: everything taken up has ended when it is left, and is cancelled where it is left by a cancellation.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.tasks: dict[str, asyncio.Task[bool]] = {}
        self.waits: set[str] = set()

    def take(self, trial: str, action: Callable[[], Coroutine[Any, Any, bool]]) -> None:
        """Begin an action, where there is a hand free and this trial is in none."""
        if len(self.tasks) < self.most and trial not in self.tasks and trial not in self.waits:
            self.tasks[trial] = asyncio.create_task(action(), name=f"acting on {trial}")

    async def some_done(self, changed: Callable[[], bool]) -> None:
        """Return when an action has ended, or when there is something new to decide on.

        Raises:
            Exception: of the first action that failed.
        """
        done: set[asyncio.Task[bool]] = set()
        while not done and not changed():
            tasks = self.tasks.values()
            done, _ = await asyncio.wait(tasks, timeout=_LOOK_EVERY_S, return_when=asyncio.FIRST_COMPLETED)
        for trial in [trial for trial, task in self.tasks.items() if task in done]:
            if not self.tasks.pop(trial).result():
                self.waits.add(trial)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, asyncio.CancelledError):
            for task in self.tasks.values():
                task.cancel()
        ends = await asyncio.gather(*self.tasks.values(), return_exceptions=True)
        self.tasks.clear()
        failed = [end for end in ends if isinstance(end, Exception)]
        if failed and error is None:
            raise failed[0]


async def at_once(work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Do work on several trials, some of it at a time. What fails stops nothing else, and is raised at the end."""
    room = asyncio.Semaphore(AT_ONCE)

    async def one(coroutine: Coroutine[Any, Any, T]) -> T:
        async with room:
            return await coroutine

    ends = await asyncio.gather(*map(one, work), return_exceptions=True)
    for end in ends:
        if isinstance(end, BaseException):
            raise end
    return [end for end in ends if not isinstance(end, BaseException)]
