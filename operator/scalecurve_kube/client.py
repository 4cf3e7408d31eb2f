"""The API server, as plain JSON: every request of the operator goes through ``Cluster.request``.

Models of the client library are left aside: turning each object into a tree of them and back costs more than all
the rest of a reconciliation, and custom resources have none.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

import aiohttp
from kubernetes.aio.client.api_client import ApiClient

from scalecurve_operator.metrics import REQUESTS

FIELD_MANAGER = "scalecurve-operator"
_APPLY = "application/apply-patch+yaml"
_PATIENCE_S = 60.0
_LOG_PATIENCE_S = 3.0
"""A log comes from a node's kubelet, which may be gone for good."""
_LONGEST_WAIT_S = 5.0
_TIMEOUT = aiohttp.ClientTimeout(total=60, sock_connect=10)

Object = dict[str, Any]


class Refused(Exception):
    """The API server said no; ``message`` is its own."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status, self.reason, self.message = status, reason, message


class Unreachable(Exception):
    """The API server did not answer for a minute."""


class Fenced(Exception):
    """We may not write: the lease is lost, or was not renewed in time."""


@dataclass(frozen=True, slots=True)
class Resource:
    """Where objects of a kind are found."""

    group: str
    version: str
    plural: str
    kind: str

    @property
    def api_version(self) -> str:
        """As objects spell it."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str, name: str = "", sub: str = "") -> str:
        """Of the collection, of one object, or of a part of it."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        parts = [root, "namespaces", quote(namespace), self.plural, *([quote(name)] if name else [])]
        return "/".join([*parts, *([sub] if sub else [])])


EXPERIMENTS = Resource("scalecurve.dev", "v1alpha1", "scalingexperiments", "ScalingExperiment")
TRIALS = Resource("scalecurve.dev", "v1alpha1", "scalingtrials", "ScalingTrial")
PODS = Resource("", "v1", "pods", "Pod")
SERVICES = Resource("", "v1", "services", "Service")
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
EVENTS = Resource("", "v1", "events", "Event")
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")


class Cluster:
    """One API server. Requests that it is too busy for, or that get lost, are repeated for up to a minute.

    Repeating a creation is safe here: every name is a function of what it names, so the second one is a conflict.
    """

    def __init__(
        self, client: ApiClient, patience_s: float = _PATIENCE_S, may_write: Callable[[], bool] = lambda: True
    ) -> None:
        self.client, self.patience_s, self.may_write = client, patience_s, may_write
        self.last_answer = time.monotonic()

    async def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """One object; None where there is none."""
        try:
            found: Object = await self.request("GET", resource.path(namespace, name))
            return found
        except Refused as refused:
            if refused.status == 404:
                return None
            raise

    async def list(self, resource: Resource, namespace: str, **query: str) -> list[Object]:
        """Objects by ``labelSelector`` or ``fieldSelector``."""
        found = await self.request("GET", resource.path(namespace), query=query)
        return list(found.get("items") or [])

    async def create(self, resource: Resource, namespace: str, body: Object) -> Object | None:
        """Create an object; None where one of this name is there already.

        Raises:
            Refused: for anything else the API server objects to.
        """
        try:
            query = {"fieldManager": FIELD_MANAGER}
            made: Object = await self.request("POST", resource.path(namespace), body, query=query)
            return made
        except Refused as refused:
            if refused.status == 409 and refused.reason == "AlreadyExists":
                return None
            raise

    async def apply(self, resource: Resource, namespace: str, body: Object, sub: str = "") -> Object:
        """Server-side apply; with ``metadata.resourceVersion`` in ``body`` a newer object is refused with 409."""
        query = {"fieldManager": FIELD_MANAGER, "force": "true"}
        path = resource.path(namespace, body["metadata"]["name"], sub)
        applied: Object = await self.request("PATCH", path, body, query=query, content_type=_APPLY)
        return applied

    async def replace(self, resource: Resource, namespace: str, body: Object) -> Object:
        """Replace an object of which ``body`` is the newest version."""
        replaced: Object = await self.request("PUT", resource.path(namespace, body["metadata"]["name"]), body)
        return replaced

    async def delete(self, resource: Resource, namespace: str, name: str, policy: str, uid: str = "") -> None:
        """Delete an object, and its dependents by ``policy``: Background or Foreground. Gone already is as good."""
        body: Object = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": policy}
        if uid:
            body["preconditions"] = {"uid": uid}
        try:
            await self.request("DELETE", resource.path(namespace, name), body)
        except Refused as refused:
            if refused.status not in (404, 409):
                raise
            # 409 is another object of this name, but not only: what is still there must be deleted later.
            found = await self.get(resource, namespace, name) if refused.status == 409 else None
            if found is not None and found["metadata"]["uid"] == uid:
                raise

    async def log(self, namespace: str, pod: str, container: str, tail: int | None = None) -> str:
        """A container's log, or its last ``tail`` lines."""
        query = {"container": container} | ({} if tail is None else {"tailLines": str(tail)})
        path = PODS.path(namespace, pod, "log")
        return str(
            await self.request("GET", path, query=query, text=True, patience_s=_LOG_PATIENCE_S, busy_s=self.patience_s)
        )

    async def has(self, resource: Resource) -> bool:
        """Whether the API server knows this kind."""
        try:
            found = await self.request("GET", f"/apis/{resource.group}/{resource.version}")
        except Refused as refused:
            if refused.status == 404:
                return False
            raise
        return any(entry.get("name") == resource.plural for entry in found.get("resources", []))

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
        """Send one request, again where the server is busy, and give the JSON (or ``text``) of its answer.

        ``busy_s`` is how long it may say that it is too busy (429), where that is not ``patience_s``.

        Raises:
            Refused: with the server's own words.
            Unreachable: when ``patience_s`` is over.
            Fenced: when something is to be written and ``may_write`` says no.
        """
        until = time.monotonic() + (self.patience_s if patience_s is None else patience_s)
        until_not_busy = until if busy_s is None else time.monotonic() + busy_s
        url = self.client.configuration.host + path + (f"?{urlencode(query)}" if query else "")
        wait = 0.1
        while True:
            # A process that was stopped for a while wakes up here, when another may long have gone on with its work.
            if method != "GET" and not self.may_write():
                raise Fenced(f"{method} {path}: the lease is not ours any more")
            try:
                status, headers, data = await self._send(method, url, body, content_type)
            except (TimeoutError, aiohttp.ClientError, OSError) as error:
                if time.monotonic() + wait > until:
                    raise Unreachable(f"{method} {path}: {error or type(error).__name__}") from error
                REQUESTS.labels(method, "lost").inc()
            else:
                REQUESTS.labels(method, str(status)).inc()
                self.last_answer = time.monotonic()
                if status < 400:
                    return data.decode(errors="replace") if text else json.loads(data)
                busy = status == 429
                if (not busy and status < 500) or time.monotonic() + wait > (until_not_busy if busy else until):
                    raise _refusal(status, data)
                wait = max(wait, _seconds(headers.get("Retry-After")))
            await asyncio.sleep(min(wait, _LONGEST_WAIT_S) * random.uniform(0.5, 1.0))
            wait = min(wait * 2, _LONGEST_WAIT_S)

    async def _send(
        self, method: str, url: str, body: Object | None, content_type: str
    ) -> tuple[int, Mapping[str, str], bytes]:
        headers = {"Accept": "application/json, */*", "Content-Type": content_type, "User-Agent": FIELD_MANAGER}
        # An in-cluster token is renewed on disk; the library's hook reads it anew when its time has come.
        await self.client.update_params_for_auth(headers, [], ["BearerToken"], "", method, None)
        response = await self.client.rest_client.request(  # type: ignore[no-untyped-call]
            method, url, headers=headers, body=body, _request_timeout=_TIMEOUT
        )
        async with response.response as answer:
            return response.status, answer.headers, await answer.read()


def _refusal(status: int, data: bytes) -> Refused:
    try:
        said = json.loads(data)
        return Refused(status, str(said.get("reason") or ""), str(said.get("message") or ""))
    except (ValueError, AttributeError):
        return Refused(status, "", data[:500].decode(errors="replace").strip())


def _seconds(value: str | None) -> float:
    return float(value) if value and value.isdigit() else 0.0
