"""A bad network between an operator and its API server: every request passes here, is noted, and may suffer a fault.

    with Proxy(tier, account) as proxy:
        proxy.fault = lambda call: Refuse(500) if call.kind == "POST jobs" else None
        with OperatorProcess(tier, namespace, proxy.kubeconfig) as operator: ...

It ends TLS with a certificate of the tier's authority, and goes on to the API server as the account that it stands
for. It runs in a thread of the test; `fault` and what `Halt` calls are called there.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import random
import ssl
import threading
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import aiohttp
from aiohttp import web

from tests.waiting import PATIENCE_S
from tools.devcluster.ports import Ports
from tools.devcluster.rest import client_context
from tools.devcluster.tier import Tier

_NUMBERS = itertools.count()
_HOP = {"host", "connection", "keep-alive", "transfer-encoding", "content-length", "content-encoding"}
_REASONS = {409: "Conflict", 410: "Expired", 429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable"}


@dataclass(frozen=True)
class Call:
    """A request: `kind` is VERB RESOURCE[/PART][ PHASE], `object` what it is about, `nth` counts this kind and object.

    PHASE is that of the status in the body: trials' statuses are patched for three reasons.
    """

    kind: str
    object: str
    nth: int

    @property
    def watches(self) -> bool:
        return self.kind.startswith("WATCH ")


@dataclass(frozen=True)
class Halt:
    """Call `then`, and never answer; with `forwarded` the API server has acted on the request before."""

    then: Callable[[], None] = lambda: None
    forwarded: bool = False


@dataclass(frozen=True)
class Between:
    """Forward it, call `then`, and pass the answer on."""

    then: Callable[[], None]


@dataclass(frozen=True)
class Refuse:
    """Answer in the API server's place, which does not see the request."""

    status: int
    retry_after_s: int | None = None


@dataclass(frozen=True)
class Delay:
    """Forward it later."""

    seconds: float


Fault = Halt | Between | Refuse | Delay


class Proxy:
    """One account's way to the API server."""

    def __init__(self, tier: Tier, account: Path) -> None:
        read = json.loads(account.read_text())
        cluster, user = read["clusters"][0]["cluster"], read["users"][0]["user"]
        self._upstream, self._client_tls = cluster["server"], client_context(cluster, user)
        self._ports, name = Ports(), f"proxy-{next(_NUMBERS)}"
        self._port = self._ports.take()
        certificate = tier.authority.certificate(name, f"/CN={name}", "IP:127.0.0.1")
        self._server_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._server_tls.load_cert_chain(certificate, certificate.with_suffix(".key"))
        cluster["server"] = f"https://127.0.0.1:{self._port}"
        self.kubeconfig = tier.folder / f"{name}.kubeconfig"
        self.kubeconfig.write_text(json.dumps(read))
        self.kubeconfig.chmod(0o600)
        self.fault: Callable[[Call], Fault | None] = lambda call: None
        self.calls: list[Call] = []
        self.faults: list[tuple[Call, Fault]] = []
        self._seen: Counter[tuple[str, str]] = Counter()
        self._streams: dict[web.StreamResponse, web.Request] = {}
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name=name)

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._started.wait(PATIENCE_S):
            raise TimeoutError(f"the proxy did not start in {PATIENCE_S:g} s")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()
        self._ports.release()

    @property
    def watches(self) -> int:
        """How many watches it carries now."""
        return len(self._streams)

    def cut_watches(self) -> int:
        """Reset every connection that carries a watch; how many."""

        async def cut(stream: web.StreamResponse, request: web.Request) -> None:
            _reset(request)

        return self._on_streams(cut)

    def expire_watches(self) -> int:
        """Tell every watch that its version is too old, as a server does whose history was compacted; how many."""
        return self._on_streams(_expire)

    def _on_streams(self, act: Callable[[web.StreamResponse, web.Request], Awaitable[None]]) -> int:
        async def do() -> int:
            streams = dict(self._streams)
            await asyncio.gather(*(act(*each) for each in streams.items()))
            return len(streams)

        return asyncio.run_coroutine_threadsafe(do(), self._loop).result(PATIENCE_S)

    async def _serve(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        application = web.Application(client_max_size=1 << 26)
        application.router.add_route("*", "/{path:.*}", self._answer)
        # A killed client's watches must end with it.
        runner = web.AppRunner(application, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        connector = aiohttp.TCPConnector(ssl=self._client_tls, limit=0)
        unlimited = aiohttp.ClientTimeout(total=None, sock_connect=60)
        async with aiohttp.ClientSession(connector=connector, timeout=unlimited) as self._session:
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", self._port, ssl_context=self._server_tls).start()
            self._started.set()
            await self._stopping.wait()
            for request in self._streams.values():
                _reset(request)
            await runner.cleanup()
        await asyncio.sleep(0.05)  # transports close in later rounds of the loop

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        kind, about = classify(request.method, request.path, dict(request.query), body)
        self._seen[kind, about] += 1
        call = Call(kind, about, self._seen[kind, about])
        self.calls.append(call)
        fault = self.fault(call)
        if fault is not None:
            self.faults.append((call, fault))
        if isinstance(fault, Refuse):
            return _refusal(fault)
        if isinstance(fault, Delay):
            await asyncio.sleep(fault.seconds)
        if isinstance(fault, Halt) and not fault.forwarded:
            return _halt(request, fault)
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP}
        url = f"{self._upstream}{request.rel_url}"
        try:
            async with self._session.request(request.method, url, data=body or None, headers=headers) as answer:
                if isinstance(fault, Halt):
                    if not call.watches:
                        await answer.read()
                    return _halt(request, fault)
                if call.watches and answer.status == 200:
                    return await self._pass_on(request, answer)
                kept = {name: value for name, value in answer.headers.items() if name.lower() not in _HOP}
                text = await answer.read()
                if isinstance(fault, Between):
                    fault.then()
                return web.Response(status=answer.status, headers=kept, body=text)
        except (aiohttp.ClientError, OSError):
            return _hang_up(request)

    async def _pass_on(self, request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        stream = web.StreamResponse(headers={"Content-Type": "application/json"})
        await stream.prepare(request)
        self._streams[stream] = request
        try:
            async for data in answer.content.iter_any():
                await stream.write(data)
        except (aiohttp.ClientError, OSError):
            _reset(request)
        finally:
            del self._streams[stream]
        return stream


def classify(method: str, path: str, query: dict[str, str], body: bytes) -> tuple[str, str]:
    """Kind and object of a request, as `Call` has them."""
    parts = path.strip("/").split("/")
    # /api/v1/... and /apis/GROUP/VERSION/...
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        rest = rest[2:]
    if not rest:
        return f"{method} discovery", path
    resource, name = rest[0], "/".join(rest[1:2])
    if len(rest) > 2:
        resource = f"{resource}/{rest[2]}"
    verb = method if name or method != "GET" else "LIST"
    if query.get("watch") in ("true", "1"):
        verb = "WATCH"
    phase = ""
    if body and method in ("POST", "PATCH", "PUT"):
        tree = json.loads(body)
        name = name or tree.get("metadata", {}).get("name", "")
        said = (tree.get("status") or {}).get("phase")
        phase = f" {said}" if said and resource.endswith("/status") else ""
    return f"{verb} {resource}{phase}", name or query.get("labelSelector", "") or query.get("fieldSelector", "")


def rain(seed: int, rate: float, statuses: tuple[int, ...]) -> Callable[[Call], Fault | None]:
    """Faults for a share `rate` of all calls: a status, or the loss of the request or of its answer.

    A function of the seed and the call, so that a run is repeated as nearly as it can be. A 429 and a 503 ask for a
    second's patience at times, as the API server does.
    """

    def fault(call: Call) -> Fault | None:
        chance = random.Random(f"{seed}/{call}")
        if chance.random() >= rate:
            return None
        chosen = chance.choice([*statuses, "lost", "unanswered"])
        if chosen == "lost":
            return Halt()
        if chosen == "unanswered":
            return Halt(forwarded=True)
        assert isinstance(chosen, int)
        return Refuse(chosen, retry_after_s=1 if chosen in (429, 503) and chance.random() < 0.2 else None)

    return fault


def _refusal(fault: Refuse) -> web.Response:
    said = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "injected",
        "reason": _REASONS[fault.status],
        "code": fault.status,
    }
    headers = {"Retry-After": str(fault.retry_after_s)} if fault.retry_after_s is not None else {}
    return web.json_response(said, status=fault.status, headers=headers)


def _halt(request: web.Request, fault: Halt) -> web.StreamResponse:
    fault.then()
    return _hang_up(request)


def _hang_up(request: web.Request) -> web.StreamResponse:
    _reset(request)
    return web.Response(status=502)


def _reset(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()


async def _expire(stream: web.StreamResponse, request: web.Request) -> None:
    gone = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Expired", "code": 410}
    event = {"type": "ERROR", "object": {**gone, "message": "too old resource version: injected"}}
    with contextlib.suppress(ConnectionError):
        await stream.write(json.dumps(event).encode() + b"\n")
    await asyncio.sleep(0.05)  # what was written must leave first
    _reset(request)
