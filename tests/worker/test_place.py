from __future__ import annotations

import json
import sys

import pytest

from scalecurve_worker.launch.commands import commands
from scalecurve_worker.launch.pod_role import PodKind, PodRole, PodRoleError, find_pod_role
from scalecurve_worker.process.startup import cores_of_pod
from tests.worker.pods import on_nodes
from tests.worker.worker_ranks import make_trial

FOUR = on_nodes(make_trial(4), 2)
TF = {"cluster": {"worker": ["a:2222", "b:2222"]}, "task": {"type": "worker", "index": 1}}
PYTORCH = {"MASTER_ADDR": "job-master-0", "MASTER_PORT": "23456", "RANK": "1", "PET_NODE_RANK": "1", "WORLD_SIZE": "4"}


def tf(**task: object) -> str:
    return json.dumps({**TF, "task": task})


@pytest.mark.parametrize(
    ("environment", "place"),
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
            PodRole(PodKind.aside, 2, 0, 2, "a", 1, "server-3"),
        ),
        (
            {"TF_CONFIG": tf(type="chief", index=0), "SCALECURVE_COORDINATOR": "a:1"},
            PodRole(PodKind.aside, 2, 0, 2, "a", 1, "chief"),
        ),
        ({"K_MPI_JOB_ROLE": "launcher"}, PodRole(PodKind.launcher, 2, 0, 2, "127.0.0.1", 29500)),
        ({"SCALECURVE_POD_INDEX": "0", "RANK": "1", "MASTER_ADDR": "m"}, PodRole(PodKind.workers, 2, 0, 2, "m", 29500)),
    ],
)
def test_every_job_kind_says_which_pod_this_is(environment: dict[str, str], place: PodRole) -> None:
    assert find_pod_role(FOUR, {"SCALECURVE_PODS": "2", **environment}) == place


def test_one_pod_needs_no_number() -> None:
    assert find_pod_role(FOUR, {"SCALECURVE_PODS": "1"}) == PodRole(PodKind.workers, 1, 0, 4, "127.0.0.1", 29500)


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({}, "SCALECURVE_PODS='': a whole number"),
        ({"SCALECURVE_PODS": "3"}, "SCALECURVE_PODS=3: 4 workers do not divide"),
        ({"SCALECURVE_PODS": "0"}, "do not divide"),
        (
            {"SCALECURVE_PODS": "2"},
            "which of 2 pods is this: none of SCALECURVE_POD_INDEX, PET_NODE_RANK, RANK, JOB_COMPLETION_INDEX",
        ),
        ({"SCALECURVE_PODS": "2", "JOB_COMPLETION_INDEX": "2"}, "this is pod 2, and SCALECURVE_PODS=2: 0 to 1"),
        ({"SCALECURVE_PODS": "2", "JOB_COMPLETION_INDEX": "-1"}, "JOB_COMPLETION_INDEX='-1'"),
        ({"SCALECURVE_PODS": "2", "JOB_COMPLETION_INDEX": "1"}, "where do 2 pods meet"),
        ({"SCALECURVE_PODS": "2", "JOB_COMPLETION_INDEX": "1", "SCALECURVE_COORDINATOR": "a"}, "expected host:port"),
        ({"SCALECURVE_PODS": "2", "TF_CONFIG": "{}"}, "TF_CONFIG='{}'"),
    ],
)
def test_what_does_not_say_it_is_refused(environment: dict[str, str], said: str) -> None:
    with pytest.raises(PodRoleError, match=said):
        find_pod_role(FOUR, environment)


def test_torchrun_is_told_where_it_is() -> None:
    (command,) = commands(FOUR, PodRole(PodKind.workers, 2, 1, 2, "job-0.job", 29500), {**PYTORCH, "PET_NNODES": "9"})
    said = command.argv[command.argv.index("torch.distributed.run") + 1 :]
    assert said[:7] == [
        "--nproc-per-node=2",
        "--max-restarts=0",
        "--nnodes=2",
        "--node-rank=1",
        "--master-addr=job-0.job",
        "--master-port=29500",
        "--no-python",
    ]
    assert said[-2:] == ["-m", "scalecurve_worker"]
    # What counts pods, or names another rendezvous, reaches neither torchrun nor a rank.
    assert not {"RANK", "WORLD_SIZE", "PET_NNODES", "PET_NODE_RANK"} & set(command.env)
    assert (command.env["SCALECURVE_THREADS"], command.env["SCALECURVE_POD_INDEX"]) == ("1", "1")


def test_ranks_of_ones_own_are_numbered_over_pods() -> None:
    workload = {"program": "custom", "command": ["train", "--lr", "$(LR)"], "env": {"RANK_ZERO": "x"}}
    trial = on_nodes(make_trial(4, workload=workload), 2)
    started = commands(trial, PodRole(PodKind.workers, 2, 1, 2, "h", 1), {"SCALECURVE_THREADS": "3", "RANK": "1"})
    assert [
        [command.env[name] for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")] for command in started
    ] == [["2", "0", "4", "2"], ["3", "1", "4", "2"]]
    assert [command.argv[-3:] for command in started] == [["train", "--lr", "$(LR)"]] * 2
    assert {(c.env["MASTER_ADDR"], c.env["MASTER_PORT"], c.env["SCALECURVE_THREADS"]) for c in started} == {
        ("h", "1", "3")
    }
    assert {command.env["RANK_ZERO"] for command in started} == {"x"}


def test_a_parameter_server_is_no_rank() -> None:
    trial = make_trial(4, workload={"program": "custom", "command": ["train"]})
    (command,) = commands(trial, PodRole(PodKind.aside, 2, 0, 2, "h", 1, "server-1"), {"TF_CONFIG": "{}"})
    assert "RANK" not in command.env
    assert command.env["TF_CONFIG"] == "{}"
    assert [command.env[name] for name in ("SCALECURVE_ROLE", "MASTER_ADDR", "MASTER_PORT")] == ["server-1", "h", "1"]


def test_one_process_drives_the_replicas_of_a_pod() -> None:
    trial = make_trial(4, workload={"program": "tensorflow", "strategy": "mirrored"})
    (command,) = commands(trial, PodRole(PodKind.workers, 1, 0, 4, "127.0.0.1", 1), {})
    assert [command.env[name] for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")] == list("0011")


def test_workers_of_tensorflow_need_no_torchrun() -> None:
    trial = on_nodes(make_trial(4, workload={"program": "tensorflow", "strategy": "multi-worker-mirrored"}), 2)
    started = commands(trial, PodRole(PodKind.workers, 2, 1, 2, "h", 1), {})
    assert [command.env["RANK"] for command in started] == ["2", "3"]
    assert {command.env["WORLD_SIZE"] for command in started} == {"4"}
    assert all("torch.distributed.run" not in command.argv for command in started)


def test_mpirun_is_given_its_hosts_and_every_variable_of_ranks() -> None:
    trial = on_nodes(make_trial(4, workload={"env": {"OWN": "1"}}), 2)
    env = {
        "SCALECURVE_TRIAL": "{}",
        "SCALECURVE_CORES": "0",
        "SCALECURVE_POD_INDEX": "5",
        "NCCL_DEBUG": "INFO",
        "POD_NAME": "launcher",
        "HOME": "/root",
        "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
        "SCALECURVE_SSH_PORT": "2223",
    }
    (command,) = commands(trial, PodRole(PodKind.launcher, 2, 0, 2, "h", 1), env, "/opt/mpirun")
    assert command.argv[:5] == ["/opt/mpirun", "--hostfile", "/etc/mpi/hostfile", "-n", "4"]
    forwarded = {name for flag, name in zip(command.argv, command.argv[1:], strict=False) if flag == "-x"}
    assert forwarded == {
        "SCALECURVE_TRIAL",
        "SCALECURVE_THREADS",
        "SCALECURVE_SSH_PORT",
        "NCCL_DEBUG",
        "OWN",
        "PYTHONUNBUFFERED",
    }
    for name in ("PRTE_MCA_plm_ssh_args", "OMPI_MCA_plm_rsh_args"):
        assert "-p 2223 -i /home/mpiuser/.ssh/id_rsa" in command.env[name]


def test_mpirun_starts_ranks_from_the_launcher_of_an_mpi_job_only() -> None:
    trial = on_nodes(make_trial(4, workload={"program": "allreduce", "backend": "mpi"}), 2)
    with pytest.raises(PodRoleError, match=r"an MPIJob only; set spec\.runner: MPIJob"):
        commands(trial, PodRole(PodKind.workers, 2, 0, 2, "h", 1), {})
    (command,) = commands(trial, PodRole(PodKind.launcher, 2, 0, 2, "h", 1), {}, "/opt/mpirun")
    assert command.argv[-4:] == [sys.executable, "-P", "-m", "scalecurve_worker"]


def cores(pods: int, index: int, allowed: list[int], machine: int, gpus: bool = False, nodes: int = 2) -> str:
    trial = on_nodes(make_trial(8), nodes)
    variables = {
        "SCALECURVE_TRIAL": json.dumps(trial.wire()),
        "SCALECURVE_PODS": str(pods),
        "SCALECURVE_POD_INDEX": str(index),
    }
    return cores_of_pod(variables, allowed, machine, gpus)


def test_workers_on_cpus_share_no_core() -> None:
    eight = list(range(8))
    assert cores(2, 0, eight, 8) == cores(2, 1, eight, 8) == "0,1;2,3;4,5;6,7"
    # Two pods of two workers on each node see the same cores ...
    assert [cores(4, index, eight, 8) for index in range(4)] == ["0,1;2,3", "4,5;6,7"] * 2
    # ... unless each was given its own.
    assert cores(4, 1, [4, 5, 6, 7], 8) == "4,5;6,7"
    assert cores(2, 0, [0, 1, 2], 3) == "", "fewer cores than workers: the record will say so"
    assert cores(8, 3, eight, 8, nodes=8) == "", "one worker a node keeps what it has"
    assert cores(2, 0, eight, 8, gpus=True) == ""


def test_without_a_pod_cores_are_left() -> None:
    assert cores_of_pod({}, [0, 1], 2, gpus=False) == ""
    assert cores_of_pod({"SCALECURVE_PODS": "1", "SCALECURVE_TRIAL": "/trial.json"}, [0, 1], 2, gpus=False) == ""
