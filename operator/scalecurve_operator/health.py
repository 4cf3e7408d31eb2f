"""Probes and metrics over HTTP. Alive means making progress: a living process whose watches have died is not.

kopf's own liveness endpoint answers as long as its loop runs; its watch streams have been seen to end silently
(nolar/kopf#1145, #1276). So every write of ours must come back through the watch of its kind in a while.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from aiohttp import web

from scalecurve_operator.metrics import exposition

ECHO_S = 120.0
TURN_S = 600.0
ANSWER_S = 300.0


def sick(
    unechoed: dict[str, tuple[int, float]], oldest_turn_s: float, last_answer: float, leading: bool, now: float
) -> str | None:
    """Why this process should be restarted; None while it makes progress. Times are monotonic seconds."""
    for kind, (version, since) in unechoed.items():
        if now - since > ECHO_S:
            return f"the watch of {kind} has not shown version {version}, written {now - since:.0f} s ago"
    if oldest_turn_s > TURN_S:
        return f"a turn has been running for {oldest_turn_s:.0f} s"
    if leading and now - last_answer > ANSWER_S:
        return f"the API server has not answered for {now - last_answer:.0f} s"
    return None


class Web:
    """/metrics on one port, /healthz and /readyz on another; port 0 lets the system choose."""

    def __init__(
        self, why_sick: Callable[[], str | None], why_not_ready: Callable[[], str | None], refresh: Callable[[], None]
    ) -> None:
        self.why_sick, self.why_not_ready, self.refresh = why_sick, why_not_ready, refresh
        self.runners: list[web.AppRunner] = []

    async def start(self, metrics_port: int, health_port: int) -> None:
        """Listen on every address.

        Raises:
            OSError: when a port is taken.
        """
        metrics, health = web.Application(), web.Application()
        metrics.router.add_get("/metrics", self._metrics)
        health.router.add_get("/healthz", self._healthz)
        health.router.add_get("/readyz", self._readyz)
        for app, port in ((metrics, metrics_port), (health, health_port)):
            runner = web.AppRunner(app, access_log=None)
            await runner.setup()
            self.runners.append(runner)
            await web.TCPSite(runner, None, port).start()

    async def stop(self) -> None:
        """Close both ports."""
        for runner in self.runners:
            await runner.cleanup()

    async def _metrics(self, _: web.Request) -> web.Response:
        self.refresh()
        return web.Response(body=exposition(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    async def _healthz(self, _: web.Request) -> web.Response:
        return _answer(self.why_sick())

    async def _readyz(self, _: web.Request) -> web.Response:
        return _answer(self.why_not_ready())


def _answer(problem: str | None) -> web.Response:
    return web.Response(text=f"{problem or 'ok'}\n", status=503 if problem else 200)


def now() -> float:
    """The clock of this module."""
    return time.monotonic()
