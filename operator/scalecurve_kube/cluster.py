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
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import aiohttp

from scalecurve_kube.errors import ClusterError, Fenced, Refused, Unreachable
from scalecurve_kube.resources import PODS, Object, Resource

if TYPE_CHECKING:
    from kubernetes.aio.client.api_client import ApiClient

FIELD_MANAGER = "scalecurve-operator"
PAGE_SIZE = 250
_APPLY = "application/apply-patch+yaml"
_PATIENCE_S = 60.0
_LOG_PATIENCE_S = 3.0
"""A log comes from a node's kubelet, which may be gone for good."""
_MAX_BACKOFF_S = 5.0
_TIMEOUT = aiohttp.ClientTimeout(total=60, sock_connect=10)


class Cluster:
    """One API server. Requests that it is too busy for, or that get lost, are retried for ``patience_s``.

    Retrying a creation is safe here: every name is a function of what it names, so the second one is a conflict.

    ``may_write`` fences a process that lost its lease; ``login`` renews credentials after a 401; ``on_answer`` is
    called with the method and the status of every answer.
    """

    def __init__(
        self,
        client: ApiClient,
        *,
        name: str = "the API server",
        patience_s: float = _PATIENCE_S,
        retry_lost: bool = True,
        may_write: Callable[[], bool] = lambda: True,
        login: Callable[[], Awaitable[object]] | None = None,
        on_answer: Callable[[str, str], None] = lambda method, status: None,
    ) -> None:
        self.client = client
        self.name = name
        self.patience_s = patience_s
        self.retry_lost = retry_lost
        self.may_write = may_write
        self.login = login
        self.on_answer = on_answer
        self.last_answer = time.monotonic()

    async def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """One object; None if it does not exist."""
        try:
            return await self._json("GET", resource.path(namespace, name))
        except Refused as refused:
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
        """Create an object; None if one of this name already exists.

        Raises:
            Refused: for anything else the API server objects to.
        """
        try:
            return await self._json("POST", resource.path(namespace), body, query={"fieldManager": FIELD_MANAGER})
        except Refused as refused:
            if refused.status == 409 and refused.reason == "AlreadyExists":
                return None
            raise

    async def apply(self, resource: Resource, namespace: str, body: Object, subresource: str = "") -> Object:
        """Server-side apply; with ``metadata.resourceVersion`` in ``body`` a newer object is refused with 409."""
        query = {"fieldManager": FIELD_MANAGER, "force": "true"}
        path = resource.path(namespace, body["metadata"]["name"], subresource)
        return await self._json("PATCH", path, body, query=query, content_type=_APPLY)

    async def replace(
        self, resource: Resource, namespace: str, body: Object, patience_s: float | None = None
    ) -> Object:
        """Replace an object; refused with 409 unless ``body`` is its newest version."""
        return await self._json("PUT", resource.path(namespace, body["metadata"]["name"]), body, patience_s=patience_s)

    async def delete(self, resource: Resource, namespace: str, name: str, policy: str, uid: str) -> None:
        """Delete the object with this uid, and its dependents by ``policy``: Background or Foreground.

        That it is already gone is no error.
        """
        body: Object = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": policy}
        body["preconditions"] = {"uid": uid}
        try:
            await self.request("DELETE", resource.path(namespace, name), body)
        except Refused as refused:
            if refused.status not in (404, 409):
                raise
            # A 409 may mean another object of this name, but not only that: what is still there must be deleted later.
            current = await self.get(resource, namespace, name) if refused.status == 409 else None
            if current is not None and current["metadata"]["uid"] == uid:
                raise

    async def log(self, namespace: str, pod: str, container: str, tail: int | None = None) -> str:
        """A container's log, or its last ``tail`` lines."""
        query = {"container": container} | ({} if tail is None else {"tailLines": str(tail)})
        path = PODS.path(namespace, pod, "log")
        return str(
            await self.request("GET", path, query=query, text=True, patience_s=_LOG_PATIENCE_S, busy_s=self.patience_s)
        )

    async def serves(self, resource: Resource) -> bool:
        """Whether the API server knows this kind."""
        try:
            listing = await self.request("GET", f"/apis/{resource.group}/{resource.version}")
        except Refused as refused:
            if refused.status == 404:
                return False
            raise
        return any(entry.get("name") == resource.plural for entry in listing.get("resources", []))

    async def _json(self, method: str, path: str, body: Object | None = None, **options: Any) -> Object:
        answer: Object = await self.request(method, path, body, **options)
        return answer

    async def request(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        text: bool = False,
        patience_s: float | None = None,
        busy_s: float | None = None,
    ) -> Any:  # JSON, or text
        """Send a request, retry it while the server is busy, and return the JSON (or ``text``) of the answer.

        ``busy_s`` is how long to retry a 429, if that is not ``patience_s``.

        Raises:
            Refused: the server answered with an error.
            Unreachable: no answer within ``patience_s``.
            Fenced: a write, and ``may_write`` says no.
        """
        deadline = time.monotonic() + (self.patience_s if patience_s is None else patience_s)
        busy_deadline = deadline if busy_s is None else time.monotonic() + busy_s
        url = self.client.configuration.host + path + (f"?{urlencode(query)}" if query else "")
        backoff, login = 0.1, self.login
        while True:
            # A process that was stopped for a while resumes here; another may have taken over its work long ago.
            if method != "GET" and not self.may_write():
                raise Fenced(f"{method} {path}: this process no longer holds the lease")
            try:
                status, headers, data = await self._send(method, url, body, content_type)
            except (TimeoutError, aiohttp.ClientError, OSError) as error:
                if not self.retry_lost or time.monotonic() + backoff > deadline:
                    raise Unreachable(f"no answer from {self.name}: {_reason(error)}") from error
                self.on_answer(method, "lost")
            else:
                self.on_answer(method, str(status))
                self.last_answer = time.monotonic()
                if status < 400:
                    return data.decode(errors="replace") if text else self._parse(data)
                if status == 401 and login is not None:
                    await login()
                    login = None
                    continue
                busy = status == 429
                retries = busy or status >= 500
                if not retries or time.monotonic() + backoff > (busy_deadline if busy else deadline):
                    raise Refused.from_body(status, data)
                backoff = max(backoff, _seconds(headers.get("Retry-After")))
            await asyncio.sleep(min(backoff, _MAX_BACKOFF_S) * random.uniform(0.5, 1.0))
            backoff = min(backoff * 2, _MAX_BACKOFF_S)

    def _parse(self, data: bytes) -> Object:
        try:
            parsed = json.loads(data)
        except ValueError:
            parsed = None
        if not isinstance(parsed, dict):
            raise ClusterError(f"{self.name} does not answer like a Kubernetes API server; is this the right cluster?")
        return parsed

    async def _send(
        self, method: str, url: str, body: Object | None, content_type: str
    ) -> tuple[int, Mapping[str, str], bytes]:
        headers = {"Accept": "application/json, */*", "Content-Type": content_type, "User-Agent": FIELD_MANAGER}
        # An in-cluster token is renewed on disk; the library's hook reads it again when it is due.
        await self.client.update_params_for_auth(headers, [], ["BearerToken"], "", method, None)
        response = await self.client.rest_client.request(  # type: ignore[no-untyped-call]
            method, url, headers=headers, body=body, _request_timeout=_TIMEOUT
        )
        async with response.response as answer:
            return response.status, answer.headers, await answer.read()


def _reason(error: Exception) -> str:
    number = getattr(error, "errno", None) or 0
    return os.strerror(number) if number > 0 else str(error) or type(error).__name__


def _seconds(value: str | None) -> float:
    return float(value) if value and value.isdigit() else 0.0
