"""What is made of what an attempt left: every outcome, over an API server in memory."""

from __future__ import annotations

import asyncio
import base64
import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalecurve_api.lifecycle import Job
from scalecurve_api.planning.plan import make_plan
from scalecurve_api.record.envelope import digest, unseal
from scalecurve_api.record.outcome import Outcome
from scalecurve_api.release import release
from scalecurve_api.spec.object_names import labels, trial_name
from scalecurve_api.spec.trial import FailedReason, InvalidReason, TrialPhase, TrialSpec
from scalecurve_kube.resources import TRIALS
from scalecurve_operator.reconcile import collect as collecting
from scalecurve_operator.reconcile.collect import UncollectedAttempt, collect_attempt
from scalecurve_operator.reconcile.intake import PayloadBudget
from scalecurve_operator.reconcile.judge import judge_payload
from scalecurve_operator.runners import JobRequest, JobStatus, runner_for
from scalecurve_operator.status.render import AttemptResult
from tests.operator.api_in_memory import InMemory, Store
from tests.operator.attempt_remains import announced, experiment, log_of, payload_of, pod, pod_name
from tests.operator.simulated_cluster import JUDGES

NAMESPACE = "ns"
PODS = f"api/v1/namespaces/{NAMESPACE}/pods"
ENDED, BROKEN = JobStatus(Job.ended, True), JobStatus(Job.ended, False, "BackoffLimitExceeded")
MIB = 1 << 20


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    async def soon(_: float) -> None:
        return None

    monkeypatch.setattr(asyncio, "sleep", soon)


class Left:
    """A trial of two pods and what stands in the cluster after it."""

    def __init__(self, codes: Sequence[int | None] = (0, 0), attempt: int = 1) -> None:
        self.experiment = experiment()
        self.trial: TrialSpec = next(each for each in make_plan(self.experiment).trials if each.point.workers == 2)
        name = trial_name("exp", self.trial.name)
        self.request = JobRequest("exp", NAMESPACE, self.experiment.spec, self.trial, name, attempt, {}, 1 << 20)
        self.payload = payload_of(self.trial, self.request.job, attempt)
        self.store, self.codes, self.attempt = Store(), codes, attempt
        self.judges = JUDGES
        self.said = announced(self.trial, self.payload, attempt)
        self.log: str | None = log_of(self.payload)

    def collect(self, job_status: JobStatus | None = ENDED, **more: Any) -> AttemptResult:
        """Put it all there, and collect it."""
        tags = labels("exp", self.request.trial_object, self.attempt)
        for index, code in enumerate(self.codes):
            self.store.put(PODS, pod(NAMESPACE, self.request.job, index, tags, code, "" if index else self.said))
            self.store.logs[pod_name(self.request.job, index)] = "tail\n"
        if self.log is not None:
            self.store.logs[pod_name(self.request.job, 0)] = self.log
        else:
            self.store.logs.pop(pod_name(self.request.job, 0), None)
        runner = runner_for(self.experiment.spec, self.trial)
        owner = TRIALS.owner(self.request.trial_object, "uid-of-trial")
        return asyncio.run(
            collect_attempt(
                InMemory(self.store),
                PayloadBudget(self.judges),
                UncollectedAttempt(self.request, runner, job_status, owner, **more),
            )
        )

    def kept(self, found: AttemptResult) -> tuple[bytes, Outcome]:
        """As ``scalecurve pull`` joins it."""
        maps = {each["metadata"]["name"]: each for each in self.store.of("configmaps")}
        parts = [maps[name] for name in found.record["configMaps"]]
        joined = b"".join(base64.b64decode(each.get("binaryData", {}).get("record", "")) for each in parts)
        assert (digest(joined), len(joined)) == (found.record["sha256"], found.record["bytes"])
        assert all(
            each["metadata"]["ownerReferences"] == [parts[0]["metadata"]["ownerReferences"][0]] for each in parts
        )
        assert all(each["metadata"]["labels"]["scalecurve.dev/role"] == "record" for each in parts)
        for each in parts:
            text = sum(len(value) for value in each.get("data", {}).values())
            assert text + len(base64.b64decode(each.get("binaryData", {}).get("record", ""))) < MIB
        return joined, Outcome.model_validate_json(parts[0]["data"]["outcome.json"])


def test_a_good_attempt() -> None:
    left = Left(attempt=3)
    found = left.collect()
    assert (found.verdict.phase, found.nodes) == (TrialPhase.succeeded, ("node-0", "node-1"))
    assert found.summary is not None
    assert found.summary["throughput"] == 200.0
    payload, outcome = left.kept(found)
    assert unseal(payload).ranks == unseal(left.payload).ranks
    assert (outcome.engine, outcome.attempt, outcome.failure, outcome.log_tail) == ("kubernetes", 3, None, {})
    assert outcome.placement == {pod_name(left.request.job, index): f"node-{index}" for index in (0, 1)}


def test_the_record_tells_the_operators_version_too() -> None:
    left = Left()
    assert left.kept(left.collect())[1].engine_version == release()


def test_collecting_twice_leaves_the_same() -> None:
    left = Left()
    first = left.collect()
    before = {each["metadata"]["name"]: each for each in left.store.of("configmaps")}
    assert left.collect().record == first.record
    assert {each["metadata"]["name"]: each for each in left.store.of("configmaps")} == before


def test_a_record_of_several_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    left = Left()
    noise = random.Random(0).randbytes(2_000_000)
    left.payload = payload_of(left.trial, left.request.job, journals={0: noise[: 32 * 62_000]})
    left.log, left.said = log_of(left.payload), announced(left.trial, left.payload)
    found = left.collect()
    assert found.verdict.phase is TrialPhase.succeeded
    assert len(found.record["configMaps"]) > 1
    assert left.kept(found)[0] == left.payload


def test_a_record_too_large_to_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "_PART_BYTES", 8)
    left = Left()
    found = left.collect()
    assert (found.verdict.phase, found.verdict.reason) == (TrialPhase.invalid, InvalidReason.records_missing)
    assert f"{len(left.payload)} bytes, at most {63 * 8} can be kept" in found.verdict.message


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda left: left.log.replace(" end ", " "), "last line is missing"),
        (lambda left: "\n".join(line for line in left.log.split("\n") if "begin" not in line), "first line is missing"),
        (lambda left: "nothing\n", "no record in the log"),
        (lambda left: log_of(payload_of(left.trial, "another")), "its pod announced"),
        (lambda left: None, "cannot read the log"),
    ],
)
def test_an_announced_record_that_does_not_come(spoil: Any, why: str) -> None:
    left = Left()
    left.log = spoil(left)
    found = left.collect()
    assert (found.verdict.phase, found.verdict.reason) == (TrialPhase.invalid, InvalidReason.records_missing)
    assert why in found.verdict.message
    payload, outcome = left.kept(found)
    assert payload == b""
    assert why in outcome.message


def test_a_log_that_hangs_is_a_record_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = Store.answer

    def hang(self: Store, method: str, path: str, query: Any, body: Any) -> Any:
        if path.endswith("/log"):
            raise TimeoutError
        return answer(self, method, path, query, body)

    monkeypatch.setattr(Store, "answer", hang)
    found = Left().collect()
    assert (found.verdict.phase, found.verdict.reason) == (TrialPhase.invalid, InvalidReason.records_missing)
    assert Left((1, 0)).collect(BROKEN).verdict.reason == FailedReason.rank_failed


def test_a_record_that_nobody_announced_is_believed() -> None:
    left = Left()
    left.said = ""
    found = left.collect()
    assert (found.verdict.phase, found.summary) == (TrialPhase.succeeded, None)


def test_another_attempts_record_is_none() -> None:
    left = Left(attempt=2)
    left.payload = payload_of(left.trial, left.request.job, 1)
    left.log, left.said = log_of(left.payload), ""
    found = left.collect()
    assert (found.verdict.phase, found.verdict.reason) == (TrialPhase.invalid, InvalidReason.records_unreadable)
    assert "attempt 1" in found.verdict.message


def test_pods_that_are_gone() -> None:
    found = Left(()).collect()
    assert (found.verdict.phase, found.verdict.reason) == (TrialPhase.invalid, InvalidReason.records_missing)
    assert "the recording pod does not exist" in found.verdict.message


def test_pods_of_before_a_suspension_that_are_still_going() -> None:
    left = Left()
    tags = labels("exp", left.request.trial_object, left.attempt)
    for index in range(2):
        old = pod(NAMESPACE, left.request.job, index, tags, 143)
        old["metadata"] |= {"name": f"a-{index}", "creationTimestamp": "2026-11-21T22:00:00Z"}
        old["metadata"]["deletionTimestamp"] = "2026-11-21T22:30:00Z"
        old["spec"]["nodeName"] = "cut-off"
        left.store.put(PODS, old)
    found = left.collect()
    assert (found.verdict.phase, found.nodes) == (TrialPhase.succeeded, ("node-0", "node-1"))
    assert set(left.kept(found)[1].exit_codes) == {pod_name(left.request.job, index) for index in range(2)}


def test_a_failed_attempt_says_why_and_keeps_the_last_lines() -> None:
    left = Left((0, 7))
    found = left.collect(BROKEN)
    assert (found.verdict.phase, found.verdict.reason) == (TrialPhase.failed, FailedReason.rank_failed)
    assert "exited with code 7" in found.verdict.message
    payload, outcome = left.kept(found)
    assert payload == left.payload, "what came all the same is kept"
    assert outcome.log_tail == {pod_name(left.request.job, 1): ["tail"]}
    assert outcome.exit_codes == {pod_name(left.request.job, 1): 7, pod_name(left.request.job, 0): 0}


def test_long_lines_of_any_script_fit_beside_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    left = Left((1, 1))
    noise = random.Random(0).randbytes(32 * 40_000)
    left.payload = payload_of(left.trial, left.request.job, journals={0: noise})
    left.said = announced(left.trial, left.payload)
    left.log = log_of(left.payload) + ("\U0001f600" * 5000 + "\n") * 100
    left.kept(left.collect(BROKEN))


def test_cancelled() -> None:
    left = Left((None, None))
    found = left.collect(JobStatus(Job.running), cancelled=True)
    assert (found.verdict.phase, found.verdict.message) == (TrialPhase.cancelled, "cancelled")
    assert left.kept(found)[1].cancelled


def test_why_the_operator_ended_it_comes_first() -> None:
    found = Left((1, None)).collect(JobStatus(Job.starting), cause=(FailedReason.unschedulable, "no GPU"))
    assert (found.verdict.phase, found.verdict.reason) == (TrialPhase.failed, FailedReason.unschedulable)
    assert found.verdict.message.startswith("no GPU; ")
    gone = Left(()).collect(None, cause=(FailedReason.job_deleted, "deleted 3 times"))
    assert (gone.verdict.reason, gone.verdict.message) == (FailedReason.job_deleted, "deleted 3 times")


def test_the_last_lines_of_pods_that_still_run_when_their_time_is_up() -> None:
    left = Left((None, None))
    found = left.collect(JobStatus(Job.running), cause=(FailedReason.deadline_exceeded, "did not end"))
    assert (found.verdict.reason, found.verdict.message) == (FailedReason.deadline_exceeded, "did not end")
    tails = left.kept(found)[1].log_tail
    assert set(tails) == {pod_name(left.request.job, index) for index in range(2)}
    assert tails[pod_name(left.request.job, 1)] == ["tail"]
    one_failed = Left((None, 7)).collect(JobStatus(Job.running), cause=(FailedReason.deadline_exceeded, "did not end"))
    assert "exited with code 7" in one_failed.verdict.message


def test_a_deadline_is_told_by_the_job() -> None:
    late = JobStatus(Job.ended, False, "was active longer", reason=FailedReason.deadline_exceeded)
    assert Left(()).collect(late).verdict.reason == FailedReason.deadline_exceeded


@given(st.integers(0, 10**6), st.binary(max_size=4), st.integers(0, 10**6))
def test_a_damaged_payload_is_judged_as_none(at: int, new: bytes, cut: int) -> None:
    left = Left()
    at, cut = at % len(left.payload), cut % len(left.payload)
    for payload in (left.payload[:at] + new + left.payload[at + len(new) :], left.payload[:cut], new):
        found = judge_payload(left.trial, payload, Outcome(engine="kubernetes"))
        assert found.verdict.phase in (TrialPhase.invalid, TrialPhase.succeeded)
