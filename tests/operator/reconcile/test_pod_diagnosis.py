"""What pods and events say, by hand-made statuses in the kubelet's and the scheduler's words."""

from __future__ import annotations

from typing import Any

import pytest

from scalecurve_api.record.rank import RankFailure
from scalecurve_api.record.termination import Termination, spell
from scalecurve_api.spec.trial import FailedReason
from scalecurve_operator.reconcile import pod_diagnosis

Tree = dict[str, Any]


def pod(name: str = "p", index: int = 0, container: str = "worker", **status: Any) -> Tree:
    return {
        "metadata": {
            "name": name,
            "labels": {"scalecurve.dev/role": "worker", "batch.kubernetes.io/job-completion-index": str(index)},
        },
        "spec": {"nodeName": "n1", "containers": [{"name": container}]},
        "status": {"phase": "Running", **status},
    }


def ended(code: int, name: str = "p", at: str = "2026-11-21T23:00:00Z", index: int = 0, **end: Any) -> Tree:
    state = {"terminated": {"exitCode": code, "reason": "Error", "finishedAt": at, **end}}
    return pod(name, index, phase="Failed", containerStatuses=[{"name": "worker", "state": state}])


def held(reason: str, message: str = "", which: str = "containerStatuses") -> Tree:
    state = {"waiting": {"reason": reason, "message": message}}
    return pod(phase="Pending", **{which: [{"name": "worker", "image": "img:1", "state": state}]})


def said(*failures: RankFailure) -> str:
    return spell(Termination(trial="t", attempt=1, failures=list(failures)))


def refused(message: str, at: str = "2026-11-21T23:00:00Z", reason: str = "FailedCreate") -> Tree:
    whole = f'Error creating: pods "p" is forbidden: {message}'
    return {"type": "Warning", "reason": reason, "message": whole, "lastTimestamp": at}


def reason_of(*pods: Tree, events: tuple[Tree, ...] = ()) -> FailedReason | None:
    found = pod_diagnosis.failure(pods, events)
    return found and found[0]


@pytest.mark.parametrize(
    ("code", "reason", "text"),
    [
        (137, FailedReason.rank_killed, "pod p on n1: container worker was killed by SIGKILL"),
        (139, FailedReason.rank_killed, "pod p on n1: container worker was killed by SIGSEGV"),
        (143, FailedReason.rank_killed, "pod p on n1: container worker was ended by SIGTERM"),
        (1, FailedReason.rank_failed, "pod p on n1: container worker exited with code 1"),
        (255, FailedReason.rank_failed, "pod p on n1: container worker exited with code 255"),
    ],
)
def test_exit_codes_and_signals(code: int, reason: FailedReason, text: str) -> None:
    assert pod_diagnosis.failure([ended(code)]) == (reason, text)


def test_the_ranks_word_is_better_than_an_exit_code() -> None:
    lost = RankFailure(rank=3, reason="RankFailed", message="loss is NaN")
    assert pod_diagnosis.failure([ended(1, message=said(lost))]) == (FailedReason.rank_failed, "rank 3: loss is NaN")


def test_what_a_launcher_saw_of_a_killed_rank_is_better_than_its_own_code() -> None:
    rank = RankFailure(rank=1, reason="RankKilled", message="killed by SIGKILL in pod j-worker-1")
    assert pod_diagnosis.failure([ended(137, message=said(rank))]) == (
        FailedReason.rank_killed,
        "rank 1: killed by SIGKILL in pod j-worker-1",
    )
    own = RankFailure(rank=1, reason="RankFailed", message="loss is NaN")
    assert reason_of(ended(1, message=said(own, rank))) is FailedReason.rank_failed


def test_a_worker_that_was_made_anew_stands_for_one_that_was_taken_away() -> None:
    launcher = ended(1, "j-launcher")
    launcher["status"]["startTime"] = "2026-11-21T23:00:00Z"
    launcher["metadata"]["labels"]["scalecurve.dev/role"] = "launcher"
    workers = [pod(f"j-worker-{index}") for index in range(2)]
    for each in workers:
        each["metadata"]["creationTimestamp"] = "2026-11-21T22:59:58Z"
    assert reason_of(launcher, *workers) is FailedReason.rank_failed
    workers[1]["metadata"]["creationTimestamp"] = "2026-11-21T23:00:05Z"
    found = pod_diagnosis.failure([launcher, *workers])
    assert found is not None
    assert found[0] is FailedReason.evicted
    assert found[1].startswith("pod j-worker-1 was deleted while the trial ran")


def of_role(role: str, name: str, created: str, index: int = 0, **status: Any) -> Tree:
    made = pod(name, index, **status)
    made["metadata"] |= {"creationTimestamp": created}
    made["metadata"]["labels"]["scalecurve.dev/role"] = role
    return made


def let_go_again(worker_made: str) -> list[Tree]:
    """An MPIJob that its queue suspended at 22:59 and let go at 23:00; its old launcher has not gone yet."""
    old = of_role("launcher", "j-launcher-old", "2026-11-21T22:00:00Z", startTime="2026-11-21T22:00:01Z")
    old["metadata"]["deletionTimestamp"] = "2026-11-21T22:59:00Z"
    begun = {"startTime": "2026-11-21T23:00:02Z"}
    new = ended(1, "j-launcher-new")
    new["metadata"] |= {"creationTimestamp": "2026-11-21T23:00:01Z"}
    new["metadata"]["labels"]["scalecurve.dev/role"] = "launcher"
    new["status"] |= begun
    return [old, new, of_role("worker", "j-worker-0", worker_made, **begun)]


def test_workers_of_a_job_that_its_queue_let_go_again_were_not_deleted() -> None:
    again = let_go_again("2026-11-21T23:00:00Z")
    assert reason_of(*again) is FailedReason.rank_failed, "older than the launcher that ran"
    # A pod keeps its name until it is gone; mpi-operator makes the new one then, behind the launcher.
    slow = let_go_again("2026-11-21T23:00:09Z")
    assert pod_diagnosis.failure(slow, resumed_at="2026-11-21T23:00:00Z") == pod_diagnosis.failure(again)
    late = let_go_again("2026-11-21T23:05:00Z")
    found = pod_diagnosis.failure(late, resumed_at="2026-11-21T23:00:00Z")
    assert found is not None
    assert found[1].startswith("pod j-worker-0 was deleted while the trial ran")


def test_a_launcher_is_no_place_for_ranks() -> None:
    launcher, worker = pod("j-launcher"), pod("j-worker-0")
    launcher["metadata"]["labels"]["scalecurve.dev/role"] = "launcher"
    assert pod_diagnosis.placement([launcher, worker]) == {"j-worker-0": "n1"}


def test_memory_comes_before_everything() -> None:
    first = ended(
        1, "a", "2026-11-21T23:00:00Z", message=said(RankFailure(rank=0, reason="RankFailed", message="peer"))
    )
    rank = RankFailure(rank=9, reason="OutOfMemory", message="CUDA out of memory")
    later = ended(1, "b", "2026-11-21T23:00:09Z", message=said(rank))
    assert pod_diagnosis.failure([first, later]) == (FailedReason.out_of_memory, "rank 9: CUDA out of memory")
    assert reason_of(first, ended(137, "c", "2026-11-21T23:00:10Z", reason="OOMKilled")) is FailedReason.out_of_memory


def test_the_first_to_end_is_nearest_to_the_cause() -> None:
    broke = ended(1, "late", "2026-11-21T23:00:05Z", message=said(RankFailure(rank=1, reason="X", message="reset")))
    cause = ended(
        1, "early", "2026-11-21T23:00:04Z", message=said(RankFailure(rank=0, reason="X", message="bad shape"))
    )
    assert pod_diagnosis.failure([broke, cause]) == (FailedReason.rank_failed, "rank 0: bad shape")
    assert pod_diagnosis.failed([broke, cause]) == [cause, broke]


def test_pods_that_are_being_deleted_count_last() -> None:
    stopped = ended(137, "a", "2026-11-21T23:00:00Z")
    stopped["metadata"]["deletionTimestamp"] = "2026-11-21T23:00:00Z"
    cause = ended(139, "b", "2026-11-21T23:00:01Z")
    assert "SIGSEGV" in (pod_diagnosis.failure([stopped, cause]) or ("", ""))[1]


@pytest.mark.parametrize("reason", ["Evicted", "Preempting", "NodeLost", "NodeShutdown", "Terminated"])
def test_taken_away_by_its_node(reason: str) -> None:
    found = pod_diagnosis.failure([pod(phase="Failed", reason=reason, message="why")])
    assert found == (FailedReason.evicted, f"pod p on n1: {reason}: why")


def test_preempted_by_the_scheduler() -> None:
    message = "default-scheduler: preempting to accommodate a higher priority pod"
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": message}
    gone = pod(conditions=[condition])
    gone["metadata"]["deletionTimestamp"] = "2026-11-21T23:00:00Z"
    assert pod_diagnosis.failure([gone]) == (FailedReason.evicted, f"pod p on n1: PreemptionByScheduler: {message}")


def test_its_own_deadline() -> None:
    text = "Pod was active on the node longer than the specified deadline"
    late = ended(137)
    late["status"] |= {"reason": "DeadlineExceeded", "message": text}
    assert pod_diagnosis.failure([late]) == (FailedReason.deadline_exceeded, f"pod p on n1: {text}")


def test_a_node_that_refuses_a_pod() -> None:
    status = {"reason": "UnexpectedAdmissionError", "message": "Allocate failed due to no healthy devices present"}
    found = pod_diagnosis.failure([pod(phase="Failed", **status)])
    assert found == (FailedReason.start_failed, f"pod p on n1: {status['reason']}: {status['message']}")


def test_a_command_that_is_not_there() -> None:
    text = 'exec: "python": executable file not found in $PATH'
    found = pod_diagnosis.failure([ended(128, reason="StartError", message=text)])
    assert found == (FailedReason.start_failed, f"pod p on n1: container worker: {text}")


def test_an_init_container_that_fails() -> None:
    state = {"terminated": {"exitCode": 1, "finishedAt": "2026-11-21T23:00:00Z"}}
    found = pod_diagnosis.failure(
        [pod(phase="Failed", initContainerStatuses=[{"name": "init-pytorch", "state": state}])]
    )
    assert found == (FailedReason.start_failed, "pod p on n1: init container init-pytorch exited with code 1")


@pytest.mark.parametrize("reason", ["ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"])
def test_images(reason: str) -> None:
    text = f"pod p on n1: container worker, image 'img:1': {reason}: not found"
    assert pod_diagnosis.failure([held(reason, "not found")]) == (FailedReason.image_pull, text)
    assert pod_diagnosis.waiting([held(reason, "not found")]) == f"ImagePull: {text}"
    never = reason in ("InvalidImageName", "ErrImageNeverPull")
    assert (pod_diagnosis.hopeless([held(reason)]) is not None) is never


def test_an_init_containers_image() -> None:
    assert reason_of(held("ErrImagePull", which="initContainerStatuses")) is FailedReason.image_pull


@pytest.mark.parametrize("reason", ["CreateContainerConfigError", "CreateContainerError", "RunContainerError"])
def test_containers_that_cannot_be_made(reason: str) -> None:
    found = pod_diagnosis.failure([held(reason, 'secret "keys" not found')])
    assert found == (
        FailedReason.start_failed,
        f'pod p on n1: container worker: {reason}: secret "keys" not found',
    )


def test_ordinary_waiting_is_no_failure() -> None:
    creating = held("ContainerCreating")
    assert pod_diagnosis.failure([creating]) is None
    assert pod_diagnosis.waiting([creating]) == "pod p: starting on n1"
    creating["spec"]["nodeName"] = None
    assert pod_diagnosis.waiting([creating, creating]) == "pod p and 1 more: waiting for the scheduler"
    assert pod_diagnosis.waiting([pod()]) is None


def test_waiting_for_a_pod_that_runs_and_is_not_ready() -> None:
    """As a worker of an MPIJob whose sshd does not answer yet."""
    ready, slow = pod("a", conditions=[{"type": "Ready", "status": "True"}]), pod("b")
    slow["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    assert pod_diagnosis.waiting([ready, slow]) == "pod b on n1: running, but not ready yet"
    assert pod_diagnosis.waiting([ready]) is None


def test_waiting_for_an_init_container() -> None:
    looking = pod(phase="Pending", initContainerStatuses=[{"name": "init-pytorch", "state": {"running": {}}}])
    assert pod_diagnosis.waiting([looking]) == "pod p: init container init-pytorch is still running"


def test_pods_that_the_api_server_refuses() -> None:
    policy = 'violates PodSecurity "restricted:latest": host namespaces (hostNetwork=true)'
    assert pod_diagnosis.failure([], [refused(policy)]) == (FailedReason.start_failed, policy)
    quota = refused("failed quota: q: must specify limits.cpu for: worker")
    assert reason_of(events=(quota,)) is FailedReason.quota_exceeded
    assert reason_of(events=({"type": "Normal", "message": "Created pod: p", "reason": "SuccessfulCreate"},)) is None


def test_the_newest_event_counts() -> None:
    old, new = refused("exceeded quota: q", "2026-11-21T23:00:00Z"), refused("no", "2026-11-21T23:00:01Z")
    assert reason_of(events=(old, new)) is reason_of(events=(new, old)) is FailedReason.start_failed


@pytest.mark.parametrize(
    ("asked", "limit", "never"), [("16", "8", True), ("8", "8", False), ("4Gi", "4000Mi", True), ("1", "x", False)]
)
def test_a_pod_larger_than_its_quota_never_fits(asked: str, limit: str, never: bool) -> None:
    text = f"exceeded quota: q, requested: cpu=1,gpu={asked}, used: cpu=0,gpu=0, limited: cpu=9,gpu={limit}"
    assert (pod_diagnosis.hopeless([], [refused(text)]) is not None) is never


def test_nodes_stand_in_the_order_of_the_workers() -> None:
    pods = [pod(f"p{index}", index) for index in (10, 2, 0, 1)]
    for each, node in zip(pods, ("c", "b", "a", "b"), strict=True):
        each["spec"]["nodeName"] = node
    launcher = pod("launcher")
    launcher["metadata"]["labels"] = {"scalecurve.dev/role": "launcher"}
    launcher["spec"]["nodeName"] = "z"
    assert pod_diagnosis.nodes([launcher, *pods]) == ("a", "b", "c")
    assert pod_diagnosis.placement([launcher, *pods]) == {"p10": "c", "p2": "b", "p0": "a", "p1": "b"}


def test_a_master_is_the_first_worker() -> None:
    pods = [pod("m"), pod("w")]
    for each, role, node in zip(pods, ("master", "worker"), ("m", "w"), strict=True):
        labels = {"training.kubeflow.org/replica-type": role, "training.kubeflow.org/replica-index": "0"}
        each["metadata"]["labels"] = labels
        each["spec"]["nodeName"] = node
    assert pod_diagnosis.nodes(pods[::-1]) == ("m", "w")


def test_exit_codes_of_the_failed_come_first_and_are_few() -> None:
    pods = [pod(f"p{index}", index) for index in range(100)]
    found = pod_diagnosis.exit_codes([*pods, ended(137, "bad", index=100)])
    assert next(iter(found.items())) == ("bad", 137)
    assert found["p0"] is None
    assert len(found) == pod_diagnosis.MAX_EXIT_CODES


def test_a_container_put_beside_ours_is_not_the_main_one() -> None:
    injected = pod()
    injected["spec"]["containers"].insert(0, {"name": "istio-proxy"})
    assert pod_diagnosis.main_container(injected) == "worker"
    assert pod_diagnosis.main_container({"spec": {"containers": [{"name": "own"}]}}) == "own"


def test_pods_without_status() -> None:
    bare = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "worker"}]}}
    assert pod_diagnosis.failure([bare]) is None
    assert pod_diagnosis.waiting([bare]) is None
    assert pod_diagnosis.nodes([bare]) == ()
    assert list(pod_diagnosis.messages(bare)) == []
    assert pod_diagnosis.exit_codes([bare]) == {"p": None}
