"""How often each object was created, read from etcd itself: beside every API server, so that its restarts hide nothing.

with Creations(tier, namespace) as seen:
    ...
assert seen.counts("jobs") == {"e-weak-1-r0-a1": 1}
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import socket
import threading
from collections import Counter
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from tests.waiting import PATIENCE_S
from tools.devcluster.tier import Tier

PREFIXES = {
    "jobs": "/registry/jobs/{}/",
    "pods": "/registry/pods/{}/",
    "services": "/registry/services/specs/{}/",
    "configmaps": "/registry/configmaps/{}/",
    "scalingtrials": "/registry/scalecurve.dev/scalingtrials/{}/",
    "mpijobs": "/registry/kubeflow.org/mpijobs/{}/",
    "pytorchjobs": "/registry/kubeflow.org/pytorchjobs/{}/",
    "tfjobs": "/registry/kubeflow.org/tfjobs/{}/",
}


class Creations:
    """Watches a namespace's objects from now on, by one stream that a thread reads."""

    def __init__(self, tier: Tier, namespace: str) -> None:
        self._etcd = urlsplit(tier.etcd).netloc
        self._marker = f"/scalecurve-test/{namespace}/"
        self._prefixes = {prefix.format(namespace): kind for kind, prefix in PREFIXES.items()}
        self._counts: dict[str, Counter[str]] = {kind: Counter() for kind in PREFIXES}
        self._marks = 0
        self._closing = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._read, name="creations")

    def __enter__(self) -> Self:
        # All keys: of several watches in one stream the gateway has been seen to create only some.
        everything = {"create_request": {"key": _spelled("/"), "range_end": _spelled("0")}}
        self._connection = http.client.HTTPConnection(self._etcd)
        self._connection.request("POST", "/v3/watch", json.dumps(everything))
        assert self._connection.sock is not None
        self._socket = self._connection.sock
        self._answer = self._connection.getresponse()
        assert json.loads(self._answer.readline())["result"]["created"]
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing = True
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._answer.close()
        self._connection.close()

    def counts(self, kind: str) -> dict[str, int]:
        """How often each object of this kind was created, up to now."""
        with self._changed:
            wanted = self._marks + 1
            self._mark()
            if not self._changed.wait_for(lambda: self._marks >= wanted, timeout=PATIENCE_S):
                raise TimeoutError(f"etcd's stream has not come to the present in {PATIENCE_S:g} s")
            return dict(self._counts[kind])

    def _mark(self) -> None:
        connection = http.client.HTTPConnection(self._etcd, timeout=PATIENCE_S)
        with contextlib.closing(connection):
            connection.request("POST", "/v3/kv/put", json.dumps({"key": _spelled(f"{self._marker}now")}))
            assert connection.getresponse().status == 200

    def _read(self) -> None:
        try:
            while line := self._answer.readline():
                self._take(json.loads(line)["result"])
        except (OSError, ValueError, http.client.HTTPException):
            if not self._closing:  # otherwise the stream was cut within a line
                raise

    def _take(self, result: Mapping[str, Any]) -> None:
        assert not result.get("canceled"), result
        with self._changed:
            for event in result.get("events", []):
                if event.get("type", "PUT") == "PUT":
                    self._note(event["kv"])
            self._changed.notify_all()

    def _note(self, kv: Mapping[str, str]) -> None:
        prefix, _, name = base64.b64decode(kv["key"]).decode().rpartition("/")
        if f"{prefix}/" == self._marker:
            self._marks += 1
        kind = self._prefixes.get(f"{prefix}/")
        if kind is not None and kv["create_revision"] == kv["mod_revision"]:
            self._counts[kind][name] += 1


def _spelled(key: str) -> str:
    return base64.b64encode(key.encode()).decode()
