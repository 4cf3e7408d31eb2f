"""Every strategy as real processes: what is recorded, and what injected faults come out as."""

from __future__ import annotations

from pathlib import Path

import pytest
from tensorflow_ranks import checks, judged, needs_tensorflow, rows_of, run_ranks, tf_trial

from scalebench_api.record.rank import WindowKind
from scalebench_worker.sdk import LEAD_STEPS

pytestmark = [pytest.mark.processes, needs_tensorflow]

SYNCHRONOUS = ("RecordsMissing", "WrongWorldSize", "WrongBackend", "WrongStrategy", "ReplicasDiverged", "WrongSamples",
               "NonFiniteLoss", "SameSoftware")  # fmt: skip


def test_two_processes_train_one_model(tmp_path: Path) -> None:
    trial = tf_trial(2, "multi-worker-mirrored", communication="ring", options={"deterministic": True})
    run_ranks(tmp_path, trial)
    found, verdict = judged(tmp_path, trial)
    assert [name for name in SYNCHRONOUS if not checks(verdict)[name]] == []
    first, second = found
    kinds = [WindowKind.train, WindowKind.no_communication] * 2
    for record in found:
        assert [window.kind for window in record.windows] == kinds
        assert [window.samples for window in record.windows] == [12] * 4
        assert (record.world, record.backend, record.exposed_method) == (2, "ring", "no-all-reduce")
        assert record.strategy == "CollectiveAllReduceStrategy"
        assert record.options["crossDeviceOps"] == "CollectiveAllReduce"
        assert record.options["communication"] == "RING"
        assert record.parameters == 64 * 512 + 512 + 512 * 512 + 512 + 512 * 10 + 10
        assert {"tensorflow", "keras"} < set(record.versions)
    assert first.parameter_checksum == second.parameter_checksum is not None
    assert first.topology.pid != second.topology.pid
    assert rows_of(tmp_path, 1) == 2 + 4 * (LEAD_STEPS + 3) + 3 * 3


@pytest.mark.parametrize(
    ("ops", "kind", "backend"),
    [
        (None, "CollectiveAllReduce", "ring"),
        ("hierarchical-copy", "HierarchicalCopyAllReduce", "hierarchical-copy"),
        ("reduction-to-one-device", "ReductionToOneDevice", "reduction-to-one-device"),
    ],
)
def test_one_process_drives_two_replicas(tmp_path: Path, ops: str | None, kind: str, backend: str) -> None:
    trial = tf_trial(2, "mirrored", **({"crossDeviceOps": ops} if ops else {}))
    run_ranks(tmp_path, trial)
    found, verdict = judged(tmp_path, trial)
    assert [name for name in SYNCHRONOUS if not checks(verdict)[name]] == []
    first, second = found
    assert [record.topology.rank for record in found] == [0, 1]
    assert first.topology.pid == second.topology.pid
    assert first.options["replicasPerProcess"] == 2
    assert (first.world, first.backend, first.strategy) == (2, backend, "MirroredStrategy")
    assert first.options["crossDeviceOps"] == kind
    assert first.windows == second.windows
    assert rows_of(tmp_path, 0) == rows_of(tmp_path, 1) == 2 + 4 * (LEAD_STEPS + 3) + 3 * 3


def test_one_replica_without_any_sum(tmp_path: Path) -> None:
    trial = tf_trial(1, "one-device")
    run_ranks(tmp_path, trial)
    (record,), verdict = judged(tmp_path, trial)
    assert verdict.reason is None
    assert (record.world, record.backend, record.strategy) == (1, None, "OneDeviceStrategy")
    assert [window.kind for window in record.windows] == [WindowKind.train] * 2


@pytest.mark.parametrize(
    ("strategy", "workload", "said"),
    [
        ("mirrored", {"crossDeviceOps": "nccl", "device": "auto"}, "workload.crossDeviceOps: nccl is asked for"),
        ("multi-worker-mirrored", {"communication": "nccl", "device": "auto"}, "workload.communication: nccl"),
        ("one-device", {"device": "gpu"}, "workload.device: gpu is asked for, and TensorFlow here is built without"),
        ("one-device", {"model": "gpt2_tiny"}, "workload.model: program tensorflow has no model 'gpt2_tiny'"),
    ],
)
def test_what_cannot_run_says_why(tmp_path: Path, strategy: str, workload: dict[str, str], said: str) -> None:
    printed = run_ranks(tmp_path, tf_trial(1, strategy, **workload), fails=True)
    assert f"scalebench: rank 0: {said}" in printed[0]
