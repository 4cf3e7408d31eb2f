"""An API server in memory, small enough to be read: what the operator asks of a real one, and nothing else.

It stands behind ``Cluster._send``, so that paths, queries and refusals are the operator's own. Deleting leaves the
dependents to ``collect_garbage``, as a cluster does.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from scalecurve_kube.cluster import Cluster, LogSink
from scalecurve_kube.resources import Object

Answer = tuple[int, Any]
CREATED = "2099-01-01T00:00:00Z"
"""Of everything; nothing is ever late."""


class Killed(BaseException):
    """The operator's process ends here."""


class Store:
    """Objects by path of their collection and name; ``events`` is what a watch of everything would show."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Object] = {}
        self.logs: dict[str, str] = {}
        self.events: list[tuple[str, Object]] = []
        self.created: Counter[str] = Counter()
        """plural/name -> how often such an object was made"""
        self.refuse: Callable[[str, str], Answer | None] = lambda method, path: None
        self.version = 0

    def of(self, plural: str) -> list[Object]:
        """Every object of a kind."""
        return [each for (path, _), each in list(self.objects.items()) if path.endswith(f"/{plural}")]

    def put(self, collection: str, body: Object) -> Object:
        """Make or change an object, as its own controller would."""
        key = (collection, body["metadata"]["name"])
        known = self.objects.get(key)
        if known is not None and _without_version(known) == _without_version(body):
            return known
        self.version += 1
        made: dict[str, Any] = copied(body)
        made["metadata"] |= {"resourceVersion": str(self.version)}
        made["metadata"].setdefault("uid", f"uid-{self.version}")
        made["metadata"].setdefault("creationTimestamp", CREATED)
        self.objects[key] = made
        self.events.append(("MODIFIED" if known else "ADDED", copied(made)))
        return made

    def remove(self, collection: str, name: str) -> None:
        """It is gone from one moment to the next."""
        gone = self.objects.pop((collection, name))
        self.version += 1
        gone["metadata"]["resourceVersion"] = str(self.version)
        self.events.append(("DELETED", gone))

    def collect_garbage(self) -> None:
        """Remove what has lost its owner, and what waited in the foreground for that; once round."""
        alive = {each["metadata"]["uid"] for each in self.objects.values()}
        for (collection, name), each in list(self.objects.items()):
            owners = each["metadata"].get("ownerReferences")
            orphaned = owners and not any(owner["uid"] in alive for owner in owners)
            if orphaned or each["metadata"].get("deletionTimestamp"):
                self.remove(collection, name)

    def answer(self, method: str, path: str, query: Mapping[str, str], body: Object | None) -> Answer:
        """What an API server would."""
        parts = path.removeprefix("/").split("/")
        if "namespaces" not in parts:
            return 200, {"resources": []}
        at = parts.index("namespaces") + 3
        collection, (name, sub) = "/".join(parts[:at]), [*parts[at:], "", ""][:2]
        made = f"/{(body or {})['metadata']['name']}" if method == "POST" else ""
        if refusal := self.refuse(method, path + made):
            return refusal
        if sub == "log":
            return (200, self.logs[name]) if name in self.logs else _no(400, "BadRequest", "waits to start")
        if _too_large(body):
            return _no(422, "Invalid", "must be of type integer")
        known = self.objects.get((collection, name or ((body or {}).get("metadata") or {}).get("name", "")))
        if method == "GET" and not name:
            found = [each for each in self.of(parts[at - 1]) if _selected(each, query)]
            return 200, {"items": [each for each in found if each["metadata"].get("namespace") == parts[at - 2]]}
        if method == "GET":
            return (200, known) if known else _no(404, "NotFound", name)
        assert body is not None
        if method == "POST":
            return _no(409, "AlreadyExists", "there") if known else (201, self._make(collection, body))
        if method == "DELETE":
            return self._delete(collection, name, known, body)
        if known is None:
            return (201, self._make(collection, body)) if not sub else _no(404, "NotFound", name)
        wanted = body["metadata"]
        for field in ("uid", "resourceVersion"):
            if wanted.get(field, known["metadata"][field]) != known["metadata"][field]:
                return _no(409, "Conflict", f"{field} is {known['metadata'][field]}")
        applied = {field: wanted[field] for field in ("labels", "ownerReferences") if field in wanted}
        whole = {**known, **body, "metadata": {**known["metadata"], **applied}}
        changed = {**known, "status": body["status"]} if sub else whole
        return 200, self.put(collection, changed)

    def _make(self, collection: str, body: Object) -> Object:
        self.created[f"{collection.rpartition('/')[2]}/{body['metadata']['name']}"] += 1
        return self.put(collection, {**body, "metadata": {**body["metadata"], "namespace": collection.split("/")[-2]}})

    def _delete(self, collection: str, name: str, known: Object | None, body: Object) -> Answer:
        if known is None:
            return _no(404, "NotFound", name)
        if (body.get("preconditions") or {}).get("uid", known["metadata"]["uid"]) != known["metadata"]["uid"]:
            return _no(409, "Conflict", "another uid")
        if body.get("propagationPolicy") == "Foreground":
            self.put(collection, {**known, "metadata": {**known["metadata"], "deletionTimestamp": CREATED}})
        else:
            self.remove(collection, name)
        return 200, {}


class InMemory(Cluster):
    """One operator's way to a store. At request number ``dies_at`` its process is killed: before it, or after."""

    def __init__(self, store: Store, dies_at: int | None = None, served: bool = False) -> None:
        client = SimpleNamespace(configuration=SimpleNamespace(host=""))
        super().__init__(client, patience_s=0.0)  # type: ignore[arg-type]
        self.store, self.dies_at, self.served = store, dies_at, served
        self.requests: list[str] = []

    async def _send(
        self, method: str, url: str, body: Object | None, content_type: str, sink: LogSink | None = None
    ) -> tuple[int, Mapping[str, str], bytes]:
        dies = self.dies_at is not None and len(self.requests) >= self.dies_at
        if dies and not (self.served and len(self.requests) == self.dies_at):
            raise Killed
        await asyncio.sleep(0)  # another operator may come in between
        parts = urlsplit(url)
        self.requests.append(f"{method} {parts.path}")
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        status, found = self.store.answer(method, unquote(parts.path), query, copied(body))
        if dies:
            raise Killed
        data = found if isinstance(found, bytes) else (found if isinstance(found, str) else json.dumps(found)).encode()
        if sink is not None and status < 400:
            for at in range(0, len(data), 1 << 16):
                sink.feed(data[at : at + (1 << 16)])
        return status, {}, data


def copied(body: Any) -> Any:
    """As it comes out of a request."""
    return json.loads(json.dumps(body))


def _too_large(body: Any) -> bool:
    """Whether an integer exceeds int64, which a real server refuses in every field that it knows as one."""
    if isinstance(body, int):
        return not -(1 << 63) <= body < 1 << 63
    values = body.values() if isinstance(body, dict) else body if isinstance(body, list) else ()
    return any(map(_too_large, values))


def _no(status: int, reason: str, message: str) -> Answer:
    return status, {"kind": "Status", "code": status, "reason": reason, "message": message}


def _without_version(body: Object) -> Object:
    return {**body, "metadata": {**body["metadata"], "resourceVersion": None}}


def _selected(body: Object, query: Mapping[str, str]) -> bool:
    if field := query.get("fieldSelector"):
        name, _, value = field.partition("=")
        return bool((body.get("involvedObject") or {}).get(name.rpartition(".")[2]) == value)
    wanted = dict(each.split("=", 1) for each in query.get("labelSelector", "").split(",") if each)
    labels = body["metadata"].get("labels") or {}
    return all(labels.get(name) == value for name, value in wanted.items())
