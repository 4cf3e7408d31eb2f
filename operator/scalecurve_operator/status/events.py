"""Kubernetes Events: few, for people who ``kubectl describe``; never worth failing for."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Mapping

from scalecurve_kube.client import (
    EVENTS,
    EXPERIMENTS,
    TRIALS,
    Cluster,
    Object,
    Refused,
    Resource,
    Unreachable,
)
from scalecurve_operator.cache.object_cache import ExperimentSeen, Key
from scalecurve_operator.status.render import timestamp

_FINAL = ("Succeeded", "Failed", "Cancelled")
_LONGEST = 1000
_PATIENCE_S = 5.0

logger = logging.getLogger(__name__)


class Notices:
    """Posts Events. Their names follow from what they say, so that a repeated turn posts nothing twice."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    async def experiment(
        self, key: Key, seen: ExperimentSeen, before: Mapping[str, object], now: Mapping[str, object]
    ) -> None:
        """Its end. Of its beginning the status tells, at no further write."""
        phase = str(now.get("phase"))
        if phase != before.get("phase") and phase in _FINAL:
            kind = "Normal" if phase == "Succeeded" else "Warning"
            await self._post(EXPERIMENTS, key, key.name, seen.uid, kind, phase, str(now.get("message") or ""))

    async def trial(self, key: Key, name: str, uid: str, reason: str, message: str) -> None:
        """An attempt that did not succeed."""
        await self._post(TRIALS, key, name, uid, "Warning", reason, message)

    async def _post(
        self, resource: Resource, key: Key, name: str, uid: str, kind: str, reason: str, message: str
    ) -> None:
        now = timestamp(time.time())
        text = message[:_LONGEST] or reason
        body: Object = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": _event_name(name, uid, reason, text), "namespace": key.namespace},
            "involvedObject": {
                "apiVersion": resource.api_version,
                "kind": resource.kind,
                "name": name,
                "namespace": key.namespace,
                "uid": uid,
            },
            "type": kind,
            "reason": reason,
            "message": text,
            "source": {"component": "scalecurve-operator"},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        try:
            await self.cluster.request("POST", EVENTS.path(key.namespace), body, patience_s=_PATIENCE_S)
        except (Refused, Unreachable) as error:
            if not isinstance(error, Refused) or error.status != 409:
                logger.info("%s: no event %s: %s", key, reason, error)


def _event_name(name: str, uid: str, reason: str, text: str) -> str:
    return f"{name}.{hashlib.sha256(f'{uid}/{reason}/{text}'.encode()).hexdigest()[:16]}"
