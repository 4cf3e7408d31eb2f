"""Nudges in, turns out: one turn at a time for each experiment, again as often as something changed meanwhile.

Pressing turns, those with an ended job to collect, go before the others and find more room: of a hundred experiments
that start at once, the first to end would otherwise wait for all the others to begin.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from scalecurve_operator.cache.object_cache import Key
from scalecurve_operator.metrics import ERRORS

_AT_ONCE = 16
_CALM_BELOW = 3
_CALM_EVERY_S = 0.25
"""Others begin while fewer than ``_CALM_BELOW`` turns run, and besides one in ``_CALM_EVERY_S``, for turns may hang. An
API server that is kept busy only answers more slowly; what delays beginnings lets results be there at once."""
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.5, 60.0

logger = logging.getLogger(__name__)


class Worklist:
    """Runs ``turn(key)`` for every nudged key, pressing ones first. A turn that fails is repeated, later each time."""

    def __init__(
        self,
        turn: Callable[[Key], Awaitable[None]],
        pressing: Callable[[Key], bool] = lambda key: False,
        at_once: int = _AT_ONCE,
        calm_below: int = _CALM_BELOW,
    ) -> None:
        self.turn, self.pressing = turn, pressing
        self.at_once, self.calm_below = at_once, calm_below
        self.running: dict[Key, asyncio.Task[None]] = {}
        self.waiting: tuple[dict[Key, None], dict[Key, None]] = ({}, {})
        """nudged, in the order of their nudges: pressing, and not"""
        self.dirty: set[Key] = set()
        """nudged while their turn ran"""
        self.timers: dict[Key, asyncio.TimerHandle] = {}
        self.failures: dict[Key, int] = {}
        self.began: dict[Key, float] = {}
        self.calm_began = float("-inf")
        self.alarm: asyncio.TimerHandle | None = None
        """to begin a turn that is not pressing although others are"""
        self.closed = False

    def nudge(self, key: Key, after: float = 0.0) -> None:
        """Have a turn now, or at the latest ``after`` seconds from now."""
        if self.closed:
            return
        if after > 0:
            self._at(key, asyncio.get_running_loop().time() + after)
        elif key in self.running:
            self.dirty.add(key)
        else:
            self._wait(key)
            self._begin()

    def oldest_turn_s(self) -> float:
        """How long the longest turn now running has taken."""
        now = asyncio.get_running_loop().time()
        return max((now - began for began in self.began.values()), default=0.0)

    async def close(self) -> None:
        """Begin nothing more; wait for what runs to reach its end, or cancel it after a moment."""
        self.closed = True
        for timer in (*self.timers.values(), *([self.alarm] if self.alarm else [])):
            timer.cancel()
        if self.running:
            _, late = await asyncio.wait(self.running.values(), timeout=5)
            for task in late:
                task.cancel()

    def _wait(self, key: Key) -> None:
        first, others = self.waiting
        if self.pressing(key):
            others.pop(key, None)
            first[key] = None
        elif key not in first:
            others[key] = None

    def _begin(self) -> None:
        """Start as many turns as there is room for."""
        first, others = self.waiting
        while not self.closed and len(self.running) < self.at_once:
            calm = not first
            if calm and not (others and self._room_for_calm()):
                return
            line = others if calm else first
            key = next(iter(line))
            del line[key]
            if calm:
                self.calm_began = asyncio.get_running_loop().time()
            self.running[key] = asyncio.create_task(self._turn(key), name=f"turn of {key}")

    def _room_for_calm(self) -> bool:
        """Whether a turn that is not pressing may begin; if not, it is asked for again in a moment."""
        if len(self.running) < self.calm_below:
            return True
        loop = asyncio.get_running_loop()
        wait = self.calm_began + _CALM_EVERY_S - loop.time()
        if wait <= 0:
            return True
        if self.alarm is None:
            self.alarm = loop.call_later(wait, self._wake)
        return False

    def _wake(self) -> None:
        self.alarm = None
        self._begin()

    async def _turn(self, key: Key) -> None:
        self.began[key] = asyncio.get_running_loop().time()
        try:
            await self.turn(key)
            self.failures.pop(key, None)
        except Exception as error:
            self._failed(key, error)
        finally:
            del self.began[key], self.running[key]
            if key in self.dirty:
                self.dirty.discard(key)
                self._wait(key)
            self._begin()

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
