from __future__ import annotations

import json

import pytest

from scalecurve_worker.launch.pod_role import PodKind, PodRole, PodRoleError, find_pod_role
from tests.worker.pods import on_nodes
from tests.worker.worker_ranks import make_trial

FOUR = on_nodes(make_trial(4), 2)


TF = {"cluster": {"worker": ["a:2222", "b:2222"]}, "task": {"type": "worker", "index": 1}}


PYTORCH = {"MASTER_ADDR": "job-master-0", "MASTER_PORT": "23456", "RANK": "1", "PET_NODE_RANK": "1", "WORLD_SIZE": "4"}


def tf(**task: object) -> str:
    return json.dumps({**TF, "task": task})


@pytest.mark.parametrize(
    ("environment", "role"),
    [
        (
            {"JOB_COMPLETION_INDEX": "1", "SCALECURVE_COORDINATOR": "job-0.job:29500"},
            PodRole(PodKind.workers, 2, 1, 2, "job-0.job", 29500),
        ),
        (PYTORCH, PodRole(PodKind.workers, 2, 1, 2, "job-master-0", 23456)),
        (
            {"TF_CONFIG": json.dumps(TF), "SCALECURVE_COORDINATOR": "a:1"},
            PodRole(PodKind.workers, 2, 1, 2, "a", 1),
        ),
        (
            {"TF_CONFIG": tf(type="ps", index=3), "SCALECURVE_COORDINATOR": "a:1"},
            PodRole(PodKind.auxiliary, 2, 0, 2, "a", 1, "server-3"),
        ),
        (
            {"TF_CONFIG": tf(type="chief", index=0), "SCALECURVE_COORDINATOR": "a:1"},
            PodRole(PodKind.auxiliary, 2, 0, 2, "a", 1, "chief"),
        ),
        ({"K_MPI_JOB_ROLE": "launcher"}, PodRole(PodKind.launcher, 2, 0, 2, "127.0.0.1", 29500)),
        (
            {"SCALECURVE_POD_ROLE": "launcher", "JOB_COMPLETION_INDEX": "0", "SCALECURVE_HOSTS": "j-{}.j"},
            PodRole(PodKind.launcher, 2, 0, 2, "127.0.0.1", 29500, hosts=("j-0.j", "j-1.j")),
        ),
        (
            {"SCALECURVE_POD_ROLE": "ps", "JOB_COMPLETION_INDEX": "3", "SCALECURVE_COORDINATOR": "a:1"},
            PodRole(PodKind.auxiliary, 2, 0, 2, "a", 1, "server-3"),
        ),
        (
            {"SCALECURVE_POD_ROLE": "chief", "JOB_COMPLETION_INDEX": "0", "SCALECURVE_COORDINATOR": "a:1"},
            PodRole(PodKind.auxiliary, 2, 0, 2, "a", 1, "chief"),
        ),
        ({"SCALECURVE_POD_INDEX": "0", "RANK": "1", "MASTER_ADDR": "m"}, PodRole(PodKind.workers, 2, 0, 2, "m", 29500)),
    ],
)
def test_every_job_kind_says_which_pod_this_is(environment: dict[str, str], role: PodRole) -> None:
    assert find_pod_role(FOUR, {"SCALECURVE_PODS": "2", **environment}) == role


def test_one_pod_needs_no_number() -> None:
    assert find_pod_role(FOUR, {"SCALECURVE_PODS": "1"}) == PodRole(PodKind.workers, 1, 0, 4, "127.0.0.1", 29500)


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({}, "SCALECURVE_PODS='': expected a whole number"),
        ({"SCALECURVE_PODS": "3"}, "SCALECURVE_PODS=3: 4 workers cannot be divided"),
        ({"SCALECURVE_PODS": "0"}, "cannot be divided"),
        (
            {"SCALECURVE_PODS": "2"},
            "cannot tell which of 2 pods this is: set one of SCALECURVE_POD_INDEX, ",
        ),
        ({"SCALECURVE_PODS": "2", "JOB_COMPLETION_INDEX": "2"}, "pod index 2 is out of range with SCALECURVE_PODS=2"),
        ({"SCALECURVE_PODS": "2", "JOB_COMPLETION_INDEX": "-1"}, "JOB_COMPLETION_INDEX='-1'"),
        ({"SCALECURVE_PODS": "2", "JOB_COMPLETION_INDEX": "1"}, "cannot tell where 2 pods meet"),
        ({"SCALECURVE_PODS": "2", "JOB_COMPLETION_INDEX": "1", "SCALECURVE_COORDINATOR": "a"}, "expected host:port"),
        ({"SCALECURVE_PODS": "2", "TF_CONFIG": "{}"}, "TF_CONFIG='{}'"),
    ],
)
def test_what_does_not_say_it_is_refused(environment: dict[str, str], said: str) -> None:
    with pytest.raises(PodRoleError, match=said):
        find_pod_role(FOUR, environment)
