"""Nudges in, turns out: one turn at a time for each experiment, again as often as something changed meanwhile."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from scalebench_operator.metrics import ERRORS
from scalebench_operator.sightings import Key

_AT_ONCE = 64
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.5, 60.0

logger = logging.getLogger(__name__)


class Worklist:
    """Runs ``turn(key)`` for every nudged key. A turn that fails is repeated, later each time."""

    def __init__(self, turn: Callable[[Key], Awaitable[None]], at_once: int = _AT_ONCE) -> None:
        self.turn = turn
        self.room = asyncio.Semaphore(at_once)
        self.running: dict[Key, asyncio.Task[None]] = {}
        self.dirty: set[Key] = set()
        self.timers: dict[Key, asyncio.TimerHandle] = {}
        self.failures: dict[Key, int] = {}
        self.began: dict[Key, float] = {}
        self.closed = False

    def nudge(self, key: Key, after: float = 0.0) -> None:
        """Have a turn now, or at the latest ``after`` seconds from now."""
        if self.closed:
            return
        if after > 0:
            self._at(key, asyncio.get_running_loop().time() + after)
            return
        self.dirty.add(key)
        if key not in self.running:
            self.running[key] = asyncio.create_task(self._turns(key), name=f"turns of {key}")

    def oldest_turn_s(self) -> float:
        """How long the longest turn now running has taken."""
        now = asyncio.get_running_loop().time()
        return max((now - began for began in self.began.values()), default=0.0)

    async def close(self) -> None:
        """Begin nothing more; wait for what runs to reach its end, or cancel it after a moment."""
        self.closed = True
        for timer in self.timers.values():
            timer.cancel()
        if self.running:
            _, late = await asyncio.wait(self.running.values(), timeout=5)
            for task in late:
                task.cancel()

    async def _turns(self, key: Key) -> None:
        loop = asyncio.get_running_loop()
        try:
            while key in self.dirty and not self.closed:
                async with self.room:
                    self.dirty.discard(key)
                    self.began[key] = loop.time()
                    try:
                        await self.turn(key)
                        self.failures.pop(key, None)
                    except Exception as error:
                        self._failed(key, error)
                    finally:
                        self.began.pop(key, None)
        finally:
            self.running.pop(key, None)
            if key in self.dirty and not self.closed:
                self.nudge(key)

    def _failed(self, key: Key, error: Exception) -> None:
        ERRORS.inc()
        count = self.failures[key] = self.failures.get(key, 0) + 1
        wait = min(_FIRST_WAIT_S * 2 ** (count - 1), _LONGEST_WAIT_S)
        logger.warning("%s: %s; again in %.1f s", key, error, wait, exc_info=error if count > 1 else None)
        self.nudge(key, after=wait)

    def _at(self, key: Key, when: float) -> None:
        known = self.timers.get(key)
        if known is not None and not known.cancelled():
            if known.when() <= when:
                return
            known.cancel()
        self.timers[key] = asyncio.get_running_loop().call_at(when, self._ring, key)

    def _ring(self, key: Key) -> None:
        self.timers.pop(key, None)
        self.nudge(key)
