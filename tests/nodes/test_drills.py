"""What goes wrong in real clusters, done to real pods: each trial ends in the right phase, with a reason that helps a
tired person; the next trial runs; nothing is left over.

Drills that touch only their own pods run side by side, each in a namespace of its own. Those that take away
something everybody needs (names, the API server, a node) run alone afterwards.
"""

from __future__ import annotations

import functools
import os
import re
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait

import pytest

from tests.nodes.drills import SLOW, Drill, claim, is_first_of_pod, of_mpi, of_one
from tests.nodes.operator_pods import operator_pods, replace_operator
from tests.nodes.pod_experiments import YIELDING
from tools.devcluster.nodes.cluster import RealCluster
from tools.devcluster.nodes.installed import Installed

Body = Callable[[RealCluster], None]

_AT_ONCE = 5
_DEADLINE_S = 150
"""Where the trial that comes to harm has to wait for it; the other one must end within it on a busy machine, too."""
_BODIES: dict[str, Body] = {}

pytestmark = pytest.mark.timeout(2400)


def side_by_side(body: Body) -> Callable[[dict[str, Future[None]]], None]:
    """A drill that disturbs nobody: it runs when the first of them is wanted, together with the others."""
    _BODIES[body.__name__] = body

    @functools.wraps(body)
    def test(running: dict[str, Future[None]]) -> None:
        running[body.__name__].result()

    del test.__wrapped__  # type: ignore[attr-defined]  # pytest reads the fixtures from the signature
    return test


@pytest.fixture(scope="module")
def running(
    request: pytest.FixtureRequest,
    real_cluster: RealCluster,
    installed: Installed,
    need_image: Callable[[str], None],
) -> Iterator[dict[str, Future[None]]]:
    need_image("worker-mpi")
    wanted = {item.originalname for item in request.session.items if isinstance(item, pytest.Function)}
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        yield {name: pool.submit(body, real_cluster) for name, body in _BODIES.items() if name in wanted}


@pytest.fixture
def alone(running: dict[str, Future[None]], real_cluster: RealCluster) -> Iterator[RealCluster]:
    """The cluster, once nobody else uses it; who comes after finds every node ready for pods."""
    wait(running.values())
    yield real_cluster
    real_cluster.wait_until_ready()


# -- side by side


@side_by_side
def test_a_worker_pod_that_is_deleted(cluster: RealCluster) -> None:
    drill = Drill.begin(cluster, "pod-deleted", functools.partial(of_mpi, pace=SLOW))
    drill.until_stepping()
    victim = drill.pods()[1]["metadata"]["name"]
    cluster.kubectl("-n", drill.namespace, "delete", "pod", victim, "--wait=false")
    phase, reason, message = drill.said()
    assert (phase, reason) == ("Failed", "Evicted")
    assert message.startswith(f"pod {victim} was deleted while the trial ran")


@side_by_side
def test_a_container_that_is_killed(cluster: RealCluster) -> None:
    drill = Drill.begin(cluster, "container-killed", functools.partial(of_one, pace=SLOW))
    drill.until_stepping()
    pod = drill.pods()[0]["metadata"]
    (first,) = [pid for pid in drill.pids() if is_first_of_pod(pid)]
    os.kill(first, signal.SIGKILL)
    phase, reason, message = drill.said()
    assert (phase, reason) == ("Failed", "RankKilled"), message
    assert message.startswith(f"pod {pod['name']} on node")
    assert message.endswith("container worker was killed by SIGKILL")


@side_by_side
def test_a_rank_that_is_killed(cluster: RealCluster) -> None:
    drill = Drill.begin(cluster, "rank-killed", functools.partial(of_mpi, harm="rank == 1 and os.kill(os.getpid(), 9)"))
    phase, reason, message = drill.said()
    assert (phase, reason) == ("Failed", "RankKilled"), message
    assert re.fullmatch(r"rank 1: killed by SIGKILL in pod \S+-worker-1", message)


@side_by_side
def test_memory_that_runs_out(cluster: RealCluster) -> None:
    limits = {"limits": {"memory": "192Mi"}}
    drill = Drill.begin(
        cluster, "out-of-memory", functools.partial(of_mpi, harm="rank == 1 and bytearray(1 << 30)", resources=limits)
    )
    phase, reason, message = drill.said()
    assert (phase, reason) == ("Failed", "OutOfMemory")
    assert re.search(r"-worker-1 on node\d: the kernel killed container worker: it reached its memory limit$", message)


@side_by_side
def test_an_image_that_is_not_there(cluster: RealCluster) -> None:
    def make(namespace: str) -> dict[str, object]:
        tree = of_one(namespace, deadlineSeconds=_DEADLINE_S, parallelism=4)
        good = tree["spec"]["workload"]["image"]
        tree["spec"]["matrix"] = {"image": ["localhost/scalecurve/worker-mpi:mistyped", good]}
        return tree

    drill = Drill.begin(cluster, "no-image", make)
    counts = drill.applied.final(1200)["counts"]
    assert (counts["failed"], counts["succeeded"]) == (2, 2)
    for failed in drill.trials():
        if failed["phase"] == "Failed":
            assert failed["reason"] == "ImagePull"
            assert "'localhost/scalecurve/worker-mpi:mistyped'" in failed["message"]
    drill.until(lambda: not drill.applied.left(), "nothing to be left")


@side_by_side
def test_a_disk_that_is_full(cluster: RealCluster) -> None:
    """/dev/shm has a size here; whoever writes past it is told by the kernel."""
    fill = "rank == 1 and Path('/dev/shm/full').write_bytes(bytes(64 << 20))"
    drill = Drill.begin(cluster, "disk-full", functools.partial(of_mpi, harm=fill, pod={"sharedMemory": "32Mi"}))
    phase, reason, message = drill.said()
    assert (phase, reason) == ("Failed", "RankFailed")
    assert "rank 1: OSError: [Errno 28] No space left on device" in message


@side_by_side
def test_a_pod_that_writes_more_than_its_share(cluster: RealCluster) -> None:
    """The kubelet looks about once in a minute, and evicts."""
    fill = "Path('/tmp/full').write_bytes(bytes(64 << 20)); time.sleep(200)"
    limits = {"limits": {"ephemeral-storage": "32Mi"}}
    drill = Drill.begin(cluster, "evicted", functools.partial(of_one, harm=fill, resources=limits))
    phase, reason, message = drill.said()
    assert (phase, reason) == ("Failed", "Evicted")
    assert "ephemeral local storage usage exceeds the total limit of containers 32Mi" in message


@side_by_side
def test_a_rank_that_hangs(cluster: RealCluster) -> None:
    drill = Drill.begin(
        cluster, "hangs", functools.partial(of_mpi, harm="rank == 1 and time.sleep(600)", deadlineSeconds=_DEADLINE_S)
    )
    phase, reason, message = drill.said()
    assert (phase, reason) == ("Failed", "DeadlineExceeded")
    assert message.startswith(
        f"did not end within deadlineSeconds, {_DEADLINE_S}: the deadline is too short, or some rank waits"
    )


@side_by_side
def test_a_job_that_is_deleted_by_hand(cluster: RealCluster) -> None:
    """Once is an accident: the trial is run anew."""
    drill = Drill.begin(cluster, "job-deleted", functools.partial(of_mpi, pace=SLOW))
    drill.until_stepping()
    cluster.kubectl("-n", drill.namespace, "delete", "mpijob", drill.harmed["job"], "--wait=false")
    first = drill.first()
    assert (first["phase"], first["attempts"]) == ("Succeeded", 2)


def with_site(cluster: RealCluster, namespace: str, site: str) -> dict[str, object]:
    """As `of_mpi`, with a file in every pod that each Python there runs as it starts."""
    mount = {"claim": claim(cluster, namespace, "sitecustomize.py", site), "path": "/given/sitecustomize.py"}
    env = {"PYTHONPATH": "/given", **YIELDING}
    return of_mpi(namespace, pod={"claims": [mount]}, workload={"env": env})


@side_by_side
def test_an_sshd_that_is_slow(cluster: RealCluster) -> None:
    """A worker takes its time before its sshd answers: mpirun has to wait for it."""
    slow = """
import os, sys, time
if "scalecurve_worker.launch.sshd" in sys.orig_argv and os.environ["POD_NAME"].endswith("worker-1"):
    while not os.path.exists("/tmp/go"):
        time.sleep(0.1)
"""

    drill = Drill.begin(cluster, "slow-sshd", lambda namespace: with_site(cluster, namespace, slow))
    drill.until(lambda: "worker-1" in drill.harmed.get("message", ""), "word of what is waited for")
    assert drill.harmed["phase"] == "Starting"
    (late,) = [name for pod in drill.pods() if (name := pod["metadata"]["name"]).endswith("worker-1")]
    cluster.kubectl("-n", drill.namespace, "exec", late, "--", "touch", "/tmp/go")
    first = drill.first()
    assert (first["phase"], first["attempts"]) == ("Succeeded", 1)


@side_by_side
def test_ranks_that_all_run_in_the_launcher(cluster: RealCluster) -> None:
    """Open MPI 5 that is given no host file runs every rank where it stands, and succeeds."""
    forgetful = """
import os, subprocess
if os.environ.get("K_MPI_JOB_ROLE") == "launcher":
    class Forgetful(subprocess.Popen):
        def __init__(self, command, **more):
            if "--hostfile" in command and command[command.index("-n") + 1] == "2":
                at = command.index("--hostfile")
                command = command[:at] + command[at + 2:]
            super().__init__(command, **more)
    subprocess.Popen = Forgetful
"""
    drill = Drill.begin(cluster, "no-hostfile", lambda namespace: with_site(cluster, namespace, forgetful))
    phase, reason, message = drill.said()
    assert (phase, reason) == ("Invalid", "WrongPlacement")
    assert re.fullmatch(r"rank 0 ran in pod \S+-launcher-\S+, which carries no worker of this job; .*", message)


@side_by_side
def test_policies_that_let_nothing_through(cluster: RealCluster) -> None:
    """Default-deny, both ways. The nodes' CNI (bridge) enforces no policy, which is why this succeeds."""

    def make(namespace: str) -> dict[str, object]:
        policy = {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": "default-deny"},
            "spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]},
        }
        cluster.rest.call("POST", f"/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies", policy)
        return of_mpi(namespace)

    drill = Drill.begin(cluster, "default-deny", make)
    assert drill.first()["phase"] == "Succeeded"


# -- alone


def test_an_operator_that_is_replaced(alone: RealCluster, installed: Installed) -> None:
    drill = Drill.begin(alone, "operator-replaced", functools.partial(of_mpi, pace=0.4))
    drill.until_stepping()
    job = drill.harmed["jobUid"]
    replace_operator(alone)
    assert drill.harmed["phase"] in ("Running", "Collecting", "Succeeded")
    first = drill.first()
    assert (first["phase"], first["attempts"], first["jobUid"]) == ("Succeeded", 1, job)


def test_an_api_server_that_is_restarted(alone: RealCluster) -> None:
    drill = Drill.begin(alone, "api-server-restarted", functools.partial(of_mpi, pace=0.2))
    drill.until_stepping()
    alone.tier.restart("apiserver")
    first = drill.first()
    assert (first["phase"], first["attempts"]) == ("Succeeded", 1)


def test_names_that_are_not_found_for_a_while(alone: RealCluster) -> None:
    alone.dns.kill()
    try:
        drill = Drill.begin(alone, "no-names", of_mpi)
        drill.until(lambda: drill.pods("launcher"), "the launcher")
        drill.until(lambda: "waiting for" in drill.log(drill.pods("launcher")[0]), "word of the launcher")
        assert drill.harmed["phase"] in ("Starting", "Running")
    finally:
        alone.dns.start()
    first = drill.first()
    assert (first["phase"], first["attempts"]) == ("Succeeded", 1)


def test_a_node_that_is_drained(alone: RealCluster) -> None:
    drill = Drill.begin(alone, "drained", functools.partial(of_mpi, pace=SLOW))
    drill.until_stepping()
    node = drill.pods()[1]["spec"]["nodeName"]
    try:
        alone.kubectl("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=600s")
        drill.until(lambda: drill.harmed["phase"] == "Failed", "the first trial's end")
    finally:
        alone.kubectl("uncordon", node)
    phase, reason, message = drill.said()
    assert (phase, reason) == ("Failed", "Evicted")
    assert "was deleted while the trial ran, by a user, a drain or the cluster" in message


def test_a_node_that_is_cut_off(alone: RealCluster, installed: Installed) -> None:
    """Not the operator's own node: another operator would come only when Kubernetes gives that node up, after 6 min."""
    drill = Drill.begin(alone, "cut-off", functools.partial(of_mpi, pace=SLOW, deadlineSeconds=_DEADLINE_S))
    drill.until_stepping()
    safe = operator_pods(alone)[-1]["spec"]["nodeName"]
    (node,) = [pod["spec"]["nodeName"] for pod in drill.pods() if pod["spec"]["nodeName"] != safe]
    alone.link(node, up=False)
    try:
        drill.until(lambda: drill.harmed["phase"] == "Failed", "the first trial's end")
    finally:
        alone.link(node, up=True)
    assert alone.all_ready()
    phase, reason, message = drill.said()
    assert (phase, reason) == ("Failed", "DeadlineExceeded")
    assert message.startswith(f"did not end within deadlineSeconds, {_DEADLINE_S}")
