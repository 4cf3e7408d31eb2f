"""Which pod stands for a position."""

from __future__ import annotations

from typing import Any

from scalecurve_operator.runners.pod_status import newest_pods, pods_of_job

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


def of_role(role: str, name: str, created: str, index: int = 0, **status: Any) -> Tree:
    made = pod(name, index, **status)
    made["metadata"] |= {"creationTimestamp": created}
    made["metadata"]["labels"]["scalecurve.dev/role"] = role
    return made


def test_of_the_pods_of_one_place_the_newest_is_the_jobs() -> None:
    old = [of_role("worker", f"old-{index}", "2026-11-21T22:00:00Z", index) for index in range(2)]
    new = [of_role("worker", f"new-{index}", "2026-11-21T23:00:00Z", index) for index in range(2)]
    launcher = of_role("launcher", "launcher", "2026-11-21T22:00:00Z")
    mixed = [old[1], new[0], launcher, old[0], new[1]]
    assert newest_pods(mixed) == [new[0], launcher, new[1]]
    master, worker = pod("master"), pod("worker")
    master["metadata"]["labels"] |= {"training.kubeflow.org/replica-type": "master"}
    worker["metadata"]["labels"] |= {"training.kubeflow.org/replica-type": "worker"}
    assert newest_pods([master, worker]) == [master, worker]


def test_a_pod_that_the_job_did_not_make_stands_for_nothing() -> None:
    def owned(pod_name: str, created: str, role: str = "worker", **owner: str) -> Tree:
        made = of_role(role, pod_name, created)
        made["metadata"]["ownerReferences"] = [owner] if owner else []
        return made

    mine = owned("mine", "2026-11-21T22:00:00Z", kind="Job", name="j", uid="u1")
    launcher = owned("launcher", "2026-11-21T22:00:00Z", "launcher", kind="Job", name="j-launcher", uid="u2")
    impostors = [
        owned("labels-alone", "2026-11-21T23:00:00Z"),
        owned("of-another", "2026-11-21T23:00:00Z", kind="Job", name="j", uid="u3"),
        owned("not-a-job", "2026-11-21T23:00:00Z", "launcher", kind="ReplicaSet", name="j-launcher", uid="u4"),
    ]
    assert pods_of_job([*impostors, mine, launcher], "j", "u1") == [mine, launcher]
    assert newest_pods([impostors[0], mine]) == [impostors[0]], "by its labels and its age it would have been"
    assert pods_of_job([mine], "j", None) == [mine]
