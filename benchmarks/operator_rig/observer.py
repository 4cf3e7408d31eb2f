"""One watch on experiments, independent of the operator: when each phase was first seen, and the last write."""

from __future__ import annotations

import http.client
import json
import threading
import time
from pathlib import Path
from typing import Any

from rest import Rest

EXPERIMENTS = "/apis/scalebench.dev/v1alpha1/scalingexperiments"
FINAL = ("Succeeded", "Failed", "Cancelled")


class Observer:
    """Times are Unix seconds, by experiment."""

    def __init__(self, kubeconfig: Path, namespace: str) -> None:
        self.rest = Rest(kubeconfig)
        self.namespace = namespace
        self.phases: dict[str, dict[str, float]] = {}
        self.last: dict[str, float] = {}
        self.newest: dict[str, dict[str, Any]] = {}
        self.changed_at = time.time()
        self._stopped = False
        listed = self.rest.call("GET", EXPERIMENTS)
        self._version = listed["metadata"]["resourceVersion"]
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def final(self) -> int:
        """How many experiments have ended."""
        return sum(any(phase in FINAL for phase in seen) for seen in list(self.phases.values()))

    def ended_at(self, name: str) -> float | None:
        """When an experiment was first seen ended."""
        return next((at for phase, at in self.phases.get(name, {}).items() if phase in FINAL), None)

    def stop(self) -> None:
        """Look no more."""
        self._stopped = True

    def _watch(self) -> None:
        while not self._stopped:
            connection = http.client.HTTPSConnection(
                self.rest.host, self.rest.port, context=self.rest.context, timeout=3600
            )
            try:
                path = f"{EXPERIMENTS}?watch=1&allowWatchBookmarks=true&resourceVersion={self._version}"
                connection.request("GET", path)
                answer = connection.getresponse()
                while line := answer.readline():
                    self._note(json.loads(line))
            except (OSError, http.client.HTTPException, ValueError):
                time.sleep(0.1)
            finally:
                connection.close()

    def _note(self, event: dict[str, Any]) -> None:
        now, body = time.time(), event["object"]
        self._version = body["metadata"].get("resourceVersion", self._version)
        if event["type"] not in ("ADDED", "MODIFIED") or body["metadata"]["namespace"] != self.namespace:
            return
        name, phase = body["metadata"]["name"], (body.get("status") or {}).get("phase")
        self.last[name] = self.changed_at = now
        self.newest[name] = body
        if phase:
            self.phases.setdefault(name, {}).setdefault(phase, now)
