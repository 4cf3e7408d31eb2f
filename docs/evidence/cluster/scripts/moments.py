"""When what happened in a cluster, to the millisecond: Kubernetes writes most of its times in whole seconds, so changes
are noted as they are seen by a watch, which is told of them a few milliseconds later.

    with Moments(cluster.rest) as moments:
        ...
    rows = breakdown(moments, name, records)
"""

import contextlib
import http.client
import json
import threading
import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from tools.devcluster.rest import Rest

Object = dict[str, Any]

WATCHED = {
    "pods": "/api/v1/pods",
    "experiments": "/apis/scalecurve.dev/v1alpha1/scalingexperiments",
    "trials": "/apis/scalecurve.dev/v1alpha1/scalingtrials",
    "Job": "/apis/batch/v1/jobs",
    "MPIJob": "/apis/kubeflow.org/v2beta1/mpijobs",
    "PyTorchJob": "/apis/kubeflow.org/v1/pytorchjobs",
    "TFJob": "/apis/kubeflow.org/v1/tfjobs",
}


@dataclass(frozen=True)
class Moment:
    """One change as it was seen: `at` is Unix time in seconds."""

    at: float
    what: str
    change: str
    body: Object = field(repr=False)

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.body["metadata"].get("namespace", ""))

    def label(self, name: str) -> str | None:
        found = (self.body["metadata"].get("labels") or {}).get(f"scalecurve.dev/{name}")
        return None if found is None else str(found)


class Moments:
    """Watches what trials are made of, in all namespaces, for as long as the block lasts."""

    def __init__(self, rest: Rest, kinds: tuple[str, ...] = tuple(WATCHED)) -> None:
        self._rest, self._kinds = rest, kinds
        self.seen: list[Moment] = []
        self._over = False
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        for kind in self._kinds:
            thread = threading.Thread(target=self._watch, args=(kind,), daemon=True)
            thread.start()
            self._threads.append(thread)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over = True  # each thread ends with the next change, or with its watch's time

    def _watch(self, kind: str) -> None:
        version = ""
        while not self._over:
            with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
                version = self._follow(kind, version)
            time.sleep(0.2)

    def _follow(self, kind: str, version: str) -> str:
        connection = self._rest._connection()
        since = f"&resourceVersion={version}" if version else ""
        with contextlib.closing(connection):
            connection.request("GET", f"{WATCHED[kind]}?watch=1&timeoutSeconds=20{since}")
            answer = connection.getresponse()
            if answer.status != 200:
                time.sleep(0.5)
                return ""
            while not self._over and (line := answer.readline()):
                at, event = time.time(), json.loads(line)
                if event["type"] == "ERROR":
                    return ""
                self.seen.append(Moment(at, kind, event["type"], event["object"]))
                version = event["object"]["metadata"]["resourceVersion"]
        return version

    def of(self, kind: str, namespace: str, **labels: str) -> list[Moment]:
        """Changes of one kind in a namespace, in order, of objects with these labels of ours."""
        return [
            each
            for each in sorted(self.seen, key=lambda moment: moment.at)
            if each.what == kind
            and each.namespace == namespace
            and all(each.label(name) == value for name, value in labels.items())
        ]
