"""Whatever becomes of a trial's pods, its status says so, its evidence is kept, and nothing of it is left running."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest

from scalecurve_api.spec.job_kinds import Runner
from tests.cluster.applied import COLLECTIONS, Applied, Object, manifest
from tests.cluster.operator_process import OperatorProcess
from tests.waiting import PATIENCE_S, eventually
from tools.devcluster.rest import ApiError
from tools.devcluster.tier import Tier

RUNNERS = list(Runner)
OTHERS = [runner for runner in Runner if runner is not Runner.train_job]  # which is a JobSet underneath
# PLAY -> (phase of the trial, reason)
ENDS = {
    "succeed": ("Succeeded", None),
    "fail": ("Failed", "RankFailed"),
    "oom": ("Failed", "OutOfMemory"),
    "evict": ("Failed", "Evicted"),
    "no-record": ("Invalid", "RecordsMissing"),
    "torn-record": ("Invalid", "RecordsMissing"),
    "other-record": ("Invalid", "RecordsMissing"),
    "no-log": ("Invalid", "RecordsMissing"),
    "wrong-world": ("Invalid", "WrongWorldSize"),
    "wrong-placement": ("Invalid", "WrongPlacement"),
    "diverged": ("Invalid", "ReplicasDiverged"),
    "not-finite": ("Invalid", "NonFiniteLoss"),
}
LATE = {"image-pull": ("Failed", "ImagePull"), "hang": ("Failed", "DeadlineExceeded")}
"""An image may yet come, too."""


@pytest.fixture
def operator_many(tier: Tier, namespace: str) -> Iterator[OperatorProcess]:
    """An operator that lets a hundred experiments run side by side."""
    with OperatorProcess(tier, namespace, settings={"POOLS": "default=100"}) as running:
        yield running


def one(applied: Applied) -> Object:
    """The status of its only trial of two workers."""
    return next(status for name, status in applied.trials().items() if "-2-2x1-" in name)


def outcomes(applied: dict[str, Applied]) -> dict[str, tuple[str, str | None]]:
    """How the trial of two workers ended in each experiment: phase and reason."""
    found = {}
    for name, each in applied.items():
        status = each.final(500)
        assert status["phase"] == "Succeeded", "the trial of one worker gave a number"
        trial = one(each)
        found[name] = (trial["phase"], trial.get("reason"))
        assert trial["attempts"] == 1
        assert trial["record"]["configMaps"][0] in each.records()
        assert trial["phase"] == "Succeeded" or trial["message"]
        assert ("throughput" in trial) == (trial["phase"] == "Succeeded")
    return found


@pytest.mark.timeout(600)  # 24 trials, on however busy a machine
@pytest.mark.parametrize("runner", RUNNERS)
def test_every_end_is_told_apart(tier: Tier, namespace: str, operator_many: OperatorProcess, runner: Runner) -> None:
    applied = {}
    for play in ENDS:
        tree = manifest(namespace, name=f"x-{play}", runner=runner, play=f"{play}@workers=2", deadlineSeconds=400)
        applied[play] = Applied.apply(tier, tree)
    assert outcomes(applied) == ENDS
    next(iter(applied.values())).gone()


@pytest.mark.timeout(600)
def test_what_comes_to_no_end_is_ended_by_its_deadline(
    tier: Tier, namespace: str, operator_many: OperatorProcess
) -> None:
    """All runners side by side, for each has to wait; the trials of one worker have to keep the deadline, too."""
    applied = {}
    for runner, play in itertools.product(RUNNERS, LATE):
        name = f"{play}-{runner.value.lower()}"
        tree = manifest(namespace, name=name, runner=runner, play=f"{play}@workers=2", deadlineSeconds=90)
        applied[name] = Applied.apply(tier, tree)
    expected = {name: end for name in applied for play, end in LATE.items() if name.startswith(play)}
    assert outcomes(applied) == expected
    for name, each in applied.items():
        if name.startswith("hang"):
            (kept,) = one(each)["record"]["configMaps"]
            found = tier.rest.call("GET", f"/api/v1/namespaces/{namespace}/configmaps/{kept}")
            assert json.loads(found["data"]["outcome.json"])["logTail"], "read before its job was ended"
    next(iter(applied.values())).gone()


@pytest.mark.timeout(900)
def test_the_batch_that_does_not_fit_ends_its_ladder(
    tier: Tier, namespace: str, operator_many: OperatorProcess
) -> None:
    """At each worker count by itself: 32 does not fit on one worker, 128 not on two."""
    ladder = {"from": 8, "factor": 4, "until": "memory", "maxBatches": 4}
    tree = manifest(namespace, repetitions=2, play="oom@ladder=1x32,oom@ladder=2x128", deadlineSeconds=600)
    tree["spec"]["scaling"]["batch"] = {"ladder": ladder}
    applied = Applied.apply(tier, tree)
    status = applied.final(600)
    assert status["phase"] == "Succeeded"
    path = f"{applied.path.rpartition('/')[0].rpartition('/')[0]}/scalingtrials"
    phases: dict[tuple[int, int], list[str]] = {}
    for trial in tier.rest.call("GET", path)["items"]:
        point = trial["spec"]["point"]
        key = (point["workers"], point["batchPerWorker"])
        phases.setdefault(key, []).append((trial.get("status") or {}).get("phase"))
    assert phases[1, 8] == phases[2, 8] == phases[2, 32] == ["Succeeded"] * 2
    assert phases[1, 32] == phases[2, 128] == ["Full"], "one repetition tells"
    assert not {(1, 128), (1, 512), (2, 512)} & phases.keys(), "larger batches are not run"
    assert status["counts"]["full"] == 2
    applied.gone()


def all_at_once(tier: Tier, namespace: str, **spec: Any) -> dict[Runner, Applied]:
    """An experiment of each kind of job, whose trials can but wait for their deadline: all of them side by side."""
    spec = {"parallelism": 2, "deadlineSeconds": 60, **spec}
    return {
        runner: Applied.apply(tier, manifest(namespace, name=runner.value.lower(), runner=runner, **spec))
        for runner in OTHERS
    }


def test_a_job_that_cannot_be_scheduled_says_why(tier: Tier, namespace: str, operator_many: OperatorProcess) -> None:
    experiments = all_at_once(tier, namespace, resources={"limits": {"nvidia.com/gpu": 9}})
    for runner, applied in experiments.items():

        def told(applied: Applied = applied) -> bool:
            return "Insufficient nvidia.com/gpu" in json.dumps(applied.status)

        eventually(told, f"the scheduler's words on a {runner.value}", log=lambda one=applied: str(one.status))
    for runner, applied in experiments.items():
        assert applied.final()["phase"] == "Failed", runner
        trials = applied.trials().values()
        assert {trial["reason"] for trial in trials} == {"Unschedulable"}, runner
        assert all("Insufficient nvidia.com/gpu" in trial["message"] for trial in trials), runner
    applied.gone()


def test_a_quota_that_is_exceeded_says_so(tier: Tier, namespace: str, operator_many: OperatorProcess) -> None:
    quota = {"metadata": {"name": "none"}, "spec": {"hard": {"requests.nvidia.com/gpu": "0"}}}
    path = f"/api/v1/namespaces/{namespace}/resourcequotas"
    tier.rest.create(path, quota)
    eventually(lambda: tier.rest.call("GET", f"{path}/none").get("status", {}).get("hard"), "the quota")
    for runner, applied in all_at_once(tier, namespace).items():
        applied.final()
        trials = applied.trials().values()
        assert {trial["reason"] for trial in trials} == {"QuotaExceeded"}, runner
        assert all("exceeded quota" in trial["message"] for trial in trials), runner
    applied.gone()


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_job_deleted_behind_our_back_is_run_anew(
    tier: Tier, namespace: str, operator_many: OperatorProcess, runner: Runner
) -> None:
    applied = Applied.apply(tier, manifest(namespace, runner=runner, play="hang@attempt=1,succeed"))
    names: set[str] = set()
    for _ in range(2):
        path = COLLECTIONS[runner].format(namespace)
        eventually(lambda: running(applied) - names, "a trial that runs")
        name = (running(applied) - names).pop()
        names.add(name)
        tier.rest.raw("DELETE", f"{path}/{name}-a1?propagationPolicy=Background")
    assert applied.final()["phase"] == "Succeeded"
    assert {trial["attempts"] for trial in applied.trials().values()} == {2}
    applied.gone()


def running(applied: Applied) -> set[str]:
    return {name for name, status in applied.trials().items() if status.get("phase") == "Running"}


def test_a_job_that_somebody_keeps_deleting_ends_as_failed(
    tier: Tier, namespace: str, operator_many: OperatorProcess
) -> None:
    applied = Applied.apply(tier, manifest(namespace, play="hang@workers=1,succeed"))
    name, path = "", COLLECTIONS[Runner.job].format(namespace)

    def delete() -> bool:
        for job in tier.rest.call("GET", path)["items"]:
            if "-1-1x1-" in job["metadata"]["name"] and (job.get("status") or {}).get("ready"):
                tier.rest.raw("DELETE", f"{path}/{job['metadata']['name']}?propagationPolicy=Background")
        return applied.status.get("phase") in ("Succeeded", "Failed")

    eventually(delete, "the end")
    name = next(name for name in applied.trials() if "-1-1x1-" in name)
    trial = applied.trials()[name]
    assert (trial["phase"], trial["reason"], trial["attempts"]) == ("Failed", "JobDeleted", 3)
    applied.gone()


def test_an_mpi_job_that_its_operator_rejects_is_not_waited_for(
    tier: Tier, namespace: str, operator_many: OperatorProcess
) -> None:
    # The API server itself spoils the job on its way in, so that mpi-operator finds it invalid and says so by an Event.
    spoil(tier, namespace)
    applied = Applied.apply(tier, manifest(namespace, runner=Runner.mpi_job, deadlineSeconds=600))
    applied.final()
    trials = applied.trials().values()
    assert {trial["reason"] for trial in trials} == {"JobRejected"}
    assert all("slotsPerWorker" in trial["message"] for trial in trials)


def spoil(tier: Tier, namespace: str) -> None:
    group = "/apis/admissionregistration.k8s.io/v1"
    name = f"spoil-{namespace}"
    expression = "Object{spec: Object.spec{slotsPerWorker: -1}}"
    policy = {
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "resourceRules": [
                    {
                        "apiGroups": ["kubeflow.org"],
                        "apiVersions": ["v2beta1"],
                        "operations": ["CREATE"],
                        "resources": ["mpijobs"],
                    }
                ],
            },
            "reinvocationPolicy": "Never",
            "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}],
        },
    }
    tier.rest.create(f"{group}/mutatingadmissionpolicies", policy)
    binding = {"metadata": {"name": name}, "spec": {"policyName": name}}
    tier.rest.create(f"{group}/mutatingadmissionpolicybindings", binding)
    probe = {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": "probe"},
        "spec": {"slotsPerWorker": 1, "mpiReplicaSpecs": {}},
    }
    path = COLLECTIONS[Runner.mpi_job].format(namespace)

    def spoiled() -> bool:
        made = tier.rest.create(f"{path}?dryRun=All", probe)
        return bool(made["spec"]["slotsPerWorker"] == -1)

    eventually(spoiled, "the policy")


def test_a_job_that_the_api_server_refuses_fails_the_trial(
    tier: Tier, namespace: str, operator_many: OperatorProcess
) -> None:
    tree = manifest(namespace, pod={"priorityClassName": "there-is-none"}, parallelism=2, deadlineSeconds=30)
    applied = Applied.apply(tier, tree)
    assert applied.final()["phase"] == "Failed"
    assert all("there-is-none" in trial["message"] for trial in applied.trials().values())


def test_a_missing_job_kind_is_a_condition_that_names_what_there_is(tier: Tier) -> None:
    with Tier(operators=(), kwok=False) as bare:
        namespace = bare.namespace("bare")
        with OperatorProcess(bare, namespace):
            applied = Applied.apply(bare, manifest(namespace, runner=Runner.tf_job))
            eventually(lambda: applied.status.get("conditions"), "conditions")
            said = {each["reason"]: each["message"] for each in applied.status["conditions"]}
            assert "TFJob" in said["RunnerMissing"]
            assert "runner: Job" in said["RunnerMissing"]
            assert applied.trials() == {}


def test_a_deleted_trial_is_run_anew(tier: Tier, namespace: str, operator_many: OperatorProcess) -> None:
    applied = Applied.apply(tier, manifest(namespace, play="hang@workers=2,succeed", repetitions=2))
    path = f"{applied.path.rpartition('/')[0].rpartition('/')[0]}/scalingtrials"
    eventually(lambda: running(applied), "a trial that runs")
    done = {name: status for name, status in applied.trials().items() if status.get("phase") == "Succeeded"}
    for name in running(applied) | set(done):
        tier.rest.raw("DELETE", f"{path}/{name}")
    eventually(lambda: running(applied), "a trial that runs again")
    for name in done:
        eventually(lambda n=name: n in applied.trials() or running(applied), f"{name} again")
    tier.rest.raw("DELETE", applied.path)
    applied.gone()
    with pytest.raises(ApiError):
        tier.rest.call("GET", applied.path)
    eventually(lambda: not applied.records(), "no records")


@pytest.mark.parametrize(
    "workload", [{"program": "horovod"}, {"program": "tensorflow", "strategy": "parameter-server"}]
)
def test_a_jobset_carries_launchers_and_parameter_servers(
    tier: Tier, namespace: str, operator_many: OperatorProcess, workload: Object
) -> None:
    applied = Applied.apply(tier, manifest(namespace, runner=Runner.job_set, workload=workload))
    assert applied.final()["phase"] == "Succeeded"
    applied.gone()


@pytest.mark.parametrize(("play", "condition"), [("succeed", "Complete"), ("fail", "Failed")])
def test_kubectl_waits_for_every_end(
    tier: Tier, namespace: str, operator_many: OperatorProcess, play: str, condition: str
) -> None:
    Applied.apply(tier, manifest(namespace, play=play, workers=(1,)))
    tier.kubectl(
        "wait", "-n", namespace, f"--for=condition={condition}", "scalingexperiment/e", f"--timeout={PATIENCE_S:g}s"
    )
