"""What every player of pods has of a kubelet: what it watches and writes, and the port where it serves logs."""

import asyncio
import json
import ssl
import sys
import traceback
from collections import defaultdict
from collections.abc import AsyncIterator, Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from scalecurve_api.record import log_lines
from tools.devcluster.rest import client_context

STRATEGIC = "application/strategic-merge-patch+json"
_AGAIN_S = 0.2

Object = dict[str, Any]


@dataclass
class Log:
    """A line, what the program printed, `flood_mib` of short lines, the framed record if there is one, another line."""

    payload: bytes | None = b""
    """of the record; None for a log that cannot be read"""
    printed: str = ""
    flood_mib: int = 0
    torn: bool = False
    """the record lacks its last line"""

    def answer(self, query: Mapping[str, str]) -> web.Response:
        """The log with the limits that the API server passes on."""
        if self.payload is None:
            return web.Response(status=500, text="failed to open log file: no such file or directory")
        text = f"played: a line of output\n{self.printed}"
        if "tailLines" not in query:
            text += "x\n" * (self.flood_mib << 19)
        if self.payload:
            frame = list(log_lines.frame(self.payload))[: -1 if self.torn else None]
            text += "".join(f"{line}\n" for line in [*frame, "played: another line behind the record"])
        if (tail := query.get("tailLines")) is not None:
            last = text.split("\n")[:-1][-int(tail) :] if int(tail) else []
            text = "".join(f"{line}\n" for line in last)
        return web.Response(text=text[: int(query["limitBytes"])] if "limitBytes" in query else text)


class Kubelet:
    """Watches and writes as the user of a kubeconfig, so many writes at a time; serves `logs`."""

    def __init__(self, kubeconfig: Path, port: int, certificate: Path, concurrent: int = 24) -> None:
        read = json.loads(kubeconfig.read_text())
        cluster, user = read["clusters"][0]["cluster"], read["users"][0]["user"]
        self._server, self._client_tls = cluster["server"], client_context(cluster, user)
        self._port, self._tls = port, ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(certificate, certificate.with_suffix(".key"))
        self._slots, self._connections = asyncio.Semaphore(concurrent), concurrent + 4
        self._background: set[asyncio.Task[None]] = set()
        self.logs: defaultdict[tuple[str, str], Log] = defaultdict(Log)
        """By namespace and name of a pod."""

    async def follow(self, path: str, label: str) -> AsyncIterator[tuple[str, Object]]:
        """Serve logs, and tell of every object with this label and of every change, for ever."""
        application = web.Application()
        application.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._serve)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", self._port, ssl_context=self._tls).start()
        connector = aiohttp.TCPConnector(ssl=self._client_tls, limit=self._connections)
        unlimited = aiohttp.ClientTimeout(total=None, sock_connect=5)
        self._known: dict[str, Object] = {}
        async with aiohttp.ClientSession(self._server, connector=connector, timeout=unlimited) as self._session:
            while True:
                try:
                    async for kind, found in self._changes(path, {"labelSelector": label}):
                        uid = found["metadata"]["uid"]
                        self._known.pop(uid, None)
                        if kind != "DELETED":
                            self._known[uid] = found
                        yield kind, found
                except (aiohttp.ClientError, OSError) as error:
                    print(f"watch: {error!r}; again", file=sys.stderr, flush=True)
                await asyncio.sleep(_AGAIN_S)

    async def _changes(self, path: str, query: dict[str, str]) -> AsyncIterator[tuple[str, Object]]:
        """What is there or has gone since, then every change, until the watch ends."""
        listed = await self.read(path, **query)
        there = {each["metadata"]["uid"]: each for each in listed["items"]}
        for uid in self._known.keys() - there.keys():
            yield "DELETED", self._known[uid]
        for each in there.values():
            yield "ADDED", each
        query |= {"watch": "1", "resourceVersion": listed["metadata"]["resourceVersion"], "allowWatchBookmarks": "true"}
        async with self._session.get(path, params=query) as answer:
            answer.raise_for_status()
            rest = b""
            async for data in answer.content.iter_any():
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        return
                    if event["type"] != "BOOKMARK":
                        yield event["type"], event["object"]

    async def _serve(self, request: web.Request) -> web.Response:
        where = request.match_info["namespace"], request.match_info["pod"]
        return self.logs.get(where, Log()).answer(request.query)

    async def read(self, path: str, **query: str) -> Any:
        """What the API server has there."""
        async with self._session.get(path, params=query) as answer:
            answer.raise_for_status()
            return await answer.json()

    async def write(self, method: str, path: str, body: Mapping[str, Any], kind: str = "application/json") -> Any:
        """The answer to a write, however often it takes; None where the object is gone, or there already.

        Raises:
            RuntimeError: the API server refuses it.
        """
        data, headers = json.dumps(body), {"Content-Type": kind}
        while True:
            try:
                async with self._slots, self._session.request(method, path, data=data, headers=headers) as answer:
                    if answer.ok:
                        return await answer.json()
                    if answer.status in (404, 409):
                        return None
                    if answer.status != 429 and answer.status < 500:
                        raise RuntimeError(f"{method} {path}: {answer.status} {await answer.text()}")
            except (aiohttp.ClientError, OSError):
                pass
            await asyncio.sleep(_AGAIN_S)

    def begin(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Let it run beside the others; what it raises is printed."""

        async def reported() -> None:
            try:
                await coroutine
            except Exception:
                traceback.print_exc()
                sys.stderr.flush()

        task = asyncio.create_task(reported())
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task
