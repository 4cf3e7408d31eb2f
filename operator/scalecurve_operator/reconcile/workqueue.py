"""A rate-limited work queue of experiments: one reconcile at a time for each, repeated if it changed meanwhile.

High-priority keys, those with an ended job to collect, go first and get more slots: of a hundred experiments that start
at once, the first to end would otherwise wait until all the others have begun.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from scalecurve_operator.cache.cached_objects import Key
from scalecurve_operator.metrics import RECONCILE_ERRORS

_LOW_PRIORITY_INTERVAL_S = 0.25
"""Low-priority reconciles begin while fewer than ``low_priority_concurrency`` run, and beyond that one per interval,
because a reconcile may hang. A busy API server only answers more slowly; delaying starts gets results in sooner."""
_FIRST_BACKOFF_S, _MAX_BACKOFF_S = 0.5, 60.0
_CLOSE_S = 5.0

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class WorkQueue:
    """Calls ``reconcile(key)`` for every key that is enqueued; one that fails is retried with exponential backoff."""

    reconcile: Callable[[Key], Awaitable[None]]
    high_priority: Callable[[Key], bool] = lambda key: False
    concurrency: int = 16
    low_priority_concurrency: int = 3

    def __post_init__(self) -> None:
        self.running: dict[Key, asyncio.Task[None]] = {}
        self.high: dict[Key, None] = {}  # queued keys, first in first out
        self.low: dict[Key, None] = {}
        self.dirty: set[Key] = set()  # enqueued while their reconcile was running
        self.timers: dict[Key, asyncio.TimerHandle] = {}
        self.failures: dict[Key, int] = {}
        self.started: dict[Key, float] = {}
        self.low_priority_started = float("-inf")
        self.wake_up: asyncio.TimerHandle | None = None  # to start a low-priority reconcile although others run
        self.closed = False

    def enqueue(self, key: Key, after: float = 0.0) -> None:
        """Reconcile now, or at the latest ``after`` seconds from now."""
        if self.closed:
            return
        if after > 0:
            self._schedule(key, asyncio.get_running_loop().time() + after)
        elif key in self.running:
            self.dirty.add(key)
        else:
            self._queue(key)
            self._dispatch()

    def oldest_reconcile_seconds(self) -> float:
        now = asyncio.get_running_loop().time()
        return max((now - started for started in self.started.values()), default=0.0)

    async def close(self) -> None:
        """Start nothing more; let what runs end, or cancel it after a few seconds."""
        self.closed = True
        for timer in (*self.timers.values(), *([self.wake_up] if self.wake_up else [])):
            timer.cancel()
        if self.running:
            _, late = await asyncio.wait(self.running.values(), timeout=_CLOSE_S)
            for task in late:
                task.cancel()

    def _queue(self, key: Key) -> None:
        if self.high_priority(key):
            self.low.pop(key, None)
            self.high[key] = None
        elif key not in self.high:
            self.low[key] = None

    def _dispatch(self) -> None:
        while not self.closed and len(self.running) < self.concurrency:
            queue = self.high or self.low
            if not queue or (queue is self.low and not self._low_priority_slot()):
                return
            key = next(iter(queue))
            del queue[key]
            self.running[key] = asyncio.create_task(self._run(key), name=f"reconcile {key}")

    def _low_priority_slot(self) -> bool:
        """Whether a low-priority reconcile may start now; if not, a timer dispatches again when one may."""
        loop = asyncio.get_running_loop()
        wait = self.low_priority_started + _LOW_PRIORITY_INTERVAL_S - loop.time()
        if len(self.running) < self.low_priority_concurrency or wait <= 0:
            self.low_priority_started = loop.time()
            return True
        if self.wake_up is None:
            self.wake_up = loop.call_later(wait, self._wake)
        return False

    def _wake(self) -> None:
        self.wake_up = None
        self._dispatch()

    async def _run(self, key: Key) -> None:
        self.started[key] = asyncio.get_running_loop().time()
        try:
            await self.reconcile(key)
            self.failures.pop(key, None)
        except Exception as error:
            self._retry(key, error)
        finally:
            del self.started[key], self.running[key]
            if key in self.dirty:
                self.dirty.discard(key)
                self._queue(key)
            self._dispatch()

    def _retry(self, key: Key, error: Exception) -> None:
        RECONCILE_ERRORS.inc()
        count = self.failures[key] = self.failures.get(key, 0) + 1
        backoff = min(_FIRST_BACKOFF_S * 2 ** (count - 1), _MAX_BACKOFF_S)
        logger.warning("%s: %s; retrying in %.1f s", key, error, backoff, exc_info=error if count > 1 else None)
        self.enqueue(key, after=backoff)

    def _schedule(self, key: Key, when: float) -> None:
        timer = self.timers.get(key)
        if timer is not None and not timer.cancelled():
            if timer.when() <= when:
                return
            timer.cancel()
        self.timers[key] = asyncio.get_running_loop().call_at(when, self._ring, key)

    def _ring(self, key: Key) -> None:
        self.timers.pop(key, None)
        self.enqueue(key)
