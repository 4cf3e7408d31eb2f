"""Real nodes: what tests on them may rely on. With CLUSTER=existing some of it is tried on the user's cluster."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.request
from typing import Any

import pytest

from tools.devcluster.nodes.cluster import GPU, RealCluster, set_gpus
from tools.devcluster.nodes.existing import ExistingCluster
from tools.devcluster.nodes.small_images import BUSYBOX
from tools.devcluster.waiting import wait_until

IMAGE = os.environ.get("BUSYBOX", BUSYBOX)
Cluster = RealCluster | ExistingCluster


class Pods:
    """Pods of one shell line each, in one namespace."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace
        self.path = f"/api/v1/namespaces/{namespace}/pods"

    def start(self, name: str, line: str, node: str | None = None, **container: Any) -> None:
        spec: dict[str, Any] = {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "hostname": name,
            "subdomain": "pods",
            "containers": [{"name": "c", "image": IMAGE, "command": ["sh", "-c", line], **container}],
        }
        if node:
            spec["nodeSelector"] = {"kubernetes.io/hostname": node}
        metadata = {"name": name, "labels": {"app": name, "all": "pods"}}
        self.cluster.rest.call("POST", self.path, {"metadata": metadata, "spec": spec})

    def service(self, name: str, selector: dict[str, str], **spec: Any) -> None:
        body = {"metadata": {"name": name}, "spec": {"selector": selector, "publishNotReadyAddresses": True, **spec}}
        self.cluster.rest.call("POST", f"/api/v1/namespaces/{self.namespace}/services", body)

    def status(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.cluster.rest.call("GET", f"{self.path}/{name}")["status"]
        return found

    def running(self, name: str) -> None:
        wait_until(lambda: self.status(name)["phase"] == "Running", f"{name} to run")

    def ended(self, name: str) -> dict[str, Any]:
        """How its container ended."""
        wait_until(lambda: self.status(name)["phase"] in ("Succeeded", "Failed"), f"{name} to end")
        terminated: dict[str, Any] = self.status(name)["containerStatuses"][0]["state"]["terminated"]
        return terminated

    def kubectl(self, *arguments: str) -> str:
        return self.cluster.kubectl("-n", self.namespace, *arguments)


@pytest.fixture
def pods(any_cluster: Cluster, namespace: str) -> Pods:
    return Pods(any_cluster, namespace)


def test_two_nodes_are_ready(real_cluster: RealCluster) -> None:
    nodes = real_cluster.rest.call("GET", "/api/v1/nodes")["items"]
    assert [node["metadata"]["name"] for node in nodes] == list(real_cluster.nodes) == ["node1", "node2"]
    assert len({address["address"] for node in nodes for address in node["status"]["addresses"]}) == 4


def test_pods_reach_each_other_by_name(pods: Pods) -> None:
    """Over the network between nodes, through a service's address and on one node, and the API server too."""
    here, there = list(pods.cluster.nodes)[:2]
    pods.service("pods", {"all": "pods"}, clusterIP="None")
    pods.service("balanced", {"app": "first"}, ports=[{"port": 80, "targetPort": 8000}])
    serve = "echo $HOSTNAME says hello > /tmp/hello; exec busybox httpd -f -p 8000 -h /tmp"
    ask = "until busybox wget -q -O - http://%s/hello 2> /dev/null; do sleep 0.2; done"
    pods.start("first", serve, here)
    for name, node, url in (
        ("across", there, "first.pods:8000"),
        ("beside", here, "balanced"),
        ("service", there, "balanced"),
    ):
        pods.start(name, ask % url, node)
    pods.start("api", "until busybox nc -w 5 kubernetes.default 443 < /dev/null; do sleep 0.2; done", there)
    for name in ("across", "beside", "service", "api"):
        assert pods.ended(name)["exitCode"] == 0
        assert pods.kubectl("logs", name) == ("" if name == "api" else "first says hello\n")


def test_names_that_are_not_there_are_refused_at_once(real_cluster: RealCluster, namespace: str) -> None:
    pods = Pods(real_cluster, namespace)
    pods.start("asks", "busybox nslookup example.invalid; busybox wget http://192.0.2.1/ 2>&1; echo ended")
    pods.ended("asks")
    said = pods.kubectl("logs", "asks")
    assert "NXDOMAIN" in said
    assert "No route to host" in said


def test_logs_commands_and_last_words(pods: Pods) -> None:
    pods.start(
        "speaker", "echo begun; while [ ! -e /tmp/go ]; do sleep 0.1; done; echo why > /dev/termination-log; exit 3"
    )
    pods.running("speaker")
    wait_until(lambda: pods.kubectl("logs", "speaker") == "begun\n", "the first line")
    assert pods.kubectl("exec", "speaker", "--", "sh", "-c", "echo on $HOSTNAME; > /tmp/go") == "on speaker\n"
    ended = pods.ended("speaker")
    assert (ended["exitCode"], ended["reason"], ended["message"]) == (3, "Error", "why\n")


def test_memory_is_limited(pods: Pods) -> None:
    hungry = "x=12345678; while true; do x=$x$x; done"
    pods.start("hungry", hungry, resources={"limits": {"memory": "32Mi"}})
    ended = pods.ended("hungry")
    assert (ended["exitCode"], ended["reason"]) == (137, "OOMKilled")


def test_pods_answer_this_machine(real_cluster: RealCluster, namespace: str) -> None:
    """So metrics can be scraped from outside."""
    pods = Pods(real_cluster, namespace)
    pods.start("metrics", "echo samples > /tmp/metrics; exec busybox httpd -f -p 8000 -h /tmp", "node2")
    pods.running("metrics")
    url = f"http://{pods.status('metrics')['podIP']}:8000/metrics"

    def scraped() -> bool:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return bool(answer.read() == b"samples\n")

    wait_until(lambda: _without_error(scraped), url)


def _without_error(ask: Any) -> bool:
    try:
        return bool(ask())
    except OSError:
        return False


def test_gpus_that_are_not_there_are_counted(real_cluster: RealCluster, namespace: str) -> None:
    pods = Pods(real_cluster, namespace)
    set_gpus(real_cluster.rest, "node2", 2)
    try:
        for name in ("one", "two"):
            pods.start(name, "sleep 1000", resources={"limits": {GPU: 2}})
        wait_until(lambda: "Running" in [pods.status(name)["phase"] for name in ("one", "two")], "a pod")
        waiting = [name for name in ("one", "two") if pods.status(name)["phase"] == "Pending"]
        assert len(waiting) == 1
        wait_until(lambda: f"Insufficient {GPU}" in json.dumps(pods.status(waiting[0])), "a pod that has to wait")
    finally:
        set_gpus(real_cluster.rest, "node2", 0)


def test_an_image_that_is_missing_is_named(real_cluster: RealCluster, namespace: str) -> None:
    pods = Pods(real_cluster, namespace)
    pods.start("absent", "true", image="localhost/scalecurve/absent:dev")

    def said() -> str:
        states = pods.status("absent").get("containerStatuses") or [{}]
        return str(states[0].get("state", {}).get("waiting", {}).get("reason"))

    wait_until(lambda: said() in ("ErrImagePull", "ImagePullBackOff"), "word of the missing image")


def test_a_deleted_namespace_leaves_nothing(real_cluster: RealCluster, namespace: str) -> None:
    pods = Pods(real_cluster, namespace)
    pods.start("sleeper", "sleep 1000", "node1")
    pods.running("sleeper")
    node = real_cluster.nodes["node1"]
    assert node.ctr("containers", "ls", "-q")
    uid = real_cluster.rest.call("GET", f"{pods.path}/sleeper")["metadata"]["uid"]
    pods.cluster.kubectl("delete", "namespace", namespace, "--timeout=240s")
    assert uid not in node.ctr("containers", "ls")
    wait_until(lambda: not (node.folder / "kubelet" / "pods" / uid).exists(), "kubelet to tidy up")
    pods.cluster.namespace(namespace)  # for who deletes it


def test_a_worker_waits_for_its_master(real_cluster: RealCluster, namespace: str) -> None:
    """Under Pod Security's `restricted`, which training-operator's own waiting container would be refused by."""
    real_cluster.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
    secure = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "runAsUser": 1000,
        "seccompProfile": {"type": "RuntimeDefault"},
    }

    def replica(line: str, node: str) -> dict[str, Any]:
        container = {"name": "pytorch", "image": IMAGE, "command": ["sh", "-c", line], "securityContext": secure}
        spec = {"containers": [container], "nodeName": node}
        return {"replicas": 1, "restartPolicy": "Never", "template": {"spec": spec}}

    # A master that is over has no name any more, so it waits for the worker's word.
    replicas = {
        "Master": replica("busybox nc -l -p 23456", "node1"),
        "Worker": replica("until echo here | busybox nc -w 5 $MASTER_ADDR 23456; do sleep 0.2; done", "node2"),
    }
    job = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "pair"},
        "spec": {"runPolicy": {"cleanPodPolicy": "None"}, "pytorchReplicaSpecs": replicas},
    }
    path = f"/apis/kubeflow.org/v1/namespaces/{namespace}/pytorchjobs"
    real_cluster.rest.call("POST", path, job)
    pods = Pods(real_cluster, namespace)
    wait_until(lambda: "Succeeded" in str(real_cluster.rest.call("GET", f"{path}/pair").get("status")), "the job")
    assert pods.kubectl("logs", "pair-master-0") == "here\n"
    states = pods.status("pair-worker-0")["initContainerStatuses"]
    assert [state["state"]["terminated"]["exitCode"] for state in states] == [0]


def test_a_launcher_finds_its_workers(real_cluster: RealCluster, namespace: str) -> None:
    def replica(line: str, count: int) -> dict[str, Any]:
        return {
            "replicas": count,
            "template": {"spec": {"containers": [{"name": "c", "image": IMAGE, "command": ["sh", "-c", line]}]}},
        }

    reach = "for each in $(busybox cut -d: -f1 /etc/mpi/hostfile | busybox awk '{print $1}'); do"
    reach += " until busybox nc -w 5 $each 8000 < /dev/null 2> /dev/null; do sleep 0.2; done; echo $each; done"
    replicas = {"Launcher": replica(reach, 1), "Worker": replica("exec busybox httpd -f -p 8000", 2)}
    job = {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"name": "pair"}}
    path = f"/apis/kubeflow.org/v2beta1/namespaces/{namespace}/mpijobs"
    real_cluster.rest.call("POST", path, {**job, "spec": {"mpiReplicaSpecs": replicas}})
    wait_until(lambda: "Succeeded" in str(real_cluster.rest.call("GET", f"{path}/pair").get("status")), "the job")
    said = real_cluster.kubectl("-n", namespace, "logs", "-l", "training.kubeflow.org/job-role=launcher", "--tail=-1")
    assert [line.split(".")[0] for line in said.splitlines()] == ["pair-worker-0", "pair-worker-1"]


def test_nodes_share_the_files_of_images(real_cluster: RealCluster) -> None:
    """That makes nodes quick to start: layers are hard links, and only databases are copies."""
    first, second = real_cluster.nodes.values()
    assert BUSYBOX in first.images()
    assert first.images() == second.images()
    shells = [
        file
        for node in (first, second)
        for file in (node.folder / "containerd").glob("*overlayfs/snapshots/*/fs/bin/busybox")
    ]
    assert len(shells) >= 2
    assert len({file.stat().st_ino for file in shells if file.stat().st_size == shells[0].stat().st_size}) == 1
    databases = [next((node.folder / "containerd").glob("*bolt/meta.db")).stat() for node in (first, second)]
    assert databases[0].st_ino != databases[1].st_ino


def test_only_one_cluster_at_a_time(real_cluster: RealCluster) -> None:
    with pytest.raises(Exception, match="this machine already has nodes"):
        RealCluster(1).start()


def test_a_node_is_taken_off_the_network(real_cluster: RealCluster) -> None:
    first, second = real_cluster.nodes.values()
    ask = ("busybox", "ping", "-c", "1", "-W", "2", second.address)
    real_cluster.link("node2", up=False)
    try:
        with pytest.raises(subprocess.CalledProcessError):
            first.space.run(*ask)
    finally:
        real_cluster.link("node2", up=True)
    wait_until(lambda: "1 packets received" in first.space.run("sh", "-c", f"{' '.join(ask)} || true"), "an answer")
