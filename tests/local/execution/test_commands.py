"""Command lines and environments of a trial."""

from __future__ import annotations

import importlib.util
import os
import socket
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest

from scalecurve_api.files import Within
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_local.attempt import AttemptFolder
from scalecurve_local.devices.cores import Cores
from scalecurve_local.devices.gpus import Gpu
from scalecurve_local.devices.shares import Machine, Share, allot
from scalecurve_local.errors import UnavailableError
from scalecurve_local.execution.commands import check_installed, commands
from scalecurve_local.execution.environment import trial_environment
from scalecurve_local.execution.running_trial import reserve_port
from tests.local.devices.test_shares import plan
from tests.waiting import PATIENCE_S

HERE = AttemptFolder(Within(Path("/b")) / ".work" / "t" / "attempt-1", 1)


def trial(**workload: Any) -> TrialSpec:
    return next(t for t in plan([1, 2], workload=workload) if t.point.workers == 2)


def test_the_built_in_program_runs_under_torchrun_on_the_loopback() -> None:
    (command,) = commands(trial(), HERE)
    assert command.argv[:7] == [
        sys.executable,
        "-P",
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--local-addr=127.0.0.1",
        "--nproc-per-node=2",
    ]
    assert command.argv[-4:] == [sys.executable, "-P", "-m", "scalecurve_worker"]
    assert command.log == "/b/.work/t/attempt-1/logs/launcher.log"


def test_data_parallel_runs_as_one_process_for_all_gpus() -> None:
    (command,) = commands(trial(strategy="dp", device="gpu"), HERE)
    assert "--nproc-per-node=1" in command.argv


def test_a_custom_command_runs_as_plain_processes_with_ranks() -> None:
    found = commands(trial(program="custom", command=["./train", "--x"], env={"A": "b"}), HERE)
    assert [command.env["RANK"] for command in found] == ["0", "1"]
    assert {command.env["WORLD_SIZE"] for command in found} == {"2"}
    assert found[1].env["A"] == "b"
    assert found[1].argv == [sys.executable, "-P", "-m", "scalecurve_worker", "./train", "--x"]
    assert found[1].log == "/b/.work/t/attempt-1/logs/rank-1.log"


def test_what_is_not_installed_is_said_before_anything_starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    check_installed([trial(program="custom", command=["./train"])])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        UnavailableError, match=r"program: torch needs torch, .*pip install -e '\.\[torch\]' in the clone"
    ):
        check_installed([trial()])
    with pytest.raises(UnavailableError, match="launcher: torchrun needs torch"):
        check_installed([trial(program="custom", command=["./train"], launcher="torchrun")])
    with pytest.raises(UnavailableError, match=r"backend: mpi needs mpi4py, .*pip install -e '\.\[mpi\]' in the clone"):
        check_installed([trial(program="allreduce", backend="mpi")])
    with pytest.raises(UnavailableError, match="program: Horovod is not installed here; `make horovod` builds it"):
        check_installed([trial(program="horovod")])
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(UnavailableError, match="launcher: mpirun is not installed"):
        check_installed([trial(program="custom", command=["./train"], launcher="mpirun")])


def test_the_all_reduce_over_mpi_is_started_by_mpirun_and_needs_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scalecurve_local.execution.commands.find_mpirun", lambda: "/opt/mpirun")
    asked = trial(program="allreduce", backend="mpi")
    (command,) = commands(asked, HERE)
    assert command.argv[:4] == ["/opt/mpirun", "-n", "2", "/bin/sh"]
    machine = Machine(Cores(((0,), (1,))), (Gpu("GPU-a", "H200"), Gpu("GPU-b", "H200")))
    assert allot([asked], machine, False).shares[asked.name].devices == ["cpu:0", "cpu:1"]


def test_horovod_is_started_by_mpirun_and_gets_the_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scalecurve_local.execution.commands.find_mpirun", lambda: "/opt/mpirun")
    asked = trial(program="horovod")
    (command,) = commands(asked, HERE)
    assert command.argv[:4] == ["/opt/mpirun", "-n", "2", "/bin/sh"]
    machine = Machine(Cores(((0,), (1,))), (Gpu("GPU-a", "H200"), Gpu("GPU-b", "H200")))
    assert allot([asked], machine, False).shares[asked.name].devices == ["GPU-a", "GPU-b"]


def test_horovod_under_tensorflow_is_started_by_mpirun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scalecurve_local.execution.commands.find_mpirun", lambda: "/opt/mpirun")
    (command,) = commands(trial(program="tensorflow", strategy="horovod"), HERE)
    assert command.argv[:4] == ["/opt/mpirun", "-n", "2", "/bin/sh"]


def test_a_part_that_horovod_was_built_without_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("scalecurve_local.execution.commands.find_mpirun", lambda: "/opt/mpirun")
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "mpi_lib_v2.cpython-311.so").touch()
    here = ModuleSpec("horovod", None, origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: here)
    check_installed([trial(program="horovod")])
    with pytest.raises(
        UnavailableError, match=r"strategy: Horovod is installed here without its part for tensorflow; `make"
    ):
        check_installed([trial(program="tensorflow", strategy="horovod")])


def environment(share: Share, inherited: dict[str, str] | None = None, hide: bool = False) -> dict[str, str]:
    base = {"PATH": "/usr/bin", **(inherited or {})}
    return trial_environment(base, Path("/t.json"), Path("/out"), share, Path("/tmp/x"), 29999, None, hide)


def test_cores_threads_and_devices_are_told() -> None:
    cpu = environment(Share(2, cores=((0, 1), (2, 3))))
    assert (cpu["SCALECURVE_CORES"], cpu["SCALECURVE_THREADS"], cpu["OMP_NUM_THREADS"]) == ("0,1;2,3", "2", "2")
    assert "CUDA_VISIBLE_DEVICES" not in cpu
    assert environment(Share(2, cores=((0, 1),)), hide=True)["CUDA_VISIBLE_DEVICES"] == ""
    gpu = environment(Share(4, gpus=("GPU-a", "GPU-b", "GPU-a")))
    assert gpu["SCALECURVE_DEVICES"] == "GPU-a,GPU-b,GPU-a"
    assert gpu["CUDA_VISIBLE_DEVICES"] == "GPU-a,GPU-b"
    assert "SCALECURVE_CORES" not in gpu


def test_a_script_on_gpus_has_the_threads_of_its_launcher() -> None:
    threads = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "SCALECURVE_THREADS")

    def told(share: Share, **inherited: str) -> list[str | None]:
        return [environment(share, inherited).get(name) for name in threads]

    several, alone = Share(1, launched=True, gpus=("GPU-a",)), Share(0, launched=True, gpus=("GPU-a",))
    assert told(several) == ["1", None, None]
    assert told(several, OMP_NUM_THREADS="4", MKL_NUM_THREADS="2") == ["4", "2", None]
    assert told(alone) == [None, None, None]
    assert told(alone, OMP_NUM_THREADS="4") == ["4", None, None]


def test_metrics_are_for_this_machine_unless_the_user_says_otherwise() -> None:
    def served(**inherited: str) -> dict[str, str]:
        found = trial_environment(inherited, Path("/t"), Path("/o"), Share(1), Path("/x"), 29999, 9400, False)
        return {name: value for name, value in found.items() if "METRICS" in name}

    assert served() == {"SCALECURVE_METRICS_PORT": "9400", "SCALECURVE_METRICS_ADDRESS": "127.0.0.1"}
    assert served(SCALECURVE_METRICS_ADDRESS="0.0.0.0")["SCALECURVE_METRICS_ADDRESS"] == "0.0.0.0"


def test_another_jobs_variables_do_not_pass_and_the_users_network_does() -> None:
    found = environment(
        Share(1),
        {
            "WORLD_SIZE": "64",
            "TORCHELASTIC_RUN_ID": "x",
            "OMPI_COMM_WORLD_RANK": "3",
            "SCALECURVE_OUT": "/else",
            "SCALECURVE_METRICS_LINGER_SECONDS": "5",
            "NCCL_SOCKET_IFNAME": "eth0",
            "HOME": "/h",
        },
    )
    assert not {"WORLD_SIZE", "TORCHELASTIC_RUN_ID", "OMPI_COMM_WORLD_RANK"} & found.keys()
    assert (found["SCALECURVE_OUT"], found["SCALECURVE_METRICS_LINGER_SECONDS"]) == ("/out", "5")
    assert (found["NCCL_SOCKET_IFNAME"], found["HOME"]) == ("eth0", "/h")
    assert (found["MASTER_ADDR"], found["MASTER_PORT"]) == ("127.0.0.1", "29999")
    assert found["PATH"].split(os.pathsep)[0] == str(Path(sys.executable).parent)


def test_a_reserved_port_is_given_to_nobody_else_but_its_own_server() -> None:
    reserved = reserve_port()
    number = reserved.getsockname()[1]
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", number))
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("", number))
        server.listen()
        with socket.create_connection(("127.0.0.1", number), timeout=PATIENCE_S):
            pass
    reserved.close()
