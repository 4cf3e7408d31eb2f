"""Collecting what an ended attempt left in its pods: judged, stored in ConfigMaps, and only then deleted.

Pods may leave anything. Of a log only the parts of records are kept, and not more than is allowed; what they hold is
opened in another process.
"""

import asyncio
import base64
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scalecurve_api.crds.status import MAX_PARTS
from scalecurve_api.model import canonical_json
from scalecurve_api.record import termination
from scalecurve_api.record.envelope import EnvelopeError, digest
from scalecurve_api.record.log_lines import LogReader, LogTooLargeError, RecordTooLargeError
from scalecurve_api.record.outcome import Outcome
from scalecurve_api.record.termination import Termination
from scalecurve_api.spec.object_names import OUTCOME_KEY, RECORD_KEY, ROLE_LABEL, labels, record_name
from scalecurve_api.spec.trial import FailedReason
from scalecurve_kube import object_store
from scalecurve_kube.cluster import Cluster
from scalecurve_kube.errors import ApiStatusError, UnreachableError
from scalecurve_kube.resources import CONFIG_MAPS, PODS, Object, is_path_segment
from scalecurve_operator.cache.cached_objects import Cause
from scalecurve_operator.reconcile import pod_diagnosis
from scalecurve_operator.reconcile.intake import SMALL_BYTES, PayloadBudget
from scalecurve_operator.reconcile.job_probe import HANG, deadline_message
from scalecurve_operator.reconcile.judge import Judgment, judge_missing
from scalecurve_operator.runners import JobRequest, JobStatus, RunnerKind
from scalecurve_operator.runners.pod_status import newest_pods, pods_of_job
from scalecurve_operator.status.render import AttemptResult

_PART_BYTES = 900_000
"""Of a payload in one ConfigMap."""
_CONFIG_MAP_BYTES = 1_000_000
"""Of everything in one ConfigMap: the API server's limit is 1 MiB."""
_LOG_ATTEMPTS = 3
_LOG_BYTES = 256 << 20
"""Kubelets rotate logs at 10 MiB unless told otherwise, and serve only the last part."""
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
    unreadable: str | None = None
    """why it ends without what its pods left"""
    restarts: int = 0
    """how often something else than the operator started a pod or container again"""
    records_url: str = ""
    """folder of an object store that takes the record; empty: ConfigMaps do"""
    job_uid: str | None = None
    """of the attempt's job, whose pods alone are read; None where there never was one"""


async def collect_attempt(
    cluster: Cluster, payload_budget: PayloadBudget, attempt: UncollectedAttempt
) -> AttemptResult:
    """Judge an attempt and keep its record; nothing of the job is needed any more when this returns.

    Collecting twice writes the same bytes to the same ConfigMaps, whose names are made from them; none is overwritten.

    Raises:
        ApiStatusError, UnreachableError: by the API server.
        JudgeUnavailableError: there is no process to judge in.
        Exception: the pods' output could not be processed.
    """
    request = attempt.request
    made = [] if attempt.unreadable is not None else await _pods(cluster, request, attempt.job_uid)
    pods = newest_pods(made)
    if attempt.runner.runner.job_kind.may_restart:
        attempt = replace(attempt, restarts=pod_diagnosis.restarts(made))
    pod = attempt.runner.recording_pod(pods)
    announced = _termination(pod, request)
    size = announced.bytes if announced is not None and announced.bytes is not None else 0
    for bytes_expected in (size, SMALL_BYTES + 1):
        async with payload_budget.place(bytes_expected, request.record_bytes) as most:
            payload, problem = None, ""
            if attempt.unreadable is None and not attempt.cancelled:
                try:
                    payload, problem = await _payload(cluster, request, pod, announced, most)
                except RecordTooLargeError as error:
                    if most == SMALL_BYTES:
                        continue
                    problem = str(error)
            return await _judge_and_store(cluster, payload_budget, attempt, pods, announced, payload, problem)
    raise AssertionError("a large record has a place")  # pragma: no cover


async def _judge_and_store(
    cluster: Cluster,
    payload_budget: PayloadBudget,
    attempt: UncollectedAttempt,
    pods: Sequence[Object],
    announced: Termination | None,
    payload: bytes | None,
    problem: str,
) -> AttemptResult:
    trial, outcome = attempt.request.trial, await _outcome(cluster, attempt, pods, problem)
    if announced is not None:
        outcome = outcome.model_copy(update={"missing": announced.missing})
    if payload is None:
        judgment = judge_missing(trial, outcome)
    else:
        summary = announced.summary if announced is not None else None
        judgment = await payload_budget.judges.judge(trial, payload, outcome, summary)
    if judgment.unreadable is not None:
        outcome = outcome.model_copy(update={"unreadable": judgment.unreadable})
    record = await _store(cluster, attempt, payload or b"", outcome, judgment)
    # The job's own times have a resolution of a second, and an attempt that the operator ends has none.
    nodes = pod_diagnosis.nodes(pods)
    return AttemptResult(judgment.verdict, judgment.summary, record, nodes, time.time(), judgment.unproved)


async def _pods(cluster: Cluster, request: JobRequest, job_uid: str | None) -> list[Object]:
    listed = await cluster.list(PODS, request.namespace, labelSelector=request.pod_selector)
    # One that cannot be requested by its name would look like a failure of the API server, and be tried for ever.
    pods = [pod for pod in listed if is_path_segment(pod["metadata"]["name"])]
    return pods_of_job(pods, request.job, job_uid, newest=False)


def _termination(pod: Mapping[str, Any] | None, request: JobRequest) -> Termination | None:
    """What the recording pod announces in its termination message."""
    for text in pod_diagnosis.messages(pod) if pod is not None else ():
        message = termination.read(text)
        if message is not None and (message.trial, message.attempt) == (request.trial.name, request.attempt):
            return message
    return None


async def _payload(
    cluster: Cluster,
    request: JobRequest,
    pod: Mapping[str, Any] | None,
    announced: Termination | None,
    most: int,
) -> tuple[bytes | None, str]:
    """The record from the log, or None and why there is none. What the termination message announces must be there."""
    if pod is None:
        return None, "the recording pod does not exist"
    name, problem = pod["metadata"]["name"], ""
    sha256 = announced.sha256 if announced is not None else None
    for attempt in range(_LOG_ATTEMPTS):
        try:
            container = pod_diagnosis.main_container(pod)
            log = await cluster.read_log(request.namespace, name, container, lambda: LogReader(most, _LOG_BYTES))
            payload = log.payload()
            if len(payload) > (limit := (MAX_PARTS - 1) * _PART_BYTES):
                return None, f"the record has {len(payload)} bytes, at most {limit} can be kept"
            if sha256 in (None, digest(payload)):
                return payload, ""
            return None, f"the record in the log has sha256 {digest(payload)}, its pod announced {sha256}"
        except RecordTooLargeError:
            raise
        except LogTooLargeError as error:
            return None, str(error)
        except EnvelopeError as error:
            problem = str(error)
            if sha256 is None:
                break
        except (ApiStatusError, UnreachableError) as error:
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
        restarts=attempt.restarts,
        cancelled=attempt.cancelled,
        unreadable=attempt.unreadable,
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
            text = await cluster.log_tail(request.namespace, name, pod_diagnosis.main_container(pod), _TAIL_LINES)
            tails[name] = [line.encode()[:_TAIL_BYTES].decode(errors="ignore") for line in text.splitlines()]
        except (ApiStatusError, UnreachableError) as error:
            logger.info("%s: no log of %s: %s", request.job, name, _brief(error))
    return tails


def _brief(error: ApiStatusError | UnreachableError) -> str:
    return error.message if isinstance(error, ApiStatusError) else str(error)


async def _store(
    cluster: Cluster, attempt: UncollectedAttempt, payload: bytes, outcome: Outcome, judgment: Judgment
) -> Object:
    """Write the record's ConfigMaps, or its object; what is returned tells the trial's status where they are."""
    request = attempt.request
    text = canonical_json(outcome.wire())
    record: Object = {"sha256": digest(payload), "bytes": len(payload)}
    record |= {"leftOut": list(judgment.left_out)} if judgment.left_out else {}
    if attempt.records_url:
        data = text.encode() + b"\n" + payload
        content = attempt.owner["uid"].encode() + data
        name = f"{request.namespace}/{record_name(request.trial_object, request.attempt, content, 0)}"
        await asyncio.to_thread(object_store.write, attempt.records_url, name, data)
        return record | {"object": name}
    parts = _parts(payload, _CONFIG_MAP_BYTES - len(text))
    content = attempt.owner["uid"].encode() + text.encode() + payload
    names = [record_name(request.trial_object, request.attempt, content, index) for index in range(len(parts))]
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
        # Where one of this name exists, this was done before: the operator may change no ConfigMap, nor read any.
        await cluster.create(CONFIG_MAPS, request.namespace, body)
    return record | {"configMaps": names}


def _parts(payload: bytes, space: int) -> list[bytes]:
    """The payload split over ConfigMaps; the first has ``space`` for it, beside the outcome."""
    first = max(0, min(_PART_BYTES, space))
    return [payload[:first], *(payload[at : at + _PART_BYTES] for at in range(first, len(payload), _PART_BYTES))]
