"""The tier itself: what tests on it may rely on."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from scalecurve_api.lifecycle import Job
from scalecurve_api.spec.job_kinds import Runner
from tests.cluster.played_jobs import PlayedJob, play, request
from tests.waiting import eventually
from tools.devcluster import ROOT
from tools.devcluster.components import ComponentError
from tools.devcluster.rest import Rest
from tools.devcluster.tier import Tier


def pids_of(folder: Path) -> list[int]:
    """Processes whose command names the folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if str(folder).encode() in (process / "cmdline").read_bytes():
                found.append(int(process.name))
        except OSError:
            continue
    return found


def test_pods_are_scheduled_by_their_gpus(tier: Tier, namespace: str) -> None:
    limits = {"nvidia.com/gpu": 9}
    played = PlayedJob(tier, request(namespace, Runner.job, workers=1, resources={"limits": limits})).create()

    def refused() -> bool:
        return any("Insufficient nvidia.com/gpu" in str(pod["status"]) for pod in played.pods())

    played.until(refused, "a pod that no node can take")
    assert played.reading().state is Job.starting


def test_a_deleted_pod_ends_as_with_a_kubelet(tier: Tier, namespace: str) -> None:
    played = PlayedJob(tier, request(namespace, Runner.job, workload=play("hang"))).create()
    played.until(lambda: played.reading().state is Job.running, "a running job")
    name = played.pods()[0]["metadata"]["name"]
    tier.rest.raw("DELETE", f"/api/v1/namespaces/{namespace}/pods/{name}")
    assert played.ended().succeeded is False


def test_a_user_may_do_what_roles_say(tier: Tier, namespace: str) -> None:
    kubeconfig = tier.user(f"system:serviceaccount:{namespace}:reader")
    assert tier.kubectl("auth", "whoami", "-o=name", kubeconfig=kubeconfig) is not None
    with pytest.raises(subprocess.CalledProcessError, match="exit status 1"):
        tier.kubectl("-n", namespace, "get", "pods", kubeconfig=kubeconfig)
    tier.kubectl("-n", namespace, "create", "role", "reads", "--verb=list", "--resource=pods")
    tier.kubectl(
        "-n", namespace, "create", "rolebinding", "reads", "--role=reads", f"--serviceaccount={namespace}:reader"
    )
    assert tier.kubectl("-n", namespace, "get", "pods", kubeconfig=kubeconfig) == ""


@pytest.mark.parametrize("component", ["apiserver", "mpi-operator"])
def test_a_component_comes_back(tier: Tier, namespace: str, component: str) -> None:
    before = tier.components[component].pid
    tier.restart(component)
    assert tier.components[component].pid != before
    assert PlayedJob(tier, request(namespace, Runner.mpi_job, workload=play("succeed"))).create().ended().succeeded


def test_an_mpi_operator_that_gave_up_comes_back_with_the_api_server(tier: Tier, namespace: str) -> None:
    """It ends when it cannot renew its lease for five seconds."""
    tier.kill("apiserver")
    eventually(lambda: not tier.components["mpi-operator"].alive, "the end of mpi-operator")
    tier.restart("apiserver")
    assert PlayedJob(tier, request(namespace, Runner.mpi_job, workload=play("succeed"))).create().ended().succeeded


def test_two_tiers_at_once(tier: Tier, namespace: str) -> None:
    with Tier() as other:
        other.add_nodes(2)
        other.namespace(namespace)
        jobs = [
            PlayedJob(where, request(namespace, runner, name=runner.value.lower())).create()
            for where in (tier, other)
            for runner in (Runner.mpi_job, Runner.tf_job)
        ]
        assert [played.ended().succeeded for played in jobs] == [True] * 4
        assert other.port != tier.port
        folder = other.folder
    eventually(lambda: not pids_of(folder), "every process to be gone")
    assert not folder.exists()


def test_flags_and_parts_are_chosen(tmp_path: Path) -> None:
    audit = tmp_path / "audit.log"
    policy = tmp_path / "policy.yaml"
    policy.write_text("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n")
    flags = [f"--audit-policy-file={policy}", f"--audit-log-path={audit}", "--enable-priority-and-fairness=true"]
    with Tier(operators=(), kwok=False, player=False, flags={"apiserver": flags}) as small:
        assert set(small.components) == {"etcd", "apiserver", "controller-manager", "scheduler"}
        small.namespace("seen-in-the-log")
        eventually(lambda: "seen-in-the-log" in audit.read_text(), "a line in the audit log")


def test_what_does_not_start_says_why() -> None:
    bad = Tier(operators=(), kwok=False, player=False, flags={"apiserver": ["--no-such-flag"]})
    with pytest.raises(ComponentError, match="unknown flag: --no-such-flag"):
        bad.start()
    eventually(lambda: not pids_of(bad.folder), "every process to be gone")
    bad.stop()
    assert not bad.folder.exists()


def test_a_killed_process_leaves_no_process_behind(tmp_path: Path) -> None:
    folder = tmp_path / "tier"
    command = [sys.executable, "-m", "tools.devcluster.tier", "up", f"--folder={folder}", "--nodes=1"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"export KUBECONFIG={folder}/admin.kubeconfig\n"
        with contextlib.closing(Rest(folder / "admin.kubeconfig")) as rest:
            assert rest.raw("GET", "/readyz") == b"ok"
        assert len(pids_of(folder)) >= 7
        os.kill(process.pid, signal.SIGKILL)
    eventually(lambda: not pids_of(folder), "every process to be gone")
