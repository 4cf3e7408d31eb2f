"""Plays the containers of trials' pods on fake nodes, where kwok can only make pods run.

Watches pods labelled scalecurve.dev/trial (played_pods.py). When all pods of an attempt run, it waits as the script
says (script.py), ends them as a kubelet would (exit codes, reasons, termination messages: played_status.py) and serves
their logs over the kubelet's TLS port (played_logs.py), with records made from the pods' own trial (played_record.py),
real in form. One watch, no polling.

    python tests/cluster/player.py KUBECONFIG --port P --certificate F     key beside the certificate
"""

import argparse
import asyncio
import base64
import json
import ssl
import sys
import time
import traceback
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from scalecurve_api.contract import BUDGET_ENV, TRIAL_ENV
from scalecurve_api.record import envelope
from scalecurve_api.record.rank import RankFailure
from scalecurve_api.record.termination import Termination, spell
from scalecurve_api.spec.object_names import ATTEMPT_LABEL, TRIAL_LABEL
from scalecurve_api.spec.secrets import masked, values_in
from scalecurve_api.spec.trial import FailedReason, TrialSpec
from tools.devcluster.player.logs import Logs
from tools.devcluster.player.pods import Attempt, Pod
from tools.devcluster.player.record import Place, play_record
from tools.devcluster.player.script import Scenario, Script, forge, script, slowdown
from tools.devcluster.player.status import AGAIN_S, CONCURRENT, Statuses, now
from tools.devcluster.rest import client_context

_INLINE_WORKERS = 64
"""The record of a larger trial is made in a thread, so that the others' ends do not wait for it."""


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
        self._logs = Logs()
        self._background: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Serve and play, for ever."""
        application = web.Application()
        application.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._logs.serve)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", self._port, ssl_context=self._tls).start()
        connector = aiohttp.TCPConnector(ssl=self._client_tls, limit=CONCURRENT + 4)
        unlimited = aiohttp.ClientTimeout(total=None, sock_connect=5)
        async with aiohttp.ClientSession(self._server, connector=connector, timeout=unlimited) as self._session:
            self._statuses = Statuses(self._session)
            while True:
                try:
                    async for kind, pod in self._pods():
                        self._observe(kind, pod)
                except (aiohttp.ClientError, OSError) as error:
                    print(f"watch: {error!r}; again", file=sys.stderr, flush=True)
                await asyncio.sleep(AGAIN_S)

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

    def _observe(self, kind: str, pod_object: dict[str, Any]) -> None:
        metadata, spec, status = pod_object["metadata"], pod_object["spec"], pod_object["status"]
        uid = metadata["uid"]
        if kind == "DELETED":
            self._logs.forget((metadata["namespace"], metadata["name"]))
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
            status.get("startTime") or now(),
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
            late = asyncio.get_running_loop().call_later
            pod.deadline = late(pod.deadline_s, lambda: self._start(self._too_late(pod)))
        if attempt.task is None and attempt.complete():
            attempt.task = self._start(self._play(key, attempt))

    def _forget(self, uid: str) -> None:
        key = self._seen.pop(uid, None)
        attempt = self._attempts.get(key) if key else None
        if key is None or attempt is None:
            return
        if (pod := attempt.pods.pop(uid, None)) is not None:
            pod.stop_clock()
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
        if _script_of(pod).outcome is not Scenario.image_pull:
            await self._statuses.run(pod)
            self._running(pod, key)
            return
        await self._statuses.wait_for_image(pod)

    async def _play(self, key: tuple[str, str, str], attempt: Attempt) -> None:
        workers = sorted((pod for pod in attempt.pods.values() if pod.works), key=lambda pod: pod.order)
        recording = next((pod for pod in attempt.pods.values() if pod.leads), workers[0])
        trial, number, part = recording.trial, recording.attempt, _script_of(recording)
        await asyncio.sleep(part.seconds)
        for pod in attempt.pods.values() if recording.environment.get("PLAY_PRINT") else ():
            await self._print(pod)
        if part.outcome is Scenario.hang:
            return
        # Workers with a leader wait for it, parameter servers for ever: they stay until the job is deleted.
        ending = [recording] if recording.leads else workers
        if part.outcome in (Scenario.fail, Scenario.oom, Scenario.evict):
            await self._break(part.outcome, workers[-1], recording, trial, number)
            return
        bare = Termination(trial=trial.name, attempt=number, exit_codes={"0": 0})
        recorded = part.outcome is not Scenario.no_record
        said = await self._record(recording, workers, trial, number, part) if recorded else spell(bare)
        await asyncio.gather(
            *(self._statuses.end(pod, 0, "Completed", said if pod is recording else spell(bare)) for pod in ending)
        )

    async def _print(self, pod: Pod) -> None:
        """A program prints its variables, and the pod entry masks what it knows to be secret."""
        async with self._session.get(f"/api/v1/namespaces/{pod.namespace}/secrets") as answer:
            answer.raise_for_status()
            found = (await answer.json())["items"]
        secrets = {
            each["metadata"]["name"]: {key: base64.b64decode(text).decode() for key, text in each["data"].items()}
            for each in found
            if each.get("data")
        }
        variables = pod.variables(secrets)
        hidden = values_in(variables, pod.trial.workload)
        lines = [masked(f"{name}={text}", hidden) for name, text in variables.items() if name != TRIAL_ENV]
        self._logs.print((pod.namespace, pod.name), lines)

    async def _record(self, recording: Pod, workers: Sequence[Pod], trial: TrialSpec, number: int, part: Script) -> str:
        """Make the record and keep it for the log; what the pod says of it."""
        budget = int(recording.environment.get(BUDGET_ENV) or 8 << 20)
        begin_ns = time.time_ns() - 5_000_000_000

        def made() -> tuple[bytes, Termination]:
            places = [Place(pod.name, pod.node) for pod in workers]
            slower = slowdown(recording.environment, {place.node for place in places})
            played = play_record(trial, places, begin_ns, part.outcome, slower)
            payload = envelope.seal(trial.name, number, played.ranks, played.journals, budget)
            said = Termination(
                trial=trial.name, attempt=number, sha256=envelope.digest(payload), bytes=len(payload),
                summary=played.summary, exit_codes={"0": 0},
            )  # fmt: skip
            return payload, said

        payload, said = await asyncio.to_thread(made) if trial.point.workers > _INLINE_WORKERS else made()
        if part.outcome is Scenario.other_record:
            said = said.model_copy(update={"sha256": "0" * 64})
        payload, message = forge(recording.environment, payload, spell(said))
        kept = payload if part.outcome is not Scenario.no_log else None
        torn, flood_mib = part.outcome is Scenario.torn_record, int(recording.environment.get("PLAY_FLOOD") or 0)
        self._logs.keep((recording.namespace, recording.name), kept, torn=torn, flood_mib=flood_mib)
        return message

    async def _break(self, outcome: Scenario, victim: Pod, recording: Pod, trial: TrialSpec, number: int) -> None:
        """One worker's pod ends badly; a leader then ends too, as mpirun does."""
        rank = trial.point.workers - 1
        failure = RankFailure(rank=rank, reason=FailedReason.rank_failed.value, message="RuntimeError: played to fail")
        said = Termination(trial=trial.name, attempt=number, failures=[failure], exit_codes={str(rank): 1})
        if outcome is Scenario.oom:
            await self._statuses.end(victim, 137, "OOMKilled", "")
        elif outcome is Scenario.evict:
            evicted = {"reason": "Evicted", "message": "The node was low on resource: memory."}
            target = {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}
            await self._statuses.end(victim, 137, "Error", "", evicted, [target])
        if recording.leads or outcome is Scenario.fail:
            last = recording if recording.leads else victim
            lost = said if outcome is Scenario.fail else said.model_copy(update={"failures": []})
            await self._statuses.end(last, 1, "Error", spell(lost))

    async def _too_late(self, pod: Pod) -> None:
        said = {
            "reason": "DeadlineExceeded",
            "message": "Pod was active on the node longer than the specified deadline",
        }
        await self._statuses.end(pod, 137, "Error", "", said)


def _script_of(pod: Pod) -> Script:
    return script(pod.environment, pod.trial, pod.attempt)


def _names_image_pull(spec: Mapping[str, Any]) -> bool:
    entries = (entry for container in spec["containers"] for entry in container.get("env") or [])
    return any(entry["name"] == "PLAY" and "image-pull" in entry.get("value", "") for entry in entries)


def main() -> None:
    parser = argparse.ArgumentParser(description="Play the containers of trials' pods on fake nodes.")
    parser.add_argument("kubeconfig", type=Path, help="as `devcluster.tier` writes it")
    parser.add_argument("--port", type=int, required=True, help="of the kubelet's endpoint that the nodes name")
    parser.add_argument("--certificate", type=Path, required=True, help="for 127.0.0.1; its key is beside it")
    chosen = parser.parse_args()
    try:
        asyncio.run(Player(chosen.kubeconfig, chosen.port, chosen.certificate).run())
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
