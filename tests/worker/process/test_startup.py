from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from scalecurve_worker.process.identity import RankIdentity, identify
from scalecurve_worker.process.startup import StartupError, cores_of_pod, pin, set_threads, shares_of_cores, together
from tests.waiting import PATIENCE_S, eventually
from tests.worker.pods import on_nodes
from tests.worker.worker_ranks import make_trial


@pytest.mark.parametrize(
    ("environment", "identity"),
    [
        ({}, RankIdentity(0, 1, 0)),
        ({"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1"}, RankIdentity(3, 4, 1)),
        ({"RANK": "3", "WORLD_SIZE": "4"}, RankIdentity(3, 4, 3)),
        (
            {"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "8", "OMPI_COMM_WORLD_LOCAL_RANK": "0"},
            RankIdentity(2, 8, 0),
        ),
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, RankIdentity(1, 2, 1)),
        ({"SLURM_PROCID": "1", "SLURM_NTASKS": "2"}, RankIdentity(0, 1, 0)),
        ({"RANK": "x", "WORLD_SIZE": "2"}, RankIdentity(0, 1, 0)),
    ],
)
def test_identity_by_launcher(environment: dict[str, str], identity: RankIdentity) -> None:
    assert identify(environment) == identity


@pytest.mark.parametrize(
    ("rank", "sets", "said"),
    [
        (0, "0;x", "core numbers"),
        (2, "0;1", "2 core sets, but this is local rank"),
        (0, "99999", "cannot take cores"),
    ],
)
def test_cores_that_cannot_be_taken(rank: int, sets: str, said: str) -> None:
    with pytest.raises(StartupError, match=said):
        pin(rank, sets)


@pytest.mark.parametrize(
    ("sets", "processes", "taken"),
    [
        ("0;1;2;3", "4", "0;1;2;3"),
        ("0,4;1,5;2,6;3,7", "1", "0,4,1,5,2,6,3,7"),
        ("0;1;2;3", "2", "0,1;2,3"),
        ("0;1;2", "2", "0;1;2"),
        ("0;1", "", "0;1"),
        ("0;1", "0", "0;1"),
        ("", "1", ""),
    ],
)
def test_one_process_takes_the_cores_of_all_its_workers(sets: str, processes: str, taken: str) -> None:
    assert together(sets, processes) == taken


@pytest.mark.parametrize(
    ("given", "workers", "shares"),
    [
        ("0,2;1,3", 2, [[0, 2], [1, 3]]),
        ("", 2, [[0, 1], [2, 3]]),
        ("0;1", 2, [[0, 1], [2, 3]]),
        ("0,1;2,3", 4, [[0], [1], [2], [3]]),
        ("", 3, [[0], [1], [2]]),
        ("", 8, [[0, 1, 2, 3]] * 8),
        ("x;y", 1, [[0, 1, 2, 3]]),
    ],
)
def test_workers_of_one_process_have_their_shares_of_its_cores(
    monkeypatch: pytest.MonkeyPatch, given: str, workers: int, shares: list[list[int]]
) -> None:
    monkeypatch.setattr("scalecurve_worker.process.startup.allowed_cores", lambda: [0, 1, 2, 3])
    monkeypatch.setenv("SCALECURVE_CORES", given)
    assert shares_of_cores(workers) == shares


def test_threads_must_be_a_number() -> None:
    with pytest.raises(StartupError, match="SCALECURVE_THREADS='many'"):
        set_threads("many")


def test_a_command_keeps_its_cores_threads_and_arguments() -> None:
    core = min(os.sched_getaffinity(0))
    script = "import os, sys; print(os.sched_getaffinity(0), os.environ['OMP_NUM_THREADS'], sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-m", "scalecurve_worker", sys.executable, "-c", script, "--flag", "a b"],
        env={**os.environ, "SCALECURVE_CORES": f"{core}", "SCALECURVE_THREADS": "1", "OMP_NUM_THREADS": "7"},
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    assert done.stdout == f"{{{core}}} 1 ['--flag', 'a b']\n"


def test_a_rank_dies_with_its_launcher() -> None:
    # The launcher starts a rank, prints its pid and is killed; the rank would sleep for longer than the test waits.
    launcher = (
        "import subprocess, sys, time\n"
        "rank = subprocess.Popen([sys.executable, '-m', 'scalecurve_worker', sys.executable, '-c',"
        " 'import time; print(1, flush=True); time.sleep(600)'], stdout=subprocess.PIPE)\n"
        "rank.stdout.readline(); print(rank.pid, flush=True); time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", launcher], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        rank = int(process.stdout.readline())
        process.kill()
    eventually(lambda: not running(rank), "the rank's end")


def running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize("module", ["scalecurve_worker", "scalecurve_worker.sdk.bench"])
def test_importing_is_light(module: str) -> None:
    heavy = "{'torch', 'numpy', 'pandas', 'prometheus_client', 'mpi4py', 'pynvml'}"
    code = f"import sys, {module}; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    assert done.stdout.strip() == "[]"


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
