"""What a kubelet writes of its pods: that they run, wait for an image, or have ended."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from tools.devcluster.player.kubelet import STRATEGIC, Kubelet
from tools.devcluster.player.pods import Pod


class Statuses:
    """Writes them."""

    def __init__(self, kubelet: Kubelet) -> None:
        self._kubelet = kubelet

    async def run(self, pod: Pod) -> None:
        """Every container runs and is ready."""
        state = {"waiting": None, "running": {"startedAt": now()}}
        states = [
            {**_container_status(each), "ready": True, "started": True, "state": state} for each in pod.containers
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
        await self._kubelet.write("POST", f"/api/v1/namespaces/{pod.namespace}/events", event)
        waiting = {"reason": "ImagePullBackOff", "message": "Back-off pulling image: not found"}
        states = [{**_container_status(container), "state": {"waiting": waiting}} for container in pod.containers]
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
            states.append({**_container_status(container), "started": False, "state": state})
        why = "PodFailed" if code else "PodCompleted"
        unready = [{"type": kind, "status": "False", "reason": why} for kind in ("ContainersReady", "Ready")]
        phase = "Failed" if code else "Succeeded"
        patch = {"phase": phase, "conditions": [*unready, *conditions], "containerStatuses": states, **(also or {})}
        await self._patch(pod, patch)

    async def _patch(self, pod: Pod, status: Mapping[str, Any]) -> None:
        """Write a pod's status, as its kubelet; a pod that is gone needs none."""
        body = {"metadata": {"uid": pod.uid}, "status": status}
        await self._kubelet.write("PATCH", f"{pod.path}/status", body, STRATEGIC)


def _container_status(container: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": container["name"], "image": container["image"], "imageID": "", "ready": False, "restartCount": 0,
    }  # fmt: skip


def now() -> str:
    """As Kubernetes spells times."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
