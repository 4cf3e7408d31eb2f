from __future__ import annotations

import json
import sys

import pytest

from scalecurve_worker.launch.commands import commands
from scalecurve_worker.launch.pod_role import PodKind, PodRole, PodRoleError
from tests.worker.pods import on_nodes
from tests.worker.worker_ranks import make_trial

FOUR = on_nodes(make_trial(4), 2)


PYTORCH = {"MASTER_ADDR": "job-master-0", "MASTER_PORT": "23456", "RANK": "1", "PET_NODE_RANK": "1", "WORLD_SIZE": "4"}


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
    (command,) = commands(trial, PodRole(PodKind.auxiliary, 2, 0, 2, "h", 1, "server-1"), {"TF_CONFIG": "{}"})
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
    assert command.env["OMPI_MCA_opal_abort_delay"] == "5"
    for name in ("PRTE_MCA_plm_ssh_args", "OMPI_MCA_plm_rsh_args"):
        assert "-p 2223 -i /home/mpiuser/.ssh/id_rsa" in command.env[name]


def test_mpirun_starts_ranks_from_the_launcher_of_an_mpi_job_only() -> None:
    trial = on_nodes(make_trial(4, workload={"program": "allreduce", "backend": "mpi"}), 2)
    with pytest.raises(PodRoleError, match=r"a JobSet or MPIJob only; set spec\.runner"):
        commands(trial, PodRole(PodKind.workers, 2, 0, 2, "h", 1), {})
    (command,) = commands(trial, PodRole(PodKind.launcher, 2, 0, 2, "h", 1), {}, "/opt/mpirun")
    assert command.argv[-4:] == [sys.executable, "-P", "-m", "scalecurve_worker"]


def test_a_users_own_tensorflow_is_told_its_cluster_where_no_job_kind_does() -> None:
    workload = {"program": "custom", "command": ["train"], "launcher": "processes"}
    trial = on_nodes(make_trial(2, workload=workload), 2)
    role = PodRole(PodKind.workers, 2, 1, 1, "h", 1, hosts=("j-0.j", "j-1.j"))
    (command,) = commands(trial, role, {})
    assert json.loads(command.env["TF_CONFIG"]) == {
        "cluster": {"worker": ["j-0.j:2222", "j-1.j:2222"]},
        "task": {"type": "worker", "index": 1},
    }
    (command,) = commands(trial, role, {"TF_CONFIG": "{}"})
    assert command.env["TF_CONFIG"] == "{}"


def test_mpirun_uses_the_key_that_was_derived() -> None:
    trial = on_nodes(make_trial(4), 2)
    env = {"SCALECURVE_SSH_KEY": "/tmp/keys/id_rsa", "SCALECURVE_HOSTFILE": "/tmp/keys/hostfile"}
    (command,) = commands(trial, PodRole(PodKind.launcher, 2, 0, 2, "h", 1), env, "/opt/mpirun")
    assert command.argv[:3] == ["/opt/mpirun", "--hostfile", "/tmp/keys/hostfile"]
    assert "-i /tmp/keys/id_rsa" in command.env["PRTE_MCA_plm_ssh_args"]
