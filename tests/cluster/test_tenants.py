"""Several teams, one cluster: turns over namespaces, pools, hours, what experiments may not ask for, their records."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from scalecurve.bundle.open import open_bundle
from scalecurve_api.spec.object_names import job_name
from tests.cluster.applied import Applied, Object, manifest, next_second
from tests.cluster.cli_desk import Desk
from tests.cluster.operator_process import OperatorProcess, service_account
from tests.waiting import eventually
from tools.devcluster.tier import Tier


@pytest.fixture
def neighbor(tier: Tier, namespace: str) -> Iterator[str]:
    """A second namespace, of another team."""
    name = tier.namespace(f"{namespace}-b")
    yield name
    tier.rest.raw("DELETE", f"/api/v1/namespaces/{name}")


@contextlib.contextmanager
def serving(tier: Tier, *namespaces: str, **settings: str) -> Iterator[OperatorProcess]:
    account = service_account(tier, namespaces[0], others=namespaces[1:])
    with OperatorProcess(
        tier, namespaces[0], account, settings={"NAMESPACES": ",".join(namespaces), **settings}
    ) as running:
        yield running


def condition(applied: Applied, kind: str) -> Object:
    return next((entry for entry in applied.status.get("conditions") or () if entry["type"] == kind), {})


def test_a_greedy_namespace_delays_another_by_one_experiment(tier: Tier, namespace: str, neighbor: str) -> None:
    with serving(tier, namespace, neighbor):
        greedy = [Applied.apply(tier, manifest(namespace, name="g0", play="hang"))]
        eventually(lambda: greedy[0].status.get("phase") == "Running", "the first to run")
        greedy += [Applied.apply(tier, manifest(namespace, name=f"g{index}")) for index in range(1, 5)]
        next_second()  # this one is younger than all of them
        polite = Applied.apply(tier, manifest(neighbor, name="p"))
        tier.rest.call("PATCH", greedy[0].path, {"spec": {"cancel": True}}, "application/merge-patch+json")
        ended = polite.final()["endedAt"]
        phases = [one.final()["phase"] for one in greedy]
        assert phases == ["Cancelled"] + ["Succeeded"] * 4, "and they had their turns after it"
        waited = sum(one.status["startedAt"] >= ended for one in greedy)
        assert waited >= 2, "it did not have to wait for all that were there before it"


def test_an_experiment_ends_after_the_hours_that_it_may_take(tier: Tier, namespace: str, neighbor: str) -> None:
    with serving(tier, namespace, neighbor, MAX_EXPERIMENT_HOURS="0.008"):
        hanging = manifest(namespace, name="h", play="hang", repetitions=50, deadlineSeconds=31_536_000)
        greedy = Applied.apply(tier, hanging)
        eventually(lambda: greedy.status.get("phase") == "Running", "the greedy one to run")
        polite = Applied.apply(tier, manifest(neighbor, name="p", workers=(1,)))  # which may take no longer
        eventually(lambda: bool(polite.status.get("startedAt")), "the other's turn")
        assert polite.final()["phase"] == "Succeeded"
        status = greedy.final()
        assert (status["phase"], status["counts"]["cancelled"]) == ("Cancelled", 100)
        assert "ended after 0.008 h, the most that this operator allows (maxExperimentHours)" in status["message"]


def test_pools_that_the_operator_does_not_list_are_refused(tier: Tier, namespace: str) -> None:
    with serving(tier, namespace, POOLS="default=1,big=2", UNLISTED_POOLS="refuse"):
        mine = Applied.apply(tier, manifest(namespace, name="mine", pool="mine"))
        assert mine.final()["phase"] == "Failed"
        said = condition(mine, "Accepted")
        assert (said["status"], said["reason"]) == ("False", "InvalidSpec")
        assert "spec.pool: 'mine': this operator has the pools big, default" in said["message"]
        assert mine.trials() == {}


def test_pools_that_the_operator_does_not_list_share_one_place(tier: Tier, namespace: str) -> None:
    with serving(tier, namespace, UNLISTED_POOLS="one"):
        first = Applied.apply(tier, manifest(namespace, name="a", pool="mine", play="hang"))
        eventually(lambda: first.status.get("phase") == "Running", "the first to run")
        second = Applied.apply(tier, manifest(namespace, name="b", pool="own"))
        eventually(lambda: condition(second, "Admitted").get("reason") == "WaitingForPool", "the second to wait")
        assert f"unlisted pools share one place, held by {namespace}/a" in condition(second, "Admitted")["message"]
        tier.rest.call("PATCH", first.path, {"spec": {"cancel": True}}, "application/merge-patch+json")
        assert second.final()["phase"] == "Succeeded"


def test_pod_options_that_are_forbidden_are_refused(tier: Tier, namespace: str) -> None:
    with serving(tier, namespace, FORBIDDEN_POD_OPTIONS="hostNetwork,serviceAccountName"):
        pod = {"hostNetwork": True, "serviceAccountName": "admin", "lockMemory": False}
        applied = Applied.apply(tier, manifest(namespace, pod=pod))
        assert applied.final()["phase"] == "Failed"
        message = condition(applied, "Accepted")["message"]
        assert "spec.pod.hostNetwork: True: forbidden on this cluster" in message
        assert "spec.pod.serviceAccountName: 'admin': forbidden on this cluster" in message
        assert applied.trials() == {}


def test_a_record_overwrites_nothing(tier: Tier, namespace: str) -> None:
    """What stands where an earlier version kept its record stays as it is, and the operator may not even change it."""
    account = f"system:serviceaccount:{namespace}:scalecurve"
    foreign = f"{job_name('e-weak-1-1x1-r1', 1)}-record-0"
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": foreign}, "data": {"outcome.json": "mine"}}
    tier.rest.call("POST", path, body)
    with serving(tier, namespace):
        for verb in ("create", "patch", "update", "get", "list", "delete"):
            attributes = {"namespace": namespace, "verb": verb, "resource": "configmaps"}
            review = {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SubjectAccessReview",
                "spec": {"user": account, "resourceAttributes": attributes},
            }
            answer = tier.rest.call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
            assert answer["status"]["allowed"] is (verb == "create"), verb
        applied = Applied.apply(tier, manifest(namespace))
        assert applied.final()["phase"] == "Succeeded"
        assert tier.rest.call("GET", f"{path}/{foreign}")["data"] == {"outcome.json": "mine"}
        for status in applied.trials().values():
            for name in status["record"]["configMaps"]:
                assert tier.rest.call("GET", f"{path}/{name}")["metadata"]["ownerReferences"]


def test_the_records_of_an_experiment_share_a_budget(tier: Tier, namespace: str) -> None:
    budget = 1 << 20
    with serving(tier, namespace, EXPERIMENT_RECORD_BYTES=str(budget)):
        many = Applied.apply(tier, manifest(namespace, name="many", repetitions=40))
        assert many.final()["phase"] == "Failed"
        said = condition(many, "Accepted")["message"]
        assert "spec: 80 attempts with 13107 bytes of record each" in said
        assert "experimentRecordBytes" in said
        few = Applied.apply(tier, manifest(namespace, name="few", repetitions=2))
        assert few.final()["phase"] == "Succeeded"
        kept = [status["record"]["bytes"] for status in few.trials().values()]
        assert 0 < sum(kept) <= budget
        assert max(kept) <= budget // 4


def test_records_go_to_an_object_store(
    tier: Tier, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "store"
    with serving(tier, namespace, RECORDS_URL=f"file://{store}"):
        applied = Applied.apply(tier, manifest(namespace))
        assert applied.final()["phase"] == "Succeeded"
    assert applied.records() == set(), "no ConfigMap"
    kept = {status["record"]["object"] for status in applied.trials().values()}
    assert {str(path.relative_to(store)) for path in store.rglob("*") if path.is_file()} == kept
    desk = Desk(tier, tmp_path, namespace)
    assert "set SCALECURVE_RECORDS to its recordsUrl" in desk("pull", "e", "--into", "b", code=1).err
    monkeypatch.setenv("SCALECURVE_RECORDS", f"file://{store}")
    desk("pull", "e", "--into", "b")
    assert len(open_bundle(tmp_path / "b").trials) == 2
    path = store / sorted(kept)[0]
    path.write_bytes(path.read_bytes()[:-1])
    assert "damaged" in desk("pull", "e", "--into", "c", code=1).err


def test_an_object_store_that_cannot_be_written_is_waited_for(tier: Tier, namespace: str, tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.write_text("in the way")
    with serving(tier, namespace, RECORDS_URL=f"file://{store}"):
        applied = Applied.apply(tier, manifest(namespace))
        eventually(lambda: "cannot write file://" in condition(applied, "Stalled").get("message", ""), "the reason")
        assert applied.status["phase"] == "Running"
        store.unlink()
        assert applied.final()["phase"] == "Succeeded"
