"""Kubernetes Events: few, for people who ``kubectl describe``; never worth failing for."""

import hashlib
import logging
import time
from collections.abc import Mapping

from scalecurve_kube.cluster import Cluster
from scalecurve_kube.errors import ApiStatusError, UnreachableError
from scalecurve_kube.resources import EVENTS, EXPERIMENTS, TRIALS, Object, timestamp
from scalecurve_operator.cache.cached_objects import Key

_FINAL = ("Succeeded", "Failed", "Cancelled")
_MAX_MESSAGE = 1000
_PATIENCE_S = 5.0

logger = logging.getLogger(__name__)


async def experiment_ended(
    cluster: Cluster, key: Key, uid: str, before: Mapping[str, object], now: Mapping[str, object]
) -> None:
    """Report the end of an experiment. The status tells of its beginning, with no further write."""
    phase = str(now.get("phase"))
    if phase != before.get("phase") and phase in _FINAL:
        kind = "Normal" if phase == "Succeeded" else "Warning"
        await _post(cluster, key, EXPERIMENTS.owner(key.name, uid), kind, phase, str(now.get("message") or ""))


async def runner_chosen(cluster: Cluster, key: Key, uid: str, runner: str, reason: str) -> None:
    """Report which kind of job carries an experiment's trials."""
    await _post(cluster, key, EXPERIMENTS.owner(key.name, uid), "Normal", "RunnerChosen", f"{runner}: {reason}")


async def trial_failed(cluster: Cluster, key: Key, name: str, uid: str, reason: str, message: str) -> None:
    """Report an attempt that did not succeed."""
    await _post(cluster, key, TRIALS.owner(name, uid), "Warning", reason, message)


async def trial_queued(cluster: Cluster, key: Key, name: str, uid: str, message: str) -> None:
    """Report what a trial's queue says of it, once for each thing that it says."""
    await _post(cluster, key, TRIALS.owner(name, uid), "Normal", "TrialQueued", message)


async def _post(cluster: Cluster, key: Key, subject: Object, kind: str, reason: str, message: str) -> None:
    now, message = timestamp(time.time()), message[:_MAX_MESSAGE] or reason
    # The name follows from the content, so that a repeated reconcile posts nothing twice.
    digest = hashlib.sha256(f"{subject['uid']}/{reason}/{message}".encode()).hexdigest()[:16]
    event: Object = {
        **EVENTS.body(name=f"{subject['name']}.{digest}", namespace=key.namespace),
        "involvedObject": {**subject, "namespace": key.namespace},
        "type": kind,
        "reason": reason,
        "message": message,
        "source": {"component": "scalecurve-operator"},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
    try:
        await cluster.request("POST", EVENTS.path(key.namespace), event, patience_s=_PATIENCE_S)
    except (ApiStatusError, UnreachableError) as error:
        if not isinstance(error, ApiStatusError) or error.status != 409:
            logger.info("%s: no Event %s: %s", key, reason, error)
