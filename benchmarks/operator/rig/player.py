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
import ssl
import sys
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import IO, Any

import aiohttp
from aiohttp import web

from scalecurve_api.contract import ATTEMPT_ENV, TRIAL_ENV
from scalecurve_api.record import envelope, log_lines
from scalecurve_api.record.termination import Termination, spell
from scalecurve_api.spec.object_names import TRIAL_LABEL
from scalecurve_api.spec.trial import TrialSpec
from tools.devcluster.player.record import Place, play_record
from tools.devcluster.player.script import Scenario
from tools.devcluster.rest import client_context

NODE = "fake-0"
_INDEX = "batch.kubernetes.io/job-completion-index"
_MERGE = {"Content-Type": "application/merge-patch+json"}
_CONNECTIONS = 64


class Player:
    """Plays until it is killed."""

    def __init__(self, kubeconfig: Path, certificate: Path, hold_s: float, journal: IO[str]) -> None:
        read = json.loads(kubeconfig.read_text())
        cluster, user = read["clusters"][0]["cluster"], read["users"][0]["user"]
        self._server, self._client_tls = cluster["server"], client_context(cluster, user)
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(certificate, certificate.with_suffix(".key"))
        self._hold_s, self._journal = hold_s, journal
        self._logs: dict[str, bytes] = {}
        self._seen: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, port: int) -> None:
        """Serve logs and play every Job."""
        application = web.Application()
        application.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._serve_log)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        connector = aiohttp.TCPConnector(ssl=self._client_tls, limit=_CONNECTIONS + 1)
        unlimited = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(self._server, connector=connector, timeout=unlimited) as self._session:
            await web.TCPSite(runner, "127.0.0.1", port, ssl_context=self._tls).start()
            async for kind, job in self._jobs():
                if kind == "DELETED":
                    self._logs.pop(f"{job['metadata']['name']}-0", None)
                elif job["metadata"]["uid"] not in self._seen and not job.get("status"):
                    self._seen.add(job["metadata"]["uid"])
                    task = asyncio.create_task(self._play(job))
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)

    async def _jobs(self) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        query = {"labelSelector": TRIAL_LABEL, "watch": "1"}
        while True:
            async with self._session.get("/apis/batch/v1/jobs", params=query) as answer:
                answer.raise_for_status()
                rest = b""
                async for data in answer.content.iter_any():
                    *lines, rest = (rest + data).split(b"\n")
                    for line in lines:
                        event = json.loads(line)
                        if event["type"] in ("ADDED", "DELETED"):
                            yield event["type"], event["object"]

    async def _play(self, job: Mapping[str, Any]) -> None:
        metadata, template = job["metadata"], job["spec"]["template"]
        namespace, name, uid = metadata["namespace"], metadata["name"], metadata["uid"]
        pod = f"{name}-0"
        self._note("began", metadata)
        pods, jobs = f"/api/v1/namespaces/{namespace}/pods", f"/apis/batch/v1/namespaces/{namespace}/jobs/{name}"
        labels = {**template["metadata"]["labels"], _INDEX: "0"}
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid, "controller": True}
        body = {
            "metadata": {"name": pod, "labels": labels, "ownerReferences": [owner]},
            "spec": {**template["spec"], "nodeName": NODE},
        }
        await self._send("POST", pods, body)
        container = template["spec"]["containers"][0]
        message = self._record(container, pod)
        started = _now()
        running = _container(container, {"running": {"startedAt": started}})
        await self._send("PATCH", f"{pods}/{pod}/status", _status(phase="Running", containerStatuses=[running]))
        await self._send("PATCH", f"{jobs}/status", _status(startTime=started, active=1, ready=1))
        await asyncio.sleep(self._hold_s)
        now = _now()
        ended = {"exitCode": 0, "reason": "Completed", "startedAt": started, "finishedAt": now, "message": message}
        done = _container(container, {"terminated": ended, "running": None})
        await self._send("PATCH", f"{pods}/{pod}/status", _status(phase="Succeeded", containerStatuses=[done]))
        conditions = [
            {"type": kind, "status": "True", "reason": "CompletionsReached", "message": "",
             "lastProbeTime": now, "lastTransitionTime": now}
            for kind in ("SuccessCriteriaMet", "Complete")
        ]  # fmt: skip
        complete = _status(
            active=0, ready=0, succeeded=1, completedIndexes="0", completionTime=now, conditions=conditions,
            uncountedTerminatedPods={},
        )  # fmt: skip
        await self._send("PATCH", f"{jobs}/status", complete)
        self._note("ended", metadata)

    def _record(self, container: Mapping[str, Any], pod: str) -> str:
        """Make the record that the pod's log will hold; the termination message."""
        environment = {entry["name"]: entry.get("value", "").replace("$$", "$") for entry in container["env"]}
        trial = TrialSpec.model_validate_json(environment[TRIAL_ENV])
        attempt = int(environment[ATTEMPT_ENV])
        begin_ns = time.time_ns() - 5_000_000_000
        played = play_record(trial, [Place(pod, NODE)], begin_ns, Scenario.succeed)
        payload = envelope.seal(trial.name, attempt, played.ranks, played.journals, 8 << 20)
        self._logs[pod] = payload
        return spell(
            Termination(
                trial=trial.name, attempt=attempt, sha256=envelope.digest(payload), bytes=len(payload),
                summary=played.summary, exit_codes={"0": 0},
            )
        )  # fmt: skip

    async def _send(self, method: str, path: str, body: Mapping[str, Any]) -> None:
        headers = _MERGE if method == "PATCH" else {"Content-Type": "application/json"}
        while True:
            async with self._session.request(method, path, data=json.dumps(body), headers=headers) as answer:
                if answer.ok:
                    return
                text = await answer.text()
                if answer.status not in (429, 500, 503, 504):
                    print(f"{method} {path}: {answer.status} {text}", file=sys.stderr, flush=True)
                    return
            await asyncio.sleep(0.2)

    def _note(self, what: str, metadata: Mapping[str, Any]) -> None:
        entry = {"what": what, "at": time.time(), "name": metadata["name"], "uid": metadata["uid"]}
        self._journal.write(json.dumps(entry) + "\n")
        self._journal.flush()

    async def _serve_log(self, request: web.Request) -> web.Response:
        payload = self._logs.get(request.match_info["pod"])
        if payload is None:
            return web.Response(status=404, text="no such container")
        return web.Response(text="".join(f"{line}\n" for line in ["played", *log_lines.frame(payload), "played"]))


def _status(**status: Any) -> dict[str, Any]:
    return {"status": status}


def _container(container: Mapping[str, Any], state: Mapping[str, Any]) -> dict[str, Any]:
    runs = "running" in state and state["running"] is not None
    return {"name": container["name"], "image": container["image"], "imageID": "", "ready": runs, "restartCount": 0,
            "state": state}  # fmt: skip


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def main() -> None:
    parser = argparse.ArgumentParser(description="Play every Job of a trial.")
    parser.add_argument("kubeconfig", type=Path)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--certificate", type=Path, required=True)
    parser.add_argument("--hold", type=float, default=1.0)
    parser.add_argument("--journal", type=Path, required=True)
    chosen = parser.parse_args()
    with chosen.journal.open("a") as journal:
        asyncio.run(Player(chosen.kubeconfig, chosen.certificate, chosen.hold, journal).run(chosen.port))


if __name__ == "__main__":
    main()
