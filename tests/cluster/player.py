"""Plays the containers of trials' pods on fake nodes, where kwok can only make pods run.

Watches pods labelled scalebench.dev/trial. When all pods of an attempt run, it waits as the script says (script.py),
ends them as a kubelet would (exit codes, reasons, termination messages) and serves their logs over the kubelet's TLS
port, with records made from the pods' own trial (played_record.py), real in form. One watch, no polling.

    python tests/cluster/player.py KUBECONFIG --port P --certificate F     key beside the certificate
"""

from __future__ import annotations

import argparse
import asyncio
import json
import ssl
import sys
import time
import traceback
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from played_record import Place, play_record
from rest import client_context
from script import Outcome, Script, script

from scalebench_api.contract import ATTEMPT_ENV, BUDGET_ENV, PODS_ENV, TRIAL_ENV
from scalebench_api.objects import ATTEMPT_LABEL, ROLE_LABEL, TRIAL_LABEL
from scalebench_api.record import envelope, log_lines
from scalebench_api.record.rank import RankFailure
from scalebench_api.record.termination import Termination, spell
from scalebench_api.trial import FailedReason, TrialSpec
from scalebench_api.workload import Strategy

_JOB_INDEX = "batch.kubernetes.io/job-completion-index"
_REPLICA_TYPE, _REPLICA_INDEX = "training.kubeflow.org/replica-type", "training.kubeflow.org/replica-index"
_OPERATOR = "training.kubeflow.org/operator-name"
_STRATEGIC = "application/strategic-merge-patch+json"
_CONCURRENT = 24
_INLINE_WORKERS = 64
"""The record of a larger trial is made in a thread, so that the others' ends do not wait for it."""
_AGAIN_S = 0.2


@dataclass
class Pod:
    """What playing needs to know of a pod."""

    namespace: str
    name: str
    uid: str
    node: str
    labels: Mapping[str, str]
    containers: Sequence[Mapping[str, Any]]
    started: str
    deadline_s: float | None
    """what the kubelet allows it"""
    ended: bool = False

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"

    @cached_property
    def environment(self) -> dict[str, str]:
        """Plain variables of its containers; `$$` is how Kubernetes spells `$`."""
        return {
            entry["name"]: entry.get("value", "").replace("$$", "$")
            for container in self.containers
            for entry in container.get("env") or []
        }

    @cached_property
    def trial(self) -> TrialSpec:
        return TrialSpec.model_validate_json(self.environment[TRIAL_ENV])

    @property
    def attempt(self) -> int:
        return int(self.environment.get(ATTEMPT_ENV) or 1)

    @property
    def works(self) -> bool:
        """Whether it carries workers."""
        return self.labels.get(ROLE_LABEL) == "worker"

    @property
    def leads(self) -> bool:
        """Whether it carries none and the job ends with it."""
        return self.labels.get(ROLE_LABEL) in ("launcher", "chief")

    @property
    def order(self) -> tuple[int, int]:
        """A master holds the first ranks, then come the others by their index."""
        first = self.labels.get(_REPLICA_TYPE) == "master"
        index = self.labels.get(_JOB_INDEX) or self.labels.get(_REPLICA_INDEX) or self.name.rpartition("-")[2]
        return (0 if first else 1, int(index) if index.isdigit() else 0)


@dataclass
class Attempt:
    """The pods of one attempt that are there and run."""

    pods: dict[str, Pod] = field(default_factory=dict)
    """uid → pod"""
    task: asyncio.Task[None] | None = None

    def complete(self) -> bool:
        """Whether every pod that it needs is there: the workers, and a launcher or chief where there is to be one."""
        workers = sum(pod.works for pod in self.pods.values())
        some = next(iter(self.pods.values()))
        if workers < int(some.environment.get(PODS_ENV) or 1):
            return False
        led = some.labels.get(_OPERATOR) == "mpi-operator" or some.trial.workload.strategy is Strategy.parameter_server
        return not led or any(pod.leads for pod in self.pods.values())


class Player:
    """Plays until it is cancelled."""

    def __init__(self, kubeconfig: Path, port: int, certificate: Path) -> None:
        read = json.loads(kubeconfig.read_text())
        cluster, user = read["clusters"][0]["cluster"], read["users"][0]["user"]
        self._server, self._client_tls = cluster["server"], client_context(cluster, user)
        self._port = port
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(certificate, certificate.with_suffix(".key"))
        self._attempts: dict[tuple[str, str, str], Attempt] = {}
        self._seen: dict[str, tuple[str, str, str]] = {}
        """uid → attempt, of pods that run or waited for an image"""
        self._deadlines: dict[str, asyncio.TimerHandle] = {}
        self._logs: dict[tuple[str, str], bytes | None] = {}
        """(namespace, pod) → payload to be framed at its log's end; None for a log that cannot be read"""
        self._torn: set[tuple[str, str]] = set()
        self._slots = asyncio.Semaphore(_CONCURRENT)
        self._background: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Serve and play, for ever."""
        application = web.Application()
        application.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._serve_log)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", self._port, ssl_context=self._tls).start()
        connector = aiohttp.TCPConnector(ssl=self._client_tls, limit=_CONCURRENT + 4)
        unlimited = aiohttp.ClientTimeout(total=None, sock_connect=5)
        async with aiohttp.ClientSession(self._server, connector=connector, timeout=unlimited) as self._session:
            while True:
                try:
                    async for kind, pod in self._pods():
                        self._observe(kind, pod)
                except (aiohttp.ClientError, OSError) as error:
                    print(f"watch: {error!r}; again", file=sys.stderr, flush=True)
                await asyncio.sleep(_AGAIN_S)

    async def _pods(self) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        """Every trial's pod, then every change, until the watch ends."""
        query = {"labelSelector": TRIAL_LABEL}
        async with self._session.get("/api/v1/pods", params=query) as answer:
            answer.raise_for_status()
            found = await answer.json()
        there = {pod["metadata"]["uid"] for pod in found["items"]}
        for uid in [uid for uid in self._seen if uid not in there]:
            self._forget(uid)
        for pod in found["items"]:
            yield "ADDED", pod
        query |= {"watch": "1", "resourceVersion": found["metadata"]["resourceVersion"], "allowWatchBookmarks": "true"}
        async with self._session.get("/api/v1/pods", params=query) as answer:
            answer.raise_for_status()
            rest = b""
            async for data in answer.content.iter_any():
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        return
                    if event["type"] != "BOOKMARK":
                        yield event["type"], event["object"]

    # -- what is seen

    def _observe(self, kind: str, seen: dict[str, Any]) -> None:
        metadata, spec, status = seen["metadata"], seen["spec"], seen["status"]
        uid = metadata["uid"]
        if kind == "DELETED":
            self._logs.pop((metadata["namespace"], metadata["name"]), None)
            self._torn.discard((metadata["namespace"], metadata["name"]))
            self._forget(uid)
            return
        if uid in self._seen or metadata.get("deletionTimestamp"):
            return
        phase, node = status.get("phase"), spec.get("nodeName")
        # kwok leaves pods whose PLAY names image-pull to us.
        ours = phase == "Pending" and node is not None and _names_image_pull(spec)
        if phase != "Running" and not ours:
            return
        labels = metadata["labels"]
        key = (metadata["namespace"], labels[TRIAL_LABEL], labels.get(ATTEMPT_LABEL, "1"))
        pod = Pod(
            key[0],
            metadata["name"],
            uid,
            node or "",
            labels,
            spec["containers"],
            status.get("startTime") or _now(),
            spec.get("activeDeadlineSeconds"),
        )
        self._seen[uid] = key
        if ours:
            self._start(self._image(pod, key))
            return
        self._running(pod, key)

    def _running(self, pod: Pod, key: tuple[str, str, str]) -> None:
        attempt = self._attempts.setdefault(key, Attempt())
        attempt.pods[pod.uid] = pod
        if pod.deadline_s is not None:
            self._deadlines[pod.uid] = asyncio.get_running_loop().call_later(
                pod.deadline_s, lambda: self._start(self._too_late(pod))
            )
        if attempt.task is None and attempt.complete():
            attempt.task = self._start(self._play(key, attempt))

    def _forget(self, uid: str) -> None:
        if (deadline := self._deadlines.pop(uid, None)) is not None:
            deadline.cancel()
        key = self._seen.pop(uid, None)
        attempt = self._attempts.get(key) if key else None
        if key is None or attempt is None:
            return
        attempt.pods.pop(uid, None)
        if not attempt.pods:
            if attempt.task is not None:
                attempt.task.cancel()
            del self._attempts[key]

    def _start(self, coroutine: Any) -> asyncio.Task[None]:
        async def reported() -> None:
            try:
                await coroutine
            except Exception:
                traceback.print_exc()
                sys.stderr.flush()

        task = asyncio.create_task(reported())
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    # -- what is done

    async def _image(self, pod: Pod, key: tuple[str, str, str]) -> None:
        if _script_of(pod).outcome is not Outcome.image_pull:
            await self._run(pod)
            self._running(pod, key)
            return
        event = {
            "metadata": {"generateName": f"{pod.name}-", "namespace": pod.namespace},
            "involvedObject": {
                "apiVersion": "v1", "kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid,
            },
            "type": "Warning",
            "reason": "Failed",
            "message": f'Failed to pull image "{pod.containers[0]["image"]}": not found',
            "source": {"component": "kubelet"},
            "firstTimestamp": _now(),
            "lastTimestamp": _now(),
            "count": 1,
        }  # fmt: skip
        async with self._session.post(f"/api/v1/namespaces/{pod.namespace}/events", json=event) as answer:
            answer.raise_for_status()
        waiting = {"reason": "ImagePullBackOff", "message": "Back-off pulling image: not found"}
        states = [{**_named(container), "state": {"waiting": waiting}} for container in pod.containers]
        await self._patch(pod, {"phase": "Pending", "containerStatuses": states})

    async def _run(self, pod: Pod) -> None:
        states = [
            {
                **_named(each),
                "ready": True,
                "started": True,
                "state": {"waiting": None, "running": {"startedAt": _now()}},
            }
            for each in pod.containers
        ]
        ready = [{"type": kind, "status": "True"} for kind in ("Initialized", "ContainersReady", "Ready")]
        status = {"phase": "Running", "startTime": pod.started, "conditions": ready, "containerStatuses": states}
        await self._patch(pod, status)

    async def _play(self, key: tuple[str, str, str], attempt: Attempt) -> None:
        workers = sorted((pod for pod in attempt.pods.values() if pod.works), key=lambda pod: pod.order)
        recording = next((pod for pod in attempt.pods.values() if pod.leads), workers[0])
        trial, number, part = recording.trial, recording.attempt, _script_of(recording)
        await asyncio.sleep(part.seconds)
        if part.outcome is Outcome.hang:
            return
        # Workers with a leader wait for it, parameter servers for ever: they stay until the job is deleted.
        ending = [recording] if recording.leads else workers
        if part.outcome in (Outcome.fail, Outcome.oom, Outcome.evict):
            await self._break(part.outcome, workers[-1], recording, trial, number)
            return
        bare = Termination(trial=trial.name, attempt=number, exit_codes={"0": 0})
        recorded = part.outcome is not Outcome.no_record
        said = await self._record(recording, workers, trial, number, part) if recorded else bare
        await asyncio.gather(
            *(self._end(pod, 0, "Completed", spell(said if pod is recording else bare)) for pod in ending)
        )

    async def _record(
        self, recording: Pod, workers: Sequence[Pod], trial: TrialSpec, number: int, part: Script
    ) -> Termination:
        """Make the record and keep it for the log; what the pod says of it."""
        budget = int(recording.environment.get(BUDGET_ENV) or 8 << 20)
        begin_ns = time.time_ns() - 5_000_000_000

        def made() -> tuple[bytes, Termination]:
            played = play_record(trial, [Place(pod.name, pod.node) for pod in workers], begin_ns, part.outcome)
            payload = envelope.seal(trial.name, number, played.ranks, played.journals, budget)
            said = Termination(
                trial=trial.name, attempt=number, sha256=envelope.digest(payload), bytes=len(payload),
                summary=played.summary, exit_codes={"0": 0},
            )  # fmt: skip
            return payload, said

        payload, said = await asyncio.to_thread(made) if trial.point.workers > _INLINE_WORKERS else made()
        where = (recording.namespace, recording.name)
        self._logs[where] = payload if part.outcome is not Outcome.no_log else None
        if part.outcome is Outcome.torn_record:
            self._torn.add(where)
        if part.outcome is Outcome.other_record:
            said = said.model_copy(update={"sha256": "0" * 64})
        return said

    async def _break(self, outcome: Outcome, victim: Pod, recording: Pod, trial: TrialSpec, number: int) -> None:
        """One worker's pod ends badly; a leader then ends too, as mpirun does."""
        rank = trial.point.workers - 1
        failure = RankFailure(rank=rank, reason=FailedReason.rank_failed.value, message="RuntimeError: played to fail")
        said = Termination(trial=trial.name, attempt=number, failures=[failure], exit_codes={str(rank): 1})
        if outcome is Outcome.oom:
            await self._end(victim, 137, "OOMKilled", "")
        elif outcome is Outcome.evict:
            evicted = {"reason": "Evicted", "message": "The node was low on resource: memory."}
            target = {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}
            await self._end(victim, 137, "Error", "", evicted, [target])
        if recording.leads or outcome is Outcome.fail:
            last = recording if recording.leads else victim
            lost = said if outcome is Outcome.fail else said.model_copy(update={"failures": []})
            await self._end(last, 1, "Error", spell(lost))

    async def _too_late(self, pod: Pod) -> None:
        said = {
            "reason": "DeadlineExceeded",
            "message": "Pod was active on the node longer than the specified deadline",
        }
        await self._end(pod, 137, "Error", "", said)

    async def _end(
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
        if (deadline := self._deadlines.pop(pod.uid, None)) is not None:
            deadline.cancel()
        now = _now()
        states = []
        for index, container in enumerate(pod.containers):
            terminated = {"exitCode": code, "reason": reason, "startedAt": pod.started, "finishedAt": now}
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
            await asyncio.sleep(_AGAIN_S)

    # -- logs

    async def _serve_log(self, request: web.Request) -> web.Response:
        where = (request.match_info["namespace"], request.match_info["pod"])
        payload = self._logs.get(where, b"")
        if payload is None:
            return web.Response(status=500, text="failed to open log file: no such file or directory")
        lines = ["played: a line of output\n"]
        if payload:
            frame = list(log_lines.frame(payload))
            if where in self._torn:
                del frame[-1]
            lines += [f"{line}\n" for line in frame]
            lines.append("played: another line behind the record\n")
        if (tail := request.query.get("tailLines")) is not None:
            lines = lines[-int(tail) :] if int(tail) else []
        text = "".join(lines)
        if (limit := request.query.get("limitBytes")) is not None:
            text = text[: int(limit)]
        return web.Response(text=text)


def _script_of(pod: Pod) -> Script:
    return script(pod.environment, pod.trial, pod.attempt)


def _names_image_pull(spec: Mapping[str, Any]) -> bool:
    entries = (entry for container in spec["containers"] for entry in container.get("env") or [])
    return any(entry["name"] == "PLAY" and "image-pull" in entry.get("value", "") for entry in entries)


def _named(container: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": container["name"], "image": container["image"], "imageID": "", "ready": False, "restartCount": 0,
    }  # fmt: skip


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def main() -> None:
    parser = argparse.ArgumentParser(description="Play the containers of trials' pods on fake nodes.")
    parser.add_argument("kubeconfig", type=Path, help="as tests/cluster/tier.py writes it")
    parser.add_argument("--port", type=int, required=True, help="of the kubelet's endpoint that the nodes name")
    parser.add_argument("--certificate", type=Path, required=True, help="for 127.0.0.1; its key is beside it")
    chosen = parser.parse_args()
    try:
        asyncio.run(Player(chosen.kubeconfig, chosen.port, chosen.certificate).run())
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
