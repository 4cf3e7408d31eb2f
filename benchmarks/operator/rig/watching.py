"""Watches of our own, independent of the operator: on experiments, and on jobs. Times are Unix seconds."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tools.devcluster.rest import Rest

EXPERIMENTS = "/apis/scalecurve.dev/v1alpha1/scalingexperiments"
FINAL = ("Succeeded", "Failed", "Cancelled")
_ENDS = ("SuccessCriteriaMet", "Complete", "FailureTarget", "Failed")


class Watch:
    """Calls `note(type, object, now)` in a thread of its own for every change from now on."""

    def __init__(
        self, kubeconfig: Path, collection: str, note: Callable[[str, dict[str, Any], float], None], selector: str = ""
    ) -> None:
        self._rest, self._note = Rest(kubeconfig), note
        self._path = f"{collection}?labelSelector={selector}&"
        self._version = self._rest.call("GET", f"{self._path}limit=1")["metadata"]["resourceVersion"]
        self._stopped = False
        threading.Thread(target=self._run, daemon=True).start()

    def stop(self) -> None:
        """Look no more."""
        self._stopped = True

    def _run(self) -> None:
        rest = self._rest
        while not self._stopped:
            connection = http.client.HTTPSConnection(rest.host, rest.port, context=rest.context, timeout=7200)
            try:
                path = f"{self._path}watch=1&allowWatchBookmarks=true&resourceVersion={self._version}"
                connection.request("GET", path)
                answer = connection.getresponse()
                while line := answer.readline():
                    event = json.loads(line)
                    self._version = event["object"]["metadata"].get("resourceVersion", self._version)
                    if event["type"] in ("ADDED", "MODIFIED", "DELETED"):
                        self._note(event["type"], event["object"], time.time())
            except (OSError, http.client.HTTPException, ValueError):
                time.sleep(0.1)
            finally:
                connection.close()


class Experiments:
    """When each phase of each experiment was first seen, and its newest state."""

    def __init__(self, kubeconfig: Path, namespace: str) -> None:
        self._namespace = namespace
        self.phases: dict[str, dict[str, float]] = {}
        self.newest: dict[str, dict[str, Any]] = {}
        self.largest_status = 0
        """bytes, as compact JSON"""
        self.changed_at = time.time()
        self._watch = Watch(kubeconfig, EXPERIMENTS, self._note)

    def final(self) -> int:
        """How many experiments have ended."""
        return sum(any(phase in FINAL for phase in seen) for seen in list(self.phases.values()))

    def ended_at(self, name: str) -> float | None:
        """When an experiment was first seen ended."""
        return next((at for phase, at in self.phases.get(name, {}).items() if phase in FINAL), None)

    def stop(self) -> None:
        """Look no more."""
        self._watch.stop()

    def _note(self, kind: str, body: dict[str, Any], now: float) -> None:
        if kind == "DELETED" or body["metadata"]["namespace"] != self._namespace:
            return
        name, status = body["metadata"]["name"], body.get("status") or {}
        self.changed_at, self.newest[name] = now, body
        self.largest_status = max(self.largest_status, len(json.dumps(status, separators=(",", ":"))))
        if status.get("phase"):
            self.phases.setdefault(name, {}).setdefault(status["phase"], now)


class Jobs:
    """When each job of a trial was created, and when it first said that it has ended; by name."""

    def __init__(self, kubeconfig: Path, collection: str = "/apis/batch/v1/jobs") -> None:
        self.created: dict[str, float] = {}
        self.ended: dict[str, float] = {}
        self.uids: dict[str, set[str]] = {}
        self._watch = Watch(kubeconfig, collection, self._note, "scalecurve.dev/trial")

    def gaps(self, at_once: int) -> list[float]:
        """From each end to the creation that took its place, with so many running at once."""
        created, ended = sorted(self.created.values()), sorted(self.ended.values())
        return [begun - end for end, begun in zip(ended, created[at_once:], strict=False)]

    def stop(self) -> None:
        """Look no more."""
        self._watch.stop()

    def _note(self, kind: str, body: dict[str, Any], now: float) -> None:
        name = body["metadata"]["name"]
        if kind == "ADDED":
            self.created.setdefault(name, now)
            self.uids.setdefault(name, set()).add(body["metadata"]["uid"])
        if name not in self.ended:
            said = (body.get("status") or {}).get("conditions") or ()
            if any(each["type"] in (*_ENDS, "Succeeded") and each["status"] == "True" for each in said):
                self.ended[name] = now
