"""What an ended attempt left, from its pods into the cluster's keeping: judged, stored, and only then let go.

Judging loads rank records as models; of thousands of ranks that is long and large, so it is done in a process of its
own, which gives the memory back.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scalecurve_api.crds.status import MAX_PARTS
from scalecurve_api.model import canonical_json
from scalecurve_api.record import termination
from scalecurve_api.record.envelope import EnvelopeError, digest
from scalecurve_api.record.log_lines import unframe
from scalecurve_api.record.outcome import Outcome
from scalecurve_api.record.termination import Termination
from scalecurve_api.record.verdict import Verdict
from scalecurve_api.spec.object_names import OUTCOME_KEY, RECORD_KEY, ROLE_LABEL, labels, record_name
from scalecurve_api.spec.trial import FailedReason, TrialSpec
from scalecurve_kube.client import CONFIG_MAPS, PODS, TRIALS, Cluster, Object, Refused, Unreachable
from scalecurve_operator.reconcile import pod_diagnosis as read_pods
from scalecurve_operator.reconcile.job_objects import selector
from scalecurve_operator.reconcile.job_probe import HANGS, too_late
from scalecurve_operator.reconcile.judge import Judgement, judge_payload
from scalecurve_operator.runners import Reading, Request, RunnerKind
from scalecurve_operator.runners.pod_status import current

_PART = 900_000
"""Bytes of a payload in one ConfigMap, at most."""
_ROOM = 1_000_000
"""Bytes of everything in one ConfigMap: an API server takes 1 MiB."""
_INLINE = 1 << 17
"""A payload up to this size is judged in this process: some ten ranks, a few milliseconds."""
_TRIES = 3
_JUDGES = 2
"""Processes that may end over one record; a second one, for the first may have met with an accident."""
_TAIL_LINES = 60
_TAIL_BYTES = 500
_MOST_TAILS = 4

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Collected:
    """Everything that the trial's status tells of an attempt."""

    verdict: Verdict
    summary: Object | None
    record: Object
    nodes: tuple[str, ...]
    ended_at: float


@dataclass(frozen=True)
class Attempt:
    """An attempt that has ended, or is ended now: cancelled, too late, or its job gone."""

    request: Request
    runner: RunnerKind
    reading: Reading | None
    owner: Object
    """reference to the ScalingTrial, which the record belongs to"""
    timeline: Sequence[Object] = ()
    forced: tuple[FailedReason, str] | None = None
    """why the controller itself ends it"""
    cancelled: bool = False


async def collect(cluster: Cluster, attempt: Attempt) -> Collected:
    """Judge an attempt and keep its record; nothing of the job is needed any more when this returns.

    Collecting twice gives the same ConfigMaps with the same bytes.

    Raises:
        Refused, Unreachable: when the API server does not let us.
    """
    request = attempt.request
    pods = current(await cluster.list(PODS, request.namespace, labelSelector=selector(request)))
    recording = attempt.runner.recording_pod(pods)
    said = _termination(recording, request)
    payload, missing = (None, "") if attempt.cancelled else await _payload(cluster, request, recording, said)
    outcome = await _outcome(cluster, attempt, pods, missing)
    judgement = await _judge(request.trial, payload, outcome)
    record = await _keep(cluster, attempt, payload, outcome, judgement)
    summary = said.summary.wire() if said is not None and said.summary is not None else None
    return Collected(judgement.verdict, summary, record, read_pods.nodes(pods), _ended_at(attempt.reading))


def _termination(pod: Mapping[str, Any] | None, request: Request) -> Termination | None:
    for text in read_pods.messages(pod) if pod is not None else ():
        found = termination.read(text)
        if found is not None and (found.trial, found.attempt) == (request.trial.name, request.attempt):
            return found
    return None


async def _payload(
    cluster: Cluster, request: Request, pod: Mapping[str, Any] | None, said: Termination | None
) -> tuple[bytes | None, str]:
    """The record out of the log, or None and why there is none. What the termination message announces must come."""
    if pod is None:
        return None, "the pod that records was not there to be read"
    why = ""
    for wait in range(_TRIES):
        try:
            log = await cluster.log(request.namespace, pod["metadata"]["name"], read_pods.main_container(pod))
            payload = unframe(log.splitlines())
            if len(payload) > (MAX_PARTS - 1) * _PART:
                return None, f"the record has {len(payload)} bytes, {(MAX_PARTS - 1) * _PART} can be kept"
            if said is not None and said.sha256 is not None and digest(payload) != said.sha256:
                why = f"the record in the log has sha256 {digest(payload)}, its pod announced {said.sha256}"
                break
            return payload, ""
        except EnvelopeError as error:
            why = str(error)
            if said is None or said.sha256 is None:
                break
        except (Refused, Unreachable) as error:
            why = f"the log of pod {pod['metadata']['name']} could not be read: {_said(error)}"
        await asyncio.sleep(0.5 * (wait + 1))
    return None, why


async def _outcome(cluster: Cluster, attempt: Attempt, pods: Sequence[Object], missing: str) -> Outcome:
    request, reading = attempt.request, attempt.reading
    failure, message = None, missing
    if attempt.cancelled:
        message = "cancelled"
    elif attempt.forced is not None or reading is None or not reading.succeeded:
        found = read_pods.failure(pods, resumed_at=reading.resumed_at if reading is not None else None)
        late = reading is not None and reading.reason is FailedReason.deadline_exceeded
        if attempt.forced is not None:
            failure, message = attempt.forced
        elif late:
            failure, message = FailedReason.deadline_exceeded, too_late(request.trial.deadline_seconds, HANGS)
        else:
            failure, message = found or (FailedReason.rank_failed, reading.message if reading else "its job is gone")
        if found is not None and found[1] not in message:
            message = f"{message}; {found[1]}" if message else found[1]
    return Outcome(
        engine="kubernetes",
        engine_version=request.engine_version,
        attempt=request.attempt,
        failure=failure,
        message=message,
        cancelled=attempt.cancelled,
        exit_codes=read_pods.exit_codes(pods),
        log_tail=await _tails(cluster, request, read_pods.telling(pods)) if failure is not None else {},
        placement=read_pods.placement(pods),
        timeline=[*attempt.timeline],  # type: ignore[list-item]  # pydantic reads the wire form
    )


async def _tails(cluster: Cluster, request: Request, pods: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """The last lines of a few pods, for people; never worth failing for."""
    tails: dict[str, list[str]] = {}
    for pod in pods[:_MOST_TAILS]:
        name = pod["metadata"]["name"]
        try:
            text = await cluster.log(request.namespace, name, read_pods.main_container(pod), tail=_TAIL_LINES)
            tails[name] = [line.encode()[:_TAIL_BYTES].decode(errors="ignore") for line in text.splitlines()]
        except (Refused, Unreachable) as error:
            logger.info("%s: no log of %s: %s", request.job, name, _said(error))
    return tails


def _said(error: Refused | Unreachable) -> str:
    return error.message if isinstance(error, Refused) else str(error)


async def _judge(trial: TrialSpec, payload: bytes | None, outcome: Outcome) -> Judgement:
    if payload is None or len(payload) <= _INLINE:
        return judge_payload(trial, payload, outcome)
    for _ in range(_JUDGES):
        found = await _judge_apart(trial, payload, outcome)
        if isinstance(found, Judgement):
            return found
    why = f"the record could not be judged: its process ended with exit code {found}"
    return judge_payload(trial, None, outcome.model_copy(update={"message": outcome.message or why}))


async def _judge_apart(trial: TrialSpec, payload: bytes, outcome: Outcome) -> Judgement | int:
    """In a process of its own; its exit code where it came to no end."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "scalecurve_operator.reconcile.judge",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    request = canonical_json({"trial": trial.wire(), "outcome": outcome.wire(), "bytes": len(payload)})
    out, _ = await process.communicate(request.encode() + b"\n" + payload)
    if process.returncode:
        return process.returncode
    return Judgement.from_wire(json.loads(out))


async def _keep(
    cluster: Cluster, attempt: Attempt, payload: bytes | None, outcome: Outcome, judgement: Judgement
) -> Object:
    """Write the record's ConfigMaps; the trial's status then says where they are."""
    request = attempt.request
    told = canonical_json(outcome.wire())
    parts = _parts(payload or b"", _ROOM - len(told))
    names = [record_name(request.trial_object, request.attempt, index) for index in range(len(parts))]
    for index, (name, part) in enumerate(zip(names, parts, strict=True)):
        body: Object = {
            "apiVersion": CONFIG_MAPS.api_version,
            "kind": CONFIG_MAPS.kind,
            "metadata": {
                "name": name,
                "namespace": request.namespace,
                "labels": labels(request.experiment, request.trial_object, request.attempt) | {ROLE_LABEL: "record"},
                "ownerReferences": [attempt.owner],
            },
        }
        if part:
            body["binaryData"] = {RECORD_KEY: base64.b64encode(part).decode()}
        if index == 0:
            body["data"] = {OUTCOME_KEY: told}
        await cluster.apply(CONFIG_MAPS, request.namespace, body)
    record: Object = {
        "sha256": digest(payload or b""),
        "bytes": len(payload or b""),
        "configMaps": names,
    }
    return record | ({"leftOut": list(judgement.left_out)} if judgement.left_out else {})


def _parts(payload: bytes, room: int) -> list[bytes]:
    """Pieces for a ConfigMap each; the first has ``room`` for less, beside what was observed."""
    first = max(0, min(_PART, room))
    return [payload[:first], *(payload[at : at + _PART] for at in range(first, len(payload), _PART))]


def _ended_at(reading: Reading | None) -> float:
    """Now: a job's own times have a resolution of a second, and an attempt that is ended has none."""
    return time.time()


def owner_of_record(name: str, uid: str) -> Object:
    """The reference that ties a record to its trial."""
    return {"apiVersion": TRIALS.api_version, "kind": TRIALS.kind, "name": name, "uid": uid}
