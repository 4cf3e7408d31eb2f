"""Probes and metrics over HTTP. Healthy means making progress: a process whose watches have died makes none.

kopf's own liveness endpoint answers as long as its loop runs; its watch streams have been seen to end silently
(nolar/kopf#1145, #1276). So every write of ours must come back through the watch of its kind before long.
"""

from collections.abc import Awaitable, Callable

from aiohttp import web

from scalecurve_operator.metrics import exposition

MAX_WATCH_LAG_S = 120.0
MAX_RECONCILE_S = 600.0
MAX_SILENCE_S = 300.0


def unhealthy(
    unconfirmed: dict[str, tuple[int, float]],
    oldest_reconcile_s: float,
    last_answer: float,
    leading: bool,
    now: float,
) -> str | None:
    """Why this process should be restarted; None while it makes progress. Times are monotonic seconds."""
    for plural, (version, since) in unconfirmed.items():
        if now - since > MAX_WATCH_LAG_S:
            return f"the watch of {plural} has not shown version {version}, written {now - since:.0f} s ago"
    if oldest_reconcile_s > MAX_RECONCILE_S:
        return f"a reconcile has been running for {oldest_reconcile_s:.0f} s"
    if leading and now - last_answer > MAX_SILENCE_S:
        return f"the API server has not answered for {now - last_answer:.0f} s"
    return None


class HealthServer:
    """/metrics on one port, /healthz and /readyz on another; port 0 lets the system choose."""

    def __init__(
        self, unhealthy: Callable[[], str | None], unready: Callable[[], str | None], refresh: Callable[[], None]
    ) -> None:
        self.unhealthy, self.unready, self.refresh = unhealthy, unready, refresh
        self.sites: list[web.AppRunner] = []

    async def start(self, metrics_port: int, health_port: int) -> None:
        """Listen on every address; OSError if a port is taken."""
        metrics, health = web.Application(), web.Application()
        metrics.router.add_get("/metrics", self._metrics)
        health.router.add_get("/healthz", _probe(self.unhealthy))
        health.router.add_get("/readyz", _probe(self.unready))
        for app, port in ((metrics, metrics_port), (health, health_port)):
            runner = web.AppRunner(app, access_log=None)
            await runner.setup()
            self.sites.append(runner)
            await web.TCPSite(runner, None, port).start()

    async def stop(self) -> None:
        for runner in self.sites:
            await runner.cleanup()

    async def _metrics(self, _: web.Request) -> web.Response:
        self.refresh()
        return web.Response(body=exposition(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})


def _probe(problem: Callable[[], str | None]) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(_: web.Request) -> web.Response:
        text = problem()
        return web.Response(text=f"{text or 'ok'}\n", status=503 if text else 200)

    return answer
