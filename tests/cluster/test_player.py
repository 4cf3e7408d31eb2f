"""Jobs of every kind, run by their real controllers on fake nodes, with pods that the player ends."""

from __future__ import annotations

import pytest

from scalecurve_api.lifecycle import Job
from scalecurve_api.record import termination
from scalecurve_api.record.assemble import assemble
from scalecurve_api.record.envelope import EnvelopeError, digest, unseal
from scalecurve_api.record.log_lines import unframe
from scalecurve_api.record.outcome import Outcome
from scalecurve_api.spec.job_kinds import Runner
from scalecurve_api.spec.trial import InvalidReason, TrialPhase
from scalecurve_operator.runners import Manifest
from scalecurve_operator.runners import job_request as asking
from tests.cluster.played_jobs import PlayedJob, play, request
from tools.devcluster.player.script import slowdown
from tools.devcluster.rest import ApiError
from tools.devcluster.tier import Tier

RUNNERS = [runner for runner in Runner if runner is not Runner.train_job]  # which is a JobSet underneath


def job(tier: Tier, namespace: str, runner: Runner, outcome: str = "succeed", **spec: object) -> PlayedJob:
    workload = {**play(outcome), **spec.pop("workload", {})}  # type: ignore[dict-item]
    return PlayedJob(tier, request(namespace, runner, workload=workload, **spec)).create()


def message(pod: Manifest) -> termination.Termination:
    found = termination.read(pod["status"]["containerStatuses"][0]["state"]["terminated"]["message"])
    assert found is not None
    return found


def ends(pods: list[Manifest]) -> set[tuple[str, int | None]]:
    """Reasons and exit codes of the containers that ended."""
    states = [pod["status"]["containerStatuses"][0]["state"] for pod in pods]
    return {
        (state["terminated"]["reason"], state["terminated"]["exitCode"]) for state in states if "terminated" in state
    }


@pytest.mark.parametrize("runner", RUNNERS, ids=lambda runner: runner.value)
def test_a_good_run_succeeds_and_leaves_a_right_record(tier: Tier, namespace: str, runner: Runner) -> None:
    played = job(tier, namespace, runner)
    assert played.ended().succeeded is True
    pod = played.recording()
    said = message(pod)
    payload = unframe(played.log(pod).splitlines())
    assert (said.sha256, said.bytes) == (digest(payload), len(payload))
    left = unseal(payload)
    assert (left.trial, left.attempt) == (played.request.trial.name, 1)
    record = assemble(played.request.trial, left.ranks, left.journals, Outcome(engine="kubernetes")).record
    assert (record.phase, record.message) == (TrialPhase.succeeded, "")
    assert record.summary == said.summary
    places = {each["metadata"]["name"]: each["spec"]["nodeName"] for each in played.pods()}
    assert len({rank.node for rank in record.topology}) == 2
    assert all(places[rank.pod or ""] == rank.node for rank in record.topology)
    played.delete()


@pytest.mark.parametrize("runner", RUNNERS, ids=lambda runner: runner.value)
def test_a_broken_run_fails_and_its_pods_say_why(tier: Tier, namespace: str, runner: Runner) -> None:
    played = job(tier, namespace, runner, "fail")
    assert played.ended().succeeded is False
    pods = played.pods()
    assert ("Error", 1) in ends(pods)
    said = [message(pod) for pod in pods if pod["status"]["phase"] == "Failed" and "message" in str(pod["status"])]
    assert ["played to fail" in each.failures[0].message for each in said] == [True]
    played.delete()


def test_parameter_servers_stay_when_the_chief_succeeds(tier: Tier, namespace: str) -> None:
    played = job(tier, namespace, Runner.tf_job, workload={"strategy": "parameter-server"})
    assert played.ended().succeeded is True
    phases = {pod["metadata"]["labels"]["scalecurve.dev/role"]: pod["status"]["phase"] for pod in played.pods()}
    assert phases == {"chief": "Succeeded", "worker": "Running", "ps": "Running"}
    played.delete()


def test_memory(tier: Tier, namespace: str) -> None:
    played = job(tier, namespace, Runner.mpi_job, "oom")
    assert played.ended().succeeded is False
    assert {("OOMKilled", 137), ("Error", 1)} == ends(played.pods())


def test_eviction(tier: Tier, namespace: str) -> None:
    played = job(tier, namespace, Runner.pytorch_job, "evict")
    assert played.ended().succeeded is False
    assert "Evicted" in {pod["status"].get("reason") for pod in played.pods()}


@pytest.mark.parametrize("runner", [Runner.pytorch_job, Runner.tf_job], ids=lambda runner: runner.value)
def test_the_deadline_of_a_pod_is_kept(
    tier: Tier, namespace: str, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "BACKSTOP_S", 0)
    played = job(tier, namespace, runner, "hang", deadlineSeconds=5)
    assert played.ended().succeeded is False

    def all_late() -> bool:
        return {pod["status"].get("reason") for pod in played.pods()} == {"DeadlineExceeded"}

    played.until(all_late, "every pod to be ended by its deadline")


def test_an_image_that_is_not_there_keeps_the_job_from_starting(tier: Tier, namespace: str) -> None:
    played = job(tier, namespace, Runner.job, "image-pull@workers=2")

    def waits() -> bool:
        return "ImagePullBackOff" in str([pod["status"] for pod in played.pods()])

    played.until(waits, "a pod that waits for its image")
    assert played.reading().state is Job.starting
    events = tier.rest.call("GET", f"/api/v1/namespaces/{namespace}/events")["items"]
    assert any("Failed to pull image" in event["message"] for event in events)
    played.delete()


def test_an_image_is_there_where_the_condition_does_not_hold(tier: Tier, namespace: str) -> None:
    assert job(tier, namespace, Runner.job, "image-pull@workers=3").ended().succeeded is True


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        ("wrong-world", InvalidReason.wrong_world_size),
        ("wrong-placement", InvalidReason.wrong_placement),
        ("diverged", InvalidReason.replicas_diverged),
        ("not-finite", InvalidReason.non_finite_loss),
    ],
)
def test_a_run_that_was_not_what_was_asked_for(tier: Tier, namespace: str, outcome: str, reason: InvalidReason) -> None:
    played = job(tier, namespace, Runner.job, outcome)
    assert played.ended().succeeded is True
    left = unseal(unframe(played.log(played.recording()).splitlines()))
    record = assemble(played.request.trial, left.ranks, left.journals, Outcome(engine="kubernetes")).record
    assert (record.phase, record.reason) == (TrialPhase.invalid, reason.value)


def test_records_that_are_not_there(tier: Tier, namespace: str) -> None:
    names = ("no-record", "torn-record", "other-record", "no-log")
    jobs = {
        outcome: PlayedJob(
            tier, request(namespace, Runner.job, workers=1, name=outcome, workload=play(outcome))
        ).create()
        for outcome in names
    }
    for played in jobs.values():
        assert played.ended().succeeded is True
    for outcome, wrong in (("no-record", "no record in the log"), ("torn-record", "last line is missing")):
        pod = jobs[outcome].recording()
        assert (message(pod).sha256 is None) == (outcome == "no-record")
        with pytest.raises(EnvelopeError, match=wrong):
            unframe(jobs[outcome].log(pod).splitlines())
    other = jobs["other-record"].recording()
    assert digest(unframe(jobs["other-record"].log(other).splitlines())) != message(other).sha256
    with pytest.raises(ApiError, match="failed to open log file"):
        jobs["no-log"].log(jobs["no-log"].recording())


def test_a_slow_node_or_link() -> None:
    environment = {"PLAY_SLOW": "a*1.5,b~c*2"}
    assert [slowdown(environment, nodes) for nodes in ({"a"}, {"b"}, {"b", "c"}, {"a", "b"})] == [1.5, 1, 2, 1.5]
