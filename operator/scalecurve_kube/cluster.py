"""One API server over asyncio, as plain JSON: every request of ScaleCurve goes through ``Cluster.request``.

The client library authenticates and holds the connections. Its models are left aside: turning every object into a tree
of them and back costs more than the rest of a reconcile, and custom resources have none.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar
from urllib.parse import urlencode

import aiohttp

from scalecurve_kube.errors import ApiStatusError, ClusterError, LeaseLostError, UnreachableError
from scalecurve_kube.resources import PODS, Object, Resource

if TYPE_CHECKING:
    from kubernetes.aio.client.api_client import ApiClient

FIELD_MANAGER = "scalecurve-operator"
PAGE_SIZE = 250
_JSON, _APPLY = "application/json", "application/apply-patch+yaml"
_LOG_PATIENCE_S = 3.0  # A log comes from a node's kubelet, which may be gone for good
_MAX_BACKOFF_S = 5.0
_PIECE_BYTES = 1 << 16
_TAIL_BYTES = 1 << 18
_TIMEOUT = aiohttp.ClientTimeout(total=60, sock_connect=10)


class LogSink(Protocol):
    """What a log is fed to."""

    def feed(self, data: bytes) -> None: ...


S = TypeVar("S", bound=LogSink)


class _Beginning:
    """The first ``_TAIL_BYTES`` of what it is fed."""

    def __init__(self) -> None:
        self.data = b""

    def feed(self, data: bytes) -> None:
        self.data += data[: _TAIL_BYTES - len(self.data)]


@dataclass(eq=False)
class Cluster:
    """One API server. Requests that it is too busy for, or that get lost, are retried for ``patience_s``.

    Retrying a creation is safe here: every name is a function of what it names, so the second one is a conflict.

    ``may_write`` fences a process that lost its lease; ``login`` renews credentials after a 401; ``on_answer`` is
    called with the method and the status of every answer.
    """

    client: ApiClient
    _: KW_ONLY
    name: str = "the API server"
    patience_s: float = 60.0
    retry_lost: bool = True
    may_write: Callable[[], bool] = lambda: True
    login: Callable[[], Awaitable[object]] | None = None
    on_answer: Callable[[str, str], None] = lambda method, status: None
    last_answer: float = field(init=False, default_factory=time.monotonic)

    async def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        return await self.lookup(resource.path(namespace, name))

    async def lookup(self, path: str) -> Object | None:
        """The JSON at a path; None if there is none."""
        try:
            return await self.request("GET", path)
        except ApiStatusError as refused:
            if refused.status == 404:
                return None
            raise

    async def list(self, resource: Resource, namespace: str = "", **query: str) -> list[Object]:
        """Objects selected by ``labelSelector`` or ``fieldSelector``, in all namespaces if none is named."""
        return [body async for page in self.pages(resource, namespace, **query) for body in page]

    async def pages(self, resource: Resource, namespace: str = "", **query: str) -> AsyncIterator[Sequence[Object]]:
        """The same, one page at a time."""
        query["limit"] = str(PAGE_SIZE)
        while True:
            page = await self.request("GET", resource.path(namespace), query=query)
            yield page.get("items") or []
            query["continue"] = (page.get("metadata") or {}).get("continue") or ""
            if not query["continue"]:
                return

    async def create(self, resource: Resource, namespace: str, body: Object) -> Object | None:
        """Create an object; None if one of this name already exists."""
        try:
            return await self.request("POST", resource.path(namespace), body, query={"fieldManager": FIELD_MANAGER})
        except ApiStatusError as refused:
            if refused.status == 409 and refused.reason == "AlreadyExists":
                return None
            raise

    async def apply(self, resource: Resource, namespace: str, body: Object, subresource: str = "") -> Object:
        """Server-side apply; with ``metadata.resourceVersion`` in ``body`` a newer object is refused with 409."""
        query = {"fieldManager": FIELD_MANAGER, "force": "true"}
        path = resource.path(namespace, body["metadata"]["name"], subresource)
        return await self.request("PATCH", path, body, query=query)

    async def replace(
        self, resource: Resource, namespace: str, body: Object, patience_s: float | None = None
    ) -> Object:
        """Replace an object; refused with 409 unless ``body`` is its newest version."""
        path = resource.path(namespace, body["metadata"]["name"])
        return await self.request("PUT", path, body, patience_s=patience_s)

    async def delete(self, resource: Resource, namespace: str, name: str, policy: str, uid: str) -> None:
        """Delete the object with this uid if it still exists, and its dependents by ``policy``."""
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy, "preconditions": {"uid": uid}}
        try:
            await self.request("DELETE", resource.path(namespace, name), body)
        except ApiStatusError as refused:
            if refused.status not in (404, 409):
                raise
            # A 409 may mean another object of this name, but not only that: what is still there must be deleted later.
            current = await self.get(resource, namespace, name) if refused.status == 409 else None
            if current is not None and current["metadata"]["uid"] == uid:
                raise

    async def read_log(self, namespace: str, pod: str, container: str, sink: Callable[[], S], **query: str) -> S:
        """Feed a container's log to a new ``sink`` as it comes in: it may be of any size; the sink that got all of it.

        Raises:
            Exception: what the sink raises, which ends the reading.
        """
        query["container"] = container
        fed: list[S] = []

        def new() -> S:
            fed[:] = [sink()]
            return fed[0]

        path = PODS.path(namespace, pod, "log")
        await self._exchange("GET", path, None, query, _LOG_PATIENCE_S, busy_s=self.patience_s, sink=new)
        return fed[0]

    async def log_tail(self, namespace: str, pod: str, container: str, lines: int) -> str:
        """The last lines of a container's log, ``_TAIL_BYTES`` of them."""
        limits = {"tailLines": str(lines), "limitBytes": str(_TAIL_BYTES)}
        tail = await self.read_log(namespace, pod, container, _Beginning, **limits)
        return tail.data.decode(errors="replace")

    async def serves(self, resource: Resource) -> bool:
        listing = await self.lookup(f"/apis/{resource.group}/{resource.version}") or {}
        return any(entry.get("name") == resource.plural for entry in listing.get("resources", []))

    async def request(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        *,
        query: Mapping[str, str] | None = None,
        patience_s: float | None = None,
    ) -> Object:
        """Send a request, retry it while the server is busy, and return the JSON of the answer.

        Raises:
            ApiStatusError: the server answered with an error.
            UnreachableError: no answer within ``patience_s``.
            LeaseLostError: a write, and ``may_write`` says no.
        """
        patience_s = self.patience_s if patience_s is None else patience_s
        data = await self._exchange(method, path, body, query, patience_s, busy_s=patience_s)
        try:
            parsed = json.loads(data)
        except ValueError:
            parsed = None
        if not isinstance(parsed, dict):
            raise ClusterError(f"{self.name} does not answer like a Kubernetes API server; is this the right cluster?")
        return parsed

    async def _exchange(
        self,
        method: str,
        path: str,
        body: Object | None,
        query: Mapping[str, str] | None,
        lost_s: float,
        busy_s: float,
        sink: Callable[[], LogSink] | None = None,
    ) -> bytes:
        """The answer's body; a 429 is retried for ``busy_s``, what got lost or failed for ``lost_s``.

        With ``sink`` the answer is fed to a new one at every try, and the body is empty.
        """
        deadline, busy_deadline = time.monotonic() + lost_s, time.monotonic() + busy_s
        url = self.client.configuration.host + path + (f"?{urlencode(query)}" if query else "")
        backoff, login = 0.1, self.login
        while True:
            # A process that was stopped for a while resumes here; another may have taken over its work long ago.
            if method != "GET" and not self.may_write():
                raise LeaseLostError(f"{method} {path}: this process no longer holds the lease")
            try:
                content_type = _APPLY if method == "PATCH" else _JSON
                status, headers, data = await self._send(method, url, body, content_type, sink and sink())
            except (TimeoutError, aiohttp.ClientError, OSError) as error:
                if not self.retry_lost or time.monotonic() + backoff > deadline:
                    raise UnreachableError(f"no answer from {self.name}: {_reason(error)}") from error
                self.on_answer(method, "lost")
            else:
                self.on_answer(method, str(status))
                self.last_answer = time.monotonic()
                if status < 400:
                    return data
                if status == 401 and login is not None:
                    await login()
                    login = None
                    continue
                retries = status == 429 or status >= 500
                if not retries or time.monotonic() + backoff > (busy_deadline if status == 429 else deadline):
                    raise ApiStatusError.from_body(status, data)
                after = headers.get("Retry-After", "")
                backoff = max(backoff, float(after) if after.isdigit() else 0.0)
            await asyncio.sleep(min(backoff, _MAX_BACKOFF_S) * random.uniform(0.5, 1.0))
            backoff = min(backoff * 2, _MAX_BACKOFF_S)

    async def _send(
        self, method: str, url: str, body: Object | None, content_type: str, sink: LogSink | None = None
    ) -> tuple[int, Mapping[str, str], bytes]:
        headers = {"Accept": "application/json, */*", "Content-Type": content_type, "User-Agent": FIELD_MANAGER}
        # An in-cluster token is renewed on disk; the library's hook reads it again when it is due.
        await self.client.update_params_for_auth(headers, [], ["BearerToken"], "", method, None)
        response = await self.client.rest_client.request(  # type: ignore[no-untyped-call]
            method, url, headers=headers, body=body, _request_timeout=_TIMEOUT
        )
        async with response.response as answer:
            if sink is None or response.status >= 400:
                return response.status, answer.headers, await answer.read()
            async for piece in answer.content.iter_chunked(_PIECE_BYTES):
                sink.feed(piece)
            return response.status, answer.headers, b""


def _reason(error: Exception) -> str:
    number = getattr(error, "errno", None) or 0
    return os.strerror(number) if number > 0 else str(error) or type(error).__name__
