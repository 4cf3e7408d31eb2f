"""Plays the job controller and the kubelet for kind Job, with as few writes as they can do with: five a trial.

On a new Job: its one pod is created on node fake-0, runs, the Job says so, HOLD seconds pass, the pod has succeeded
with its termination message, the Job is complete. Logs, with the record in them, are served over the kubelet's port.
Each line of the journal is a Job of which a pod was made (`began`) or that is complete (`ended`), with its Unix time.

    python -m benchmarks.operator.rig.player KUBECONFIG --port P --certificate F --hold S --journal FILE
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from scalecurve_api.record.termination import spell
from scalecurve_api.spec.object_names import TRIAL_LABEL
from tools.devcluster.player.kubelet import Kubelet
from tools.devcluster.player.pods import pod_of
from tools.devcluster.player.record import Place, sealed
from tools.devcluster.player.script import Scenario
from tools.devcluster.player.status import Statuses, now
from tools.devcluster.rest import MERGE

NODE = "fake-0"
_INDEX = "batch.kubernetes.io/job-completion-index"
_CONNECTIONS = 64


class Player:
    """Plays until it is killed."""

    def __init__(self, kubelet: Kubelet, hold_s: float, journal: IO[str]) -> None:
        self._kubelet, self._statuses = kubelet, Statuses(kubelet)
        self._hold_s, self._journal = hold_s, journal
        self._seen: set[str] = set()

    async def run(self) -> None:
        """Serve logs and play every Job."""
        async for kind, job in self._kubelet.follow("/apis/batch/v1/jobs", TRIAL_LABEL):
            metadata = job["metadata"]
            if kind == "DELETED":
                self._kubelet.logs.pop((metadata["namespace"], f"{metadata['name']}-0"), None)
            elif metadata["uid"] not in self._seen and not job.get("status"):
                self._seen.add(metadata["uid"])
                self._kubelet.begin(self._play(job))

    async def _play(self, job: Mapping[str, Any]) -> None:
        metadata, template = job["metadata"], job["spec"]["template"]
        namespace, name = metadata["namespace"], metadata["name"]
        self._note("began", metadata)
        owner = {
            "apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": metadata["uid"], "controller": True,
        }  # fmt: skip
        labels = {**template["metadata"]["labels"], _INDEX: "0"}
        body = {
            "metadata": {"name": f"{name}-0", "labels": labels, "ownerReferences": [owner]},
            "spec": {**template["spec"], "nodeName": NODE},
        }
        made = await self._kubelet.write("POST", f"/api/v1/namespaces/{namespace}/pods", body)
        pod = pod_of(made, now())
        log = self._kubelet.logs[namespace, pod.name]
        log.payload, said = sealed(pod.trial, pod.attempt, [Place(pod.name, NODE)], Scenario.succeed)
        await self._statuses.run(pod)
        await self._job(metadata, startTime=pod.started, active=1, ready=1)
        await asyncio.sleep(self._hold_s)
        await self._statuses.end(pod, 0, "Completed", spell(said))
        condition = {
            "status": "True", "reason": "CompletionsReached", "message": "", "lastProbeTime": now(),
            "lastTransitionTime": now(),
        }  # fmt: skip
        await self._job(
            metadata, active=0, ready=0, succeeded=1, completedIndexes="0", completionTime=now(),
            conditions=[{"type": kind, **condition} for kind in ("SuccessCriteriaMet", "Complete")],
            uncountedTerminatedPods={},
        )  # fmt: skip
        self._note("ended", metadata)

    async def _job(self, metadata: Mapping[str, Any], **status: Any) -> None:
        path = f"/apis/batch/v1/namespaces/{metadata['namespace']}/jobs/{metadata['name']}/status"
        await self._kubelet.write("PATCH", path, {"status": status}, MERGE)

    def _note(self, what: str, metadata: Mapping[str, Any]) -> None:
        entry = {"what": what, "at": time.time(), "name": metadata["name"], "uid": metadata["uid"]}
        self._journal.write(json.dumps(entry) + "\n")
        self._journal.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description="Play every Job of a trial.")
    parser.add_argument("kubeconfig", type=Path)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--certificate", type=Path, required=True)
    parser.add_argument("--hold", type=float, default=1.0)
    parser.add_argument("--journal", type=Path, required=True)
    chosen = parser.parse_args()
    with chosen.journal.open("a") as journal:
        kubelet = Kubelet(chosen.kubeconfig, chosen.port, chosen.certificate, _CONNECTIONS)
        asyncio.run(Player(kubelet, chosen.hold, journal).run())


if __name__ == "__main__":
    main()
