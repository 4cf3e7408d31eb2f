"""Hostile envelopes, termination messages, pod statuses and job objects, drawn from a seed, and what is made of them.

Envelopes and messages may be any bytes. Pods and jobs come through an API server: their fields have the right types,
and any values.
"""

from __future__ import annotations

import asyncio
import copy
import json
import random
import struct
import zlib
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from scalecurve_api.crds.status import TrialStatus
from scalecurve_api.lifecycle import Job
from scalecurve_api.model import canonical_json
from scalecurve_api.planning.plan import make_plan
from scalecurve_api.record.outcome import Outcome
from scalecurve_api.record.termination import read
from scalecurve_api.record.trial_record import Summary
from scalecurve_api.spec.object_names import labels, trial_name
from scalecurve_api.spec.trial import TrialPhase
from scalecurve_kube.resources import TRIALS
from scalecurve_operator.cache.object_cache import ObjectCache
from scalecurve_operator.reconcile import pod_diagnosis
from scalecurve_operator.reconcile.collect import UncollectedAttempt, collect_attempt
from scalecurve_operator.reconcile.intake import PayloadBudget
from scalecurve_operator.reconcile.judge import judge_payload
from scalecurve_operator.reconcile.judge_process import Judges
from scalecurve_operator.runners import RUNNERS, JobRequest, JobStatus, runner_for
from scalecurve_operator.status import render
from tests.operator.api_in_memory import InMemory, Store
from tests.operator.attempt_remains import announced, experiment, log_of, payload_of, pod, pod_name

NAMESPACE = "ns"
PODS = f"api/v1/namespaces/{NAMESPACE}/pods"
SEEN = Path(__file__).parent / "runners" / "seen"
TEXTS = (
    "", " ", "\0", "\x1b[31m", "x" * 5000, "\u2028", "\U0001f600" * 400, "a\nb", "1e999", "-1", "=1+1", "../../x",
    "null", "2026-11-21T23:00:00Z", "~", "True", "Failed", "OOMKilled", "requested: a=x, used: b, limited: c=",
    "exceeded quota: q, requested: a=1e999999, used: a=0, limited: a=1",
)  # fmt: skip
BROKEN_TEXTS = (*TEXTS, "\ud800", "\udfff\ud800")
INTEGERS = (0, 1, -1, 2**31 - 1, -(2**31), 137, 255, 2**63 - 1, -(2**63))
NUMBERS: tuple[Any, ...] = (*INTEGERS, 10**30, -(10**30), 10**400, 1e308, -1e-308, 0.5, 2**63)
_LONG = 2000
TIMES = ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2026-11-21T23:00:00Z", "1970-01-01T00:00:00.000001Z", None)
REQUIRED = frozenset({"metadata", "name", "namespace", "uid", "resourceVersion", "spec", "containers", "type", "status",
                      "exitCode", "kind", "labels", "reason"})  # fmt: skip
EXPERIMENT = experiment()
TRIAL = next(trial for trial in make_plan(EXPERIMENT).trials if trial.point.workers == 2)
REQUEST = JobRequest("exp", NAMESPACE, EXPERIMENT.spec, TRIAL, trial_name("exp", TRIAL.name), 1, {}, 1 << 20)
GOOD = payload_of(TRIAL, REQUEST.job)
MESSAGE = announced(TRIAL, GOOD)
SUMMARY = Summary.model_validate(json.loads(MESSAGE)["summary"])
RECORDED = [json.loads(path.read_text()) for path in sorted(SEEN.glob("*.json"))]
JUDGED = (TrialPhase.succeeded, TrialPhase.invalid, TrialPhase.failed)


# What is drawn.


def places(tree: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) in a tree of JSON."""
    found, left = [], [tree]
    while left:
        node = left.pop()
        items: Iterable[tuple[Any, Any]] = node.items() if isinstance(node, dict) else enumerate(node)
        for key, value in items:
            found.append((node, key))
            if isinstance(value, (dict, list)):
                left.append(value)
    return found


def anything(chance: random.Random, depth: int = 3) -> Any:
    """Any JSON."""
    kind = chance.randrange(8 if depth else 5)
    if kind < 2:
        return chance.choice(NUMBERS)
    if kind < 4:
        return chance.choice(BROKEN_TEXTS)
    if kind == 4:
        return chance.choice((None, True, False))
    if kind == 5:
        return [anything(chance, depth - 1) for _ in range(chance.randrange(4))]
    if kind == 6:
        return {chance.choice(BROKEN_TEXTS): anything(chance, depth - 1) for _ in range(chance.randrange(4))}
    nested: Any = chance.choice(NUMBERS)
    for _ in range(chance.choice((10, 40, 150, 400))):
        nested = [nested] if chance.random() < 0.5 else {"a": nested}
    return nested


def mutated(chance: random.Random, tree: Any) -> Any:
    """A tree in which a few values are others, are missing, or stand twice."""
    tree, many = copy.deepcopy(tree), chance.choice((1, 1000))
    for _ in range(chance.randrange(1, 4)):
        node, key = chance.choice(places(tree))
        how = chance.random()
        if how < 0.2 and isinstance(node, dict):
            del node[key]
        elif how < 0.3 and isinstance(node, list):
            node.extend([node[key]] * (many if len(str(node[key])) < _LONG else 1))
            many = 1
        elif how < 0.4 and isinstance(node, dict):
            node[chance.choice(BROKEN_TEXTS)] = anything(chance)
        else:
            node[key] = anything(chance)
        if not isinstance(tree, (dict, list)) or not tree:
            return tree
    return tree


def scrambled(chance: random.Random, data: bytes) -> bytes:
    """Bytes of which a few are others, are missing, or stand twice."""
    for _ in range(chance.randrange(1, 4)):
        at, length = chance.randrange(len(data) + 1), chance.choice((1, 1, 2, 8, 100))
        new = chance.choice((b"", chance.randbytes(length), data[at : at + length] * 2, b"[" * 1000, b"1e999"))
        data = data[:at] + new + data[at + length :]
    return data


def envelope(chance: random.Random) -> bytes:
    """A payload whose trees, lines, compressed or stored bytes are others."""
    how = chance.random()
    if how < 0.15:
        return scrambled(chance, GOOD)
    (size,) = struct.unpack_from("<I", GOOD, 8)
    lines = zlib.decompress(GOOD[12 : 12 + size]).split(b"\n")
    if how < 0.75:
        at = chance.randrange(len(lines))
        lines[at] = json.dumps(mutated(chance, json.loads(lines[at]))).replace("Infinity", "1e999").encode()
    elif how < 0.85:
        lines = chance.choices(lines, k=chance.randrange(5))
    text = b"\n".join(lines)
    packed = zlib.compress(text if how < 0.85 else scrambled(chance, text))
    return struct.pack("<8sI", GOOD[:8], len(packed) + chance.choice((0, 0, 0, -1, 1, 1000))) + packed


def message(chance: random.Random) -> str:
    """A termination message: what a kubelet passes on is 4,096 bytes of text."""
    if chance.random() < 0.7:
        text = json.dumps(mutated(chance, json.loads(MESSAGE))).replace("Infinity", "1e999")
    else:
        text = scrambled(chance, MESSAGE.encode()).decode(errors="replace")
    return text.encode(errors="replace")[:4096].decode(errors="replace")


def typed(chance: random.Random, tree: Any, times: int = 6) -> Any:
    """An object whose values are others of their types."""
    tree = copy.deepcopy(tree)
    for _ in range(chance.randrange(1, times)):
        if not (choices := places(tree)):
            return tree
        node, key = chance.choice(choices)
        value = node[key]
        if isinstance(key, str) and key in ("name", "namespace", "uid", "resourceVersion") and chance.random() < 0.9:
            continue
        if key == "kind":
            continue
        if isinstance(node, dict) and key not in REQUIRED and chance.random() < 0.3:
            del node[key]
        elif isinstance(node, list) and chance.random() < 0.3:
            node.append(copy.deepcopy(value))
        elif isinstance(value, bool):
            node[key] = not value
        elif isinstance(value, int):
            node[key] = chance.choice(INTEGERS)
        elif isinstance(key, str) and (key.endswith(("Time", "At", "Timestamp")) or key == "time"):
            node[key] = chance.choice(TIMES)
        elif isinstance(value, str) and key != "resourceVersion":
            node[key] = chance.choice(TEXTS)
    return tree


# What is made of it. Nothing may raise, and what comes out is what an API server takes.


def judged(chance: random.Random) -> str:
    """An envelope, as the process judges it."""
    judgment = judge_payload(TRIAL, envelope(chance), Outcome(engine="kubernetes"), SUMMARY)
    assert judgment.verdict.phase in JUDGED
    _writable(render.AttemptResult(judgment.verdict, None, _record(judgment.left_out), (), 1.0))
    return judgment.verdict.reason or judgment.verdict.phase.value


def announced_so(chance: random.Random) -> str:
    """A termination message, as the operator reads it."""
    termination = read(message(chance))
    if termination is None:
        return "no message of ours"
    summary = termination.summary.wire() if termination.summary is not None else None
    judgment = judge_payload(TRIAL, GOOD, Outcome(engine="kubernetes"), termination.summary)
    _writable(render.AttemptResult(judgment.verdict, summary, _record(()), (), 1.0))
    return judgment.verdict.reason or judgment.verdict.phase.value


def diagnosed(chance: random.Random) -> str:
    """Pods of every job kind, as they are diagnosed."""
    recorded = chance.choice(RECORDED)
    pods, events = typed(chance, recorded["pods"]), typed(chance, recorded["events"] or [{"message": ""}])
    for each in pods:
        for status in (each.get("status") or {}).get("containerStatuses") or ():
            if (end := (status.get("state") or {}).get("terminated")) and chance.random() < 0.5:
                end["message"] = message(chance)
    causes = [
        pod_diagnosis.failure(pods, events, resumed_at=chance.choice(TIMES)),
        pod_diagnosis.hopeless(pods, events),
    ]
    pod_diagnosis.waiting(pods, events)
    pod_diagnosis.rejected(events)
    pod_diagnosis.log_sources(pods)
    RUNNERS[recorded["job"]["kind"]].recording_pod(pods)
    outcome = Outcome(
        engine="kubernetes",
        exit_codes=pod_diagnosis.exit_codes(pods),
        placement=pod_diagnosis.placement(pods),
        message=next((cause[1] for cause in causes if cause is not None), ""),
    )
    canonical_json(outcome.wire())
    pod_diagnosis.nodes(pods)
    return next((cause[0].value for cause in causes if cause is not None), "no cause")


def read_job(chance: random.Random) -> str:
    """A job that anybody may have created, as it comes into the cache and is read there."""
    job = typed(chance, chance.choice(RECORDED)["job"], 10)
    if chance.random() < 0.5:
        tags = job["metadata"].setdefault("labels", {})
        tags[chance.choice([*tags, "a"])] = chance.choice(TEXTS)
    cache = ObjectCache()
    key = cache.upsert_job(copy.deepcopy(job))
    state = "not ours"
    if key is not None:
        (cached,) = cache.experiments[key].jobs.values()
        state = RUNNERS[job["kind"]].read(cached.body).state.value
        cache.experiments[key].jobs_of(cached.trial)
    cache.delete_job(job)
    return state


class Collected:
    """Everything at once, through the operator's own collection over an API server in memory."""

    def __init__(self, judges: Judges) -> None:
        self.payload_budget = PayloadBudget(judges)

    async def __call__(self, chance: random.Random) -> str:
        store, tags = Store(), labels("exp", REQUEST.trial_object, 1)
        payload = envelope(chance) if chance.random() < 0.5 else GOOD
        text = message(chance) if chance.random() < 0.5 else MESSAGE
        for index in range(2):
            left = pod(NAMESPACE, REQUEST.job, index, tags, 0, "" if index else text)
            store.put(PODS, typed(chance, left) if chance.random() < 0.5 else left)
            store.logs[pod_name(REQUEST.job, index)] = log_of(payload)
        attempt = UncollectedAttempt(
            REQUEST,
            runner_for(EXPERIMENT.spec, TRIAL),
            JobStatus(Job.ended, chance.random() < 0.8),
            TRIALS.owner(REQUEST.trial_object, "uid-of-trial"),
        )
        result = await collect_attempt(InMemory(store), self.payload_budget, attempt)
        assert result.verdict.phase in JUDGED
        _writable(result)
        return result.verdict.reason or result.verdict.phase.value


PURE: dict[str, Callable[[random.Random], str]] = {
    "envelope": judged,
    "termination message": announced_so,
    "pods": diagnosed,
    "job": read_job,
}


def run(seed: int, count: int, judges: Judges) -> dict[str, Counter[str]]:
    """What became of ``count`` inputs, by kind; an input's number is the seed that draws it again.

    Raises:
        AssertionError: with the number of the input that raised, or made what no API server takes.
    """
    ends: dict[str, Counter[str]] = {name: Counter() for name in (*PURE, "collection")}
    collected = Collected(judges)
    with asyncio.Runner() as runner:
        for number in range(seed, seed + count):
            chance = random.Random(number)
            kind = chance.choices([*PURE, "collection"], (40, 15, 15, 15, 15))[0]
            try:
                end = runner.run(collected(chance)) if kind == "collection" else PURE[kind](chance)
            except Exception as error:
                raise AssertionError(f"input {number}, {kind}: {type(error).__name__}: {str(error)[:500]}") from error
            ends[kind][end] += 1
    return ends


def _record(left_out: Iterable[str]) -> dict[str, Any]:
    return {"sha256": "0" * 64, "bytes": 0, "configMaps": [], "leftOut": list(left_out)}


def _writable(result: render.AttemptResult) -> None:
    status = render.ended({"phase": "Running", "attempts": 1}, 1, result, None)
    TrialStatus.model_validate(json.loads(canonical_json(status)))
    canonical_json(status).encode()
    json.dumps(status, ensure_ascii=False).encode()
    assert len(canonical_json(status)) < 100 * 1024
