"""Plays the containers of trials' pods on fake nodes, where kwok can only make pods run.

Watches pods labelled scalecurve.dev/trial (pods.py). When all pods of an attempt run, it waits as the script says
(script.py), ends them as a kubelet would (exit codes, reasons, termination messages: status.py) and serves their logs
over the kubelet's TLS port (kubelet.py), with records made from the pods' own trial (record.py), real in form.

    python -m tools.devcluster.player KUBECONFIG --port P --certificate F     key beside the certificate
"""

import argparse
import asyncio
import base64
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scalecurve_api.contract import BUDGET_ENV, TRIAL_ENV
from scalecurve_api.record.rank import RankFailure
from scalecurve_api.record.termination import Termination, spell
from scalecurve_api.spec.object_names import ATTEMPT_LABEL, TRIAL_LABEL
from scalecurve_api.spec.secrets import masked, values_in
from scalecurve_api.spec.trial import FailedReason, TrialSpec
from tools.devcluster.player.kubelet import Kubelet
from tools.devcluster.player.pods import Attempt, Pod, pod_of
from tools.devcluster.player.record import Place, sealed
from tools.devcluster.player.script import Scenario, Script, forge, script, slowdown
from tools.devcluster.player.status import Statuses, now

_INLINE_WORKERS = 64
"""The record of a larger trial is made in a thread, so that the others' ends do not wait for it."""


class Player:
    """Plays until it is cancelled."""

    def __init__(self, kubelet: Kubelet) -> None:
        self._kubelet, self._statuses, self._logs = kubelet, Statuses(kubelet), kubelet.logs
        self._attempts: dict[tuple[str, str, str], Attempt] = {}
        self._seen: dict[str, tuple[str, str, str]] = {}
        """uid → attempt, of pods that run or waited for an image"""

    async def run(self) -> None:
        """Serve and play, for ever."""
        async for kind, pod in self._kubelet.follow("/api/v1/pods", TRIAL_LABEL):
            self._observe(kind, pod)

    # -- what is seen

    def _observe(self, kind: str, pod_object: dict[str, Any]) -> None:
        metadata, spec, status = pod_object["metadata"], pod_object["spec"], pod_object["status"]
        uid = metadata["uid"]
        if kind == "DELETED":
            self._logs.pop((metadata["namespace"], metadata["name"]), None)
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
        pod = pod_of(pod_object, status.get("startTime") or now())
        self._seen[uid] = key
        if ours:
            self._kubelet.begin(self._image(pod, key))
            return
        self._add_to_attempt(pod, key)

    def _add_to_attempt(self, pod: Pod, key: tuple[str, str, str]) -> None:
        attempt = self._attempts.setdefault(key, Attempt())
        attempt.pods[pod.uid] = pod
        if pod.deadline_s is not None:
            late = asyncio.get_running_loop().call_later
            pod.deadline = late(pod.deadline_s, lambda: self._kubelet.begin(self._too_late(pod)))
        if attempt.task is None and attempt.complete():
            attempt.task = self._kubelet.begin(self._play(key, attempt))

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

    # -- what is done

    async def _image(self, pod: Pod, key: tuple[str, str, str]) -> None:
        if _script_of(pod).outcome is not Scenario.image_pull:
            await self._statuses.run(pod)
            self._add_to_attempt(pod, key)
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
        found = (await self._kubelet.read(f"/api/v1/namespaces/{pod.namespace}/secrets"))["items"]
        secrets = {
            each["metadata"]["name"]: {key: base64.b64decode(text).decode() for key, text in each["data"].items()}
            for each in found
            if each.get("data")
        }
        variables = pod.variables(secrets)
        hidden = values_in(variables, pod.trial.workload)
        lines = [masked(f"{name}={text}\n", hidden) for name, text in variables.items() if name != TRIAL_ENV]
        self._logs[pod.namespace, pod.name].printed = "".join(lines)

    async def _record(self, recording: Pod, workers: Sequence[Pod], trial: TrialSpec, number: int, part: Script) -> str:
        """Make the record and keep it for the log; what the pod says of it."""
        budget = int(recording.environment.get(BUDGET_ENV) or 8 << 20)

        def make_record() -> tuple[bytes, Termination]:
            places = [Place(pod.name, pod.node) for pod in workers]
            slower = slowdown(recording.environment, {place.node for place in places})
            return sealed(trial, number, places, part.outcome, slower, budget)

        payload, said = await asyncio.to_thread(make_record) if trial.point.workers > _INLINE_WORKERS else make_record()
        if part.outcome is Scenario.other_record:
            said = said.model_copy(update={"sha256": "0" * 64})
        payload, message = forge(recording.environment, payload, spell(said))
        log = self._logs[recording.namespace, recording.name]
        log.payload = payload if part.outcome is not Scenario.no_log else None
        log.torn = part.outcome is Scenario.torn_record
        log.flood_mib = int(recording.environment.get("PLAY_FLOOD") or 0)
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
        late = "Pod was active on the node longer than the specified deadline"
        await self._statuses.end(pod, 137, "Error", "", {"reason": "DeadlineExceeded", "message": late})


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
        asyncio.run(Player(Kubelet(chosen.kubeconfig, chosen.port, chosen.certificate)).run())
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
