"""What a machine says of itself: affinity, control groups of both versions, hardware threads, visible GPUs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from scalecurve_local.devices.cores import (
    Cores,
    group_siblings,
    oom_counters,
    parse_list,
    read_quota,
    survey_cores,
)
from scalecurve_local.devices.gpus import Gpu, query_smi, survey_gpus, visible
from scalecurve_local.errors import UnavailableError

GPUS = (Gpu("GPU-1111", "A"), Gpu("GPU-1222", "A"), Gpu("GPU-3333", "B"))


def put(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_this_machine() -> None:
    cores = survey_cores()
    assert {thread for group in cores.siblings for thread in group} == os.sched_getaffinity(0)
    assert 1 <= cores.budget <= cores.threads
    assert oom_counters()


def test_lists_of_the_kernel() -> None:
    assert parse_list("0-3,8,10-11\n") == {0, 1, 2, 3, 8, 10, 11}


def test_hardware_threads_are_grouped_and_the_forbidden_ones_left_out(tmp_path: Path) -> None:
    for cpu in range(4):
        path = tmp_path / f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
        path.parent.mkdir(parents=True)
        path.write_text(f"{cpu % 2},{cpu % 2 + 2}\n")
    assert group_siblings({0, 1, 2, 3}, tmp_path) == ((0, 2), (1, 3))
    assert group_siblings({0, 1, 3}, tmp_path) == ((0,), (1, 3))
    assert group_siblings({7}, tmp_path) == ((7,),)


V2 = "36 25 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw"
V1_CPU = "36 25 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct"
V1_MEMORY = "37 25 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory"


def test_the_tightest_quota_above_counts_in_version_2(tmp_path: Path) -> None:
    put(tmp_path, proc__self__cgroup="0::/a/b\n", proc__self__mountinfo=V2)
    top = tmp_path / "sys/fs/cgroup"
    (top / "a/b").mkdir(parents=True)
    assert read_quota(tmp_path) is None
    (top / "a/b/cpu.max").write_text("max 100000\n")
    (top / "a/cpu.max").write_text("250000 100000\n")
    assert read_quota(tmp_path) == 2.5
    (top / "a/b/memory.events").write_text("oom 0\noom_kill 1\n")
    assert oom_counters(tmp_path) == [str(top / "a/b/memory.events")]


def test_version_1(tmp_path: Path) -> None:
    membership = "5:cpuacct,cpu:/docker/x\n4:memory:/docker/x\n"
    put(tmp_path, proc__self__cgroup=membership, proc__self__mountinfo=f"{V1_CPU}\n{V1_MEMORY}\n")
    folder = tmp_path / "sys/fs/cgroup/cpu/docker/x"
    folder.mkdir(parents=True)
    (folder / "cpu.cfs_period_us").write_text("100000")
    (folder / "cpu.cfs_quota_us").write_text("-1")
    assert read_quota(tmp_path) is None
    (folder / "cpu.cfs_quota_us").write_text("150000")
    assert read_quota(tmp_path) == 1.5


def test_inside_a_container_the_mount_is_the_group(tmp_path: Path) -> None:
    mount = "36 25 0:30 /docker/x /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu"
    put(tmp_path, proc__self__cgroup="5:cpu:/docker/x\n", proc__self__mountinfo=mount)
    folder = tmp_path / "sys/fs/cgroup/cpu"
    folder.mkdir(parents=True)
    (folder / "cpu.cfs_period_us").write_text("100000")
    (folder / "cpu.cfs_quota_us").write_text("400000")
    assert read_quota(tmp_path) == 4


def test_a_machine_that_says_nothing(tmp_path: Path) -> None:
    assert read_quota(tmp_path) is None
    assert oom_counters(tmp_path) == [str(tmp_path / "proc/vmstat")]


@pytest.mark.parametrize(("quota", "budget"), [(None, 8), (2.0, 2), (2.9, 2), (0.5, 1), (64.0, 8)])
def test_the_budget_is_whole_cores_and_at_least_one(quota: float | None, budget: int) -> None:
    assert Cores(tuple((core,) for core in range(8)), quota).budget == budget


@pytest.mark.parametrize(
    ("setting", "chosen"),
    [
        (None, [0, 1, 2]),
        ("2,0", [2, 0]),
        ("GPU-3333,GPU-12", [2, 1]),
        ("", []),
        ("-1", []),
        ("0,-1,1", [0]),
        ("1,1", [1]),
    ],
)
def test_cuda_visible_devices(setting: str | None, chosen: list[int]) -> None:
    assert visible(GPUS, setting) == tuple(GPUS[index] for index in chosen)


@pytest.mark.parametrize("setting", ["3", "GPU-1", "GPU-9", "zero"])
def test_a_gpu_that_is_not_there_is_refused(setting: str) -> None:
    with pytest.raises(UnavailableError, match=r"does not name exactly one GPU; this machine has: 0 GPU-1111"):
        visible(GPUS, setting)


def test_a_mig_instance_is_taken_by_its_name() -> None:
    assert visible(GPUS, "MIG-abc") == (Gpu("MIG-abc", "MIG instance"),)


def test_gpus_of_this_machine_can_be_asked_for() -> None:
    assert all(gpu.uuid.startswith(("GPU-", "MIG-")) for gpu in survey_gpus({}))


def test_nvidia_smi_is_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert query_smi() == ()
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'GPU-5f0c, NVIDIA H200'\necho 'GPU-77aa, NVIDIA H200'\n")
    program.chmod(0o755)
    assert query_smi() == (Gpu("GPU-5f0c", "NVIDIA H200"), Gpu("GPU-77aa", "NVIDIA H200"))
    program.write_text("#!/bin/sh\necho no driver\nexit 9\n")
    assert query_smi() == ()
