"""Bounded concurrency within one reconcile: trials are acted on side by side, and a slow one delays no other."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from types import TracebackType
from typing import Any, Self

CONCURRENCY = 8  # trials of one experiment that are acted on at a time, each with a few requests in sequence
_POLL_S = 0.05


class TaskPool:
    """Runs one task per trial, ``size`` at a time; a trial whose task was postponed (False) is not run again.

    On leaving the context every task has ended; if it is left by a cancellation, they are cancelled.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.tasks: dict[str, asyncio.Task[bool]] = {}
        self.postponed: set[str] = set()

    def submit(self, trial: str, action: Callable[[], Coroutine[Any, Any, bool]]) -> None:
        """Start an action if there is a free slot and the trial has none running."""
        if len(self.tasks) < self.size and trial not in self.tasks and trial not in self.postponed:
            self.tasks[trial] = asyncio.create_task(action(), name=f"action on {trial}")

    async def wait(self, changed: Callable[[], bool]) -> None:
        """Return when a task has ended, or when there is something new to decide on; raise what a task raised."""
        done: set[asyncio.Task[bool]] = set()
        while not done and not changed():
            tasks = self.tasks.values()
            done, _ = await asyncio.wait(tasks, timeout=_POLL_S, return_when=asyncio.FIRST_COMPLETED)
        for trial in [trial for trial, task in self.tasks.items() if task in done]:
            if not self.tasks.pop(trial).result():
                self.postponed.add(trial)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, asyncio.CancelledError):
            for task in self.tasks.values():
                task.cancel()
        results = await asyncio.gather(*self.tasks.values(), return_exceptions=True)
        self.tasks.clear()
        failed = [result for result in results if isinstance(result, Exception)]
        if failed and error is None:
            raise failed[0]


async def gather_bounded(work: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Run coroutines ``CONCURRENCY`` at a time. A failure stops no other, and is raised at the end."""
    slots = asyncio.Semaphore(CONCURRENCY)

    async def run(coroutine: Coroutine[Any, Any, None]) -> None:
        async with slots:
            await coroutine

    for result in await asyncio.gather(*map(run, work), return_exceptions=True):
        if result is not None:
            raise result
