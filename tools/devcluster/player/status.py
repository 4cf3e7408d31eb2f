"""What a kubelet writes of its pods: that they run, wait for an image, or have ended."""

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

import aiohttp

from tools.devcluster.player.pods import Pod

CONCURRENT = 24
"""Statuses that are written at a time."""
AGAIN_S = 0.2
_STRATEGIC = "application/strategic-merge-patch+json"


class Statuses:
    """Writes through a session with the API server, however often it takes."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session
        self._slots = asyncio.Semaphore(CONCURRENT)

    async def run(self, pod: Pod) -> None:
        """Every container runs and is ready."""
        states = [
            {
                **_named(each),
                "ready": True,
                "started": True,
                "state": {"waiting": None, "running": {"startedAt": now()}},
            }
            for each in pod.containers
        ]
        ready = [{"type": kind, "status": "True"} for kind in ("Initialized", "ContainersReady", "Ready")]
        status = {"phase": "Running", "startTime": pod.started, "conditions": ready, "containerStatuses": states}
        await self._patch(pod, status)

    async def wait_for_image(self, pod: Pod) -> None:
        """The image cannot be pulled: an event says so, and the containers wait."""
        event = {
            "metadata": {"generateName": f"{pod.name}-", "namespace": pod.namespace},
            "involvedObject": {
                "apiVersion": "v1", "kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid,
            },
            "type": "Warning",
            "reason": "Failed",
            "message": f'Failed to pull image "{pod.containers[0]["image"]}": not found',
            "source": {"component": "kubelet"},
            "firstTimestamp": now(),
            "lastTimestamp": now(),
            "count": 1,
        }  # fmt: skip
        async with self._session.post(f"/api/v1/namespaces/{pod.namespace}/events", json=event) as answer:
            answer.raise_for_status()
        waiting = {"reason": "ImagePullBackOff", "message": "Back-off pulling image: not found"}
        states = [{**_named(container), "state": {"waiting": waiting}} for container in pod.containers]
        await self._patch(pod, {"phase": "Pending", "containerStatuses": states})

    async def end(
        self,
        pod: Pod,
        code: int,
        reason: str,
        message: str,
        also: Mapping[str, str] | None = None,
        conditions: Sequence[Mapping[str, str]] = (),
    ) -> None:
        """End every container of a pod with the same code, once; the first one says `message`."""
        if pod.ended:
            return
        pod.ended = True
        pod.stop_clock()
        finished = now()
        states = []
        for index, container in enumerate(pod.containers):
            terminated = {"exitCode": code, "reason": reason, "startedAt": pod.started, "finishedAt": finished}
            if message and index == 0:
                terminated["message"] = message
            state = {"running": None, "waiting": None, "terminated": terminated}
            states.append({**_named(container), "started": False, "state": state})
        why = "PodFailed" if code else "PodCompleted"
        unready = [{"type": kind, "status": "False", "reason": why} for kind in ("ContainersReady", "Ready")]
        phase = "Failed" if code else "Succeeded"
        patch = {"phase": phase, "conditions": [*unready, *conditions], "containerStatuses": states, **(also or {})}
        await self._patch(pod, patch)

    async def _patch(self, pod: Pod, status: Mapping[str, Any]) -> None:
        """Write a pod's status, as its kubelet; a pod that is gone needs none."""
        body = json.dumps({"metadata": {"uid": pod.uid}, "status": status}).encode()
        headers = {"Content-Type": _STRATEGIC}
        while True:
            try:
                async with (
                    self._slots,
                    self._session.patch(f"{pod.path}/status", data=body, headers=headers) as answer,
                ):
                    if answer.status in (404, 409) or answer.ok:
                        return
                    text = await answer.text()
                    if answer.status != 429 and answer.status < 500:
                        raise RuntimeError(f"status of pod {pod.namespace}/{pod.name}: {answer.status} {text}")
            except (aiohttp.ClientError, OSError):
                pass
            await asyncio.sleep(AGAIN_S)


def _named(container: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": container["name"], "image": container["image"], "imageID": "", "ready": False, "restartCount": 0,
    }  # fmt: skip


def now() -> str:
    """As Kubernetes spells times."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
