"""Collecting what an ended attempt left in its pods: judged, stored in ConfigMaps, and only then deleted.

Judging loads rank records as models; for thousands of ranks that takes long and a lot of memory, so it happens in a
process of its own, which returns the memory.
"""

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
from scalecurve_api.spec.object_names import OUTCOME_KEY, RECORD_KEY, ROLE_LABEL, labels, record_name
from scalecurve_api.spec.trial import FailedReason, TrialSpec
from scalecurve_kube.cluster import Cluster
from scalecurve_kube.errors import Refused, Unreachable
from scalecurve_kube.resources import CONFIG_MAPS, PODS, Object
from scalecurve_operator.cache.cached_objects import Cause
from scalecurve_operator.reconcile import pod_diagnosis
from scalecurve_operator.reconcile.job_probe import HANG, deadline_message
from scalecurve_operator.reconcile.judge import Judgment, judge_payload
from scalecurve_operator.runners import JobRequest, JobStatus, RunnerKind
from scalecurve_operator.runners.pod_status import newest_pods
from scalecurve_operator.status.render import AttemptResult

_PART_BYTES = 900_000
"""Of a payload in one ConfigMap."""
_CONFIG_MAP_BYTES = 1_000_000
"""Of everything in one ConfigMap: the API server's limit is 1 MiB."""
_INLINE_BYTES = 1 << 17
"""A payload up to this size is judged in this process: some ten ranks, a few milliseconds."""
_LOG_ATTEMPTS = 3
_JUDGE_ATTEMPTS = 2
"""Processes that may die of one record; the first may have been killed by accident."""
_TAIL_LINES = 60
_TAIL_BYTES = 500
_MAX_TAILS = 4

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class UncollectedAttempt:
    """An attempt that has ended, or is being ended: canceled, past its deadline, or its job gone."""

    request: JobRequest
    runner: RunnerKind
    job_status: JobStatus | None
    owner: Object
    """reference to the ScalingTrial, which owns the record"""
    timeline: Sequence[Object] = ()
    cause: Cause | None = None
    """why the operator ends it"""
    cancelled: bool = False


async def collect_attempt(cluster: Cluster, attempt: UncollectedAttempt) -> AttemptResult:
    """Judge an attempt and keep its record; nothing of the job is needed any more when this returns.

    Collecting twice writes the same bytes to the same ConfigMaps.

    Raises:
        Refused, Unreachable: by the API server.
    """
    request = attempt.request
    pods = newest_pods(await cluster.list(PODS, request.namespace, labelSelector=request.pod_selector))
    pod = attempt.runner.recording_pod(pods)
    announced = _termination(pod, request)
    payload, problem = (None, "") if attempt.cancelled else await _payload(cluster, request, pod, announced)
    outcome = await _outcome(cluster, attempt, pods, problem)
    judgment = await _judge(request.trial, payload, outcome)
    record = await _store(cluster, attempt, payload or b"", outcome, judgment)
    summary = announced.summary.wire() if announced is not None and announced.summary is not None else None
    # The job's own times have a resolution of a second, and an attempt that the operator ends has none.
    return AttemptResult(judgment.verdict, summary, record, pod_diagnosis.nodes(pods), time.time())


def _termination(pod: Mapping[str, Any] | None, request: JobRequest) -> Termination | None:
    """What the recording pod announces in its termination message."""
    for text in pod_diagnosis.messages(pod) if pod is not None else ():
        message = termination.read(text)
        if message is not None and (message.trial, message.attempt) == (request.trial.name, request.attempt):
            return message
    return None


async def _payload(
    cluster: Cluster, request: JobRequest, pod: Mapping[str, Any] | None, announced: Termination | None
) -> tuple[bytes | None, str]:
    """The record from the log, or None and why there is none. What the termination message announces must be there."""
    if pod is None:
        return None, "the recording pod does not exist"
    name, problem = pod["metadata"]["name"], ""
    sha256 = announced.sha256 if announced is not None else None
    for attempt in range(_LOG_ATTEMPTS):
        try:
            log = await cluster.log(request.namespace, name, pod_diagnosis.main_container(pod))
            payload = unframe(log.splitlines())
            if len(payload) > (limit := (MAX_PARTS - 1) * _PART_BYTES):
                return None, f"the record has {len(payload)} bytes, at most {limit} can be kept"
            if sha256 in (None, digest(payload)):
                return payload, ""
            return None, f"the record in the log has sha256 {digest(payload)}, its pod announced {sha256}"
        except EnvelopeError as error:
            problem = str(error)
            if sha256 is None:
                break
        except (Refused, Unreachable) as error:
            problem = f"cannot read the log of pod {name}: {_brief(error)}"
        await asyncio.sleep(0.5 * (attempt + 1))
    return None, problem


async def _outcome(cluster: Cluster, attempt: UncollectedAttempt, pods: Sequence[Object], problem: str) -> Outcome:
    request, status = attempt.request, attempt.job_status
    failure, message = None, "cancelled" if attempt.cancelled else problem
    if not attempt.cancelled and (attempt.cause is not None or status is None or not status.succeeded):
        failure, message = _failure(attempt, pods)
    return Outcome(
        engine="kubernetes",
        engine_version=request.engine_version,
        attempt=request.attempt,
        failure=failure,
        message=message,
        cancelled=attempt.cancelled,
        exit_codes=pod_diagnosis.exit_codes(pods),
        log_tail=await _tails(cluster, request, pod_diagnosis.log_sources(pods)) if failure is not None else {},
        placement=pod_diagnosis.placement(pods),
        timeline=[*attempt.timeline],  # type: ignore[list-item]  # pydantic reads the JSON form
    )


def _failure(attempt: UncollectedAttempt, pods: Sequence[Object]) -> Cause:
    status = attempt.job_status
    diagnosis = pod_diagnosis.failure(pods, resumed_at=status.resumed_at if status is not None else None)
    if attempt.cause is not None:
        reason, message = attempt.cause
    elif status is not None and status.reason is FailedReason.deadline_exceeded:
        deadline = attempt.request.trial.deadline_seconds
        reason, message = FailedReason.deadline_exceeded, deadline_message(deadline, HANG)
    elif diagnosis is not None:
        return diagnosis
    else:
        reason, message = FailedReason.rank_failed, status.message if status is not None else "its job is gone"
    if diagnosis is not None and diagnosis[1] not in message:
        message = f"{message}; {diagnosis[1]}" if message else diagnosis[1]
    return reason, message


async def _tails(cluster: Cluster, request: JobRequest, pods: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """The last lines of a few pods, for people; never worth failing for."""
    tails: dict[str, list[str]] = {}
    for pod in pods[:_MAX_TAILS]:
        name = pod["metadata"]["name"]
        try:
            text = await cluster.log(request.namespace, name, pod_diagnosis.main_container(pod), tail=_TAIL_LINES)
            tails[name] = [line.encode()[:_TAIL_BYTES].decode(errors="ignore") for line in text.splitlines()]
        except (Refused, Unreachable) as error:
            logger.info("%s: no log of %s: %s", request.job, name, _brief(error))
    return tails


def _brief(error: Refused | Unreachable) -> str:
    return error.message if isinstance(error, Refused) else str(error)


async def _judge(trial: TrialSpec, payload: bytes | None, outcome: Outcome) -> Judgment:
    if payload is None or len(payload) <= _INLINE_BYTES:
        return judge_payload(trial, payload, outcome)
    for _ in range(_JUDGE_ATTEMPTS):
        judgment = await _judge_in_process(trial, payload, outcome)
        if isinstance(judgment, Judgment):
            return judgment
    problem = f"the record could not be judged: the process exited with code {judgment}"
    return judge_payload(trial, None, outcome.model_copy(update={"message": outcome.message or problem}))


async def _judge_in_process(trial: TrialSpec, payload: bytes, outcome: Outcome) -> Judgment | int:
    """The judgment of another process, or its exit code if it failed."""
    command = [sys.executable, "-m", "scalecurve_operator.reconcile.judge"]
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    request = canonical_json({"trial": trial.wire(), "outcome": outcome.wire(), "bytes": len(payload)})
    out, _ = await process.communicate(request.encode() + b"\n" + payload)
    if process.returncode:
        return process.returncode
    return Judgment.from_wire(json.loads(out))


async def _store(
    cluster: Cluster, attempt: UncollectedAttempt, payload: bytes, outcome: Outcome, judgment: Judgment
) -> Object:
    """Write the record's ConfigMaps; what is returned tells the trial's status where they are."""
    request = attempt.request
    text = canonical_json(outcome.wire())
    parts = _parts(payload, _CONFIG_MAP_BYTES - len(text))
    names = [record_name(request.trial_object, request.attempt, index) for index in range(len(parts))]
    for name, part in zip(names, parts, strict=True):
        body = CONFIG_MAPS.body(
            name=name,
            namespace=request.namespace,
            labels=labels(request.experiment, request.trial_object, request.attempt) | {ROLE_LABEL: "record"},
            ownerReferences=[attempt.owner],
        )
        if part:
            body["binaryData"] = {RECORD_KEY: base64.b64encode(part).decode()}
        if name == names[0]:
            body["data"] = {OUTCOME_KEY: text}
        await cluster.apply(CONFIG_MAPS, request.namespace, body)
    record: Object = {"sha256": digest(payload), "bytes": len(payload), "configMaps": names}
    return record | ({"leftOut": list(judgment.left_out)} if judgment.left_out else {})


def _parts(payload: bytes, space: int) -> list[bytes]:
    """The payload split over ConfigMaps; the first has ``space`` for it, beside the outcome."""
    first = max(0, min(_PART_BYTES, space))
    return [payload[:first], *(payload[at : at + _PART_BYTES] for at in range(first, len(payload), _PART_BYTES))]
