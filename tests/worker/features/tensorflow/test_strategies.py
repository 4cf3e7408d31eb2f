"""Every strategy as real processes: what is recorded, and what injected faults come out as."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from scalecurve_api.features.accuracy.facts import EVALUATIONS, EVALUATIONS_FILE
from scalecurve_api.record.rank import RankRecord, WindowKind
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_worker.steps.schedule import LEAD_STEPS
from tests.worker.features.tensorflow.tensorflow_ranks import (
    SCRIPTS,
    checks,
    judged,
    needs_tensorflow,
    rows_of,
    run_ranks,
    tf_trial,
)

pytestmark = [pytest.mark.processes, pytest.mark.timeout(900), needs_tensorflow]

MUST = ("RecordsMissing", "WrongWorldSize", "WrongBackend", "WrongStrategy", "ReplicasDiverged", "WrongSamples",
        "NonFiniteLoss", "SameSoftware")  # fmt: skip
STEPS = 2 + 4 * (LEAD_STEPS + 3) + 3 * 3
FAULTY = (str(SCRIPTS / "faulty.py"),)


LEARNING = {
    "data": {"source": "digits"},
    "optimizer": {"learningRate": 0.01, "scaleWithWorkers": True, "warmupEpochs": 1.0, "decay": "cosine"},
}


def assert_learnt(out: Path, record: RankRecord, epochs: int) -> None:
    """Evaluations after each of so many epochs, in the record and beside it."""
    rows = EVALUATIONS.of(record)
    assert [row.epoch for row in rows] == [*range(1, epochs + 1)]
    assert rows[-1].step == epochs * (1438 // 8)
    assert rows[-1].accuracy > 0.8
    fitted = [row.train_accuracy or 0.0 for row in rows]
    assert 0 < fitted[0] <= fitted[-1] <= 1
    assert epochs == 1 or fitted[0] < fitted[-1]
    walls = [row.wall_s for row in rows]
    assert walls == sorted(walls)
    assert walls[0] > 0
    beside = [json.loads(line)["accuracy"] for line in (out / EVALUATIONS_FILE).read_text().splitlines()]
    assert beside == [row.accuracy for row in rows]


def pictures(path: Path) -> dict[str, object]:
    """An image folder of two classes, and how a trial asks for it."""
    for split in ("train", "val"):
        for name, level in (("dark", 20), ("light", 230)):
            (path / split / name).mkdir(parents=True)
            for index in range(6):
                Image.new("L", (12 + index, 10), level).save(path / split / name / f"{index}.png")
    return {"source": "image-folder", "path": str(path), "shape": [1, 8, 8]}


def run_cases(out: Path, cases: dict[str, tuple[str, TrialSpec]]) -> dict[str, str]:
    """Trials that one process runs in turn; what was refused, by case."""
    given = json.dumps({name: (fault, trial.wire()) for name, (fault, trial) in cases.items()})
    run_ranks(out, tf_trial(1, "one-device"), (str(SCRIPTS / "one_process.py"),), CASES=given)
    said: dict[str, str] = json.loads((out / "said.json").read_text())
    return said


def test_replicas_of_one_process(tmp_path: Path) -> None:
    """Every way to sum; then faults, each of which must come out by its name."""
    ways = {
        "default": ("CollectiveAllReduce", "ring"),
        "hierarchical-copy": ("HierarchicalCopyAllReduce", "hierarchical-copy"),
        "reduction-to-one-device": ("ReductionToOneDevice", "reduction-to-one-device"),
    }
    faults = {
        "no-sum": "ReplicasDiverged",
        "other-ops": "WrongBackend",
        "nan": "NonFiniteLoss",
        "one-replica": "WrongWorldSize",
        "half-batch": "WrongSamples",
        "frozen": "NotTrained",
        "plain-strategy": "WrongStrategy",
    }
    refused = {
        "nccl": ({"crossDeviceOps": "nccl", "device": "auto"}, "workload.crossDeviceOps: nccl needs GPUs, but these"),
        "gpu": ({"device": "gpu"}, "workload.device: gpu requested, but TensorFlow here"),
        "model": ({"model": "gpt2_tiny"}, "workload.model: program tensorflow has no model 'gpt2_tiny'"),
        "shape": ({"model": "vgg16"}, "workload.model: model vgg16: images of 8x8: need at least 32x32"),
    }
    quick = {"exposedCommunication": False}
    cases = {way: ("none", tf_trial(2, "mirrored", crossDeviceOps=way)) for way in ways}
    for fault in faults:
        cases[fault] = (fault, tf_trial(2, "mirrored", measure=quick, crossDeviceOps="hierarchical-copy"))
    for name, (workload, _) in refused.items():
        cases[name] = ("none", tf_trial(2, "mirrored", **workload))
    cases["learnt"] = (
        "none",
        tf_trial(2, "mirrored", {**quick, "accuracy": {"epochs": 2}}, **LEARNING),
    )
    cases["decay"] = ("none", tf_trial(2, "mirrored", optimizer={"name": "adamw", "weightDecay": 0.01}))
    said = run_cases(tmp_path, cases)

    for way, (kind, backend) in ways.items():
        found, verdict = judged(tmp_path / way, cases[way][1])
        assert [name for name in MUST if not checks(verdict)[name]] == [], way
        first, second = found
        assert [record.topology.rank for record in found] == [0, 1]
        assert first.topology.pid == second.topology.pid
        assert first.options["replicasPerProcess"] == 2
        assert (first.world, first.backend, first.strategy) == (2, backend, "MirroredStrategy")
        assert first.options["crossDeviceOps"] == kind
        assert [window.kind for window in first.windows] == [WindowKind.train, WindowKind.no_communication] * 2
        assert first.windows == second.windows
        assert [window.samples for window in first.windows] == [12] * 4
        assert rows_of(tmp_path / way, 0) == rows_of(tmp_path / way, 1) == STEPS
    # Windows without the sum leave no trace: with them or not, training comes to the same parameters.
    assert len({judged(tmp_path / way, cases[way][1])[0][0].parameter_checksum for way in ways}) == 1
    for fault, reason in faults.items():
        _, verdict = judged(tmp_path / fault, cases[fault][1])
        assert checks(verdict)[reason] is False, (fault, verdict)
    learnt, verdict = judged(tmp_path / "learnt", cases["learnt"][1])
    assert verdict.reason is None, verdict
    assert_learnt(tmp_path / "learnt", learnt[0], 2)
    for name, (_, message) in refused.items():
        assert said.pop(name).startswith(message)
    assert said == {}


def test_one_replica_without_any_sum(tmp_path: Path) -> None:
    trials = {
        "plain": ("none", tf_trial(1, "one-device", options={"deterministic": True})),
        "norm": ("none", tf_trial(1, "one-device", model="resnet20", data={"shape": [3, 8, 8], "classes": 4})),
        "bf16": ("none", tf_trial(1, "one-device", precision="bf16")),
        "digits": ("none", tf_trial(1, "one-device", data={"source": "digits"})),
        "folder": (
            "none",
            tf_trial(1, "one-device", {"accuracy": {"epochs": 1}}, data=pictures(tmp_path / "pictures")),
        ),
    }
    assert run_cases(tmp_path, trials) == {}
    for name, (_, trial) in trials.items():
        (record,), verdict = judged(tmp_path / name, trial)
        assert verdict.reason is None, verdict
        assert (record.world, record.backend, record.strategy) == (1, None, "OneDeviceStrategy")
        assert [window.kind for window in record.windows] == [WindowKind.train] * 2
        assert record.initial_checksum not in (None, record.parameter_checksum)
        assert len(EVALUATIONS.of(record)) == (1 if name == "folder" else 0)
    (digits,), _ = judged(tmp_path / "digits", trials["digits"][1])
    assert (digits.options["datasetSamples"], digits.parameters) == (1438, 64 * 512 + 512 + 512 * 512 + 512 + 5130)


def test_two_processes_train_one_model(tmp_path: Path) -> None:
    measure = {"accuracy": {"epochs": 9, "target": 0.5, "stopAtTarget": True}}
    trial = tf_trial(2, "multi-worker-mirrored", measure, communication="ring", **LEARNING)
    run_ranks(tmp_path, trial)
    found, verdict = judged(tmp_path, trial)
    assert [name for name in MUST if not checks(verdict)[name]] == []
    first, second = found
    for record in found:
        assert [window.kind for window in record.windows] == [WindowKind.train, WindowKind.no_communication] * 2
        assert [window.samples for window in record.windows] == [12] * 4
        assert (record.world, record.backend, record.exposed_method) == (2, "ring", "no-all-reduce")
        assert record.strategy == "CollectiveAllReduceStrategy"
        assert record.options["crossDeviceOps"] == "CollectiveAllReduce"
        assert record.options["communication"] == "RING"
        assert record.parameters == 64 * 512 + 512 + 512 * 512 + 512 + 512 * 10 + 10
        assert {"tensorflow", "keras"} < set(record.versions)
    assert first.parameter_checksum == second.parameter_checksum is not None
    assert first.topology.pid != second.topology.pid
    assert rows_of(tmp_path, 1) == STEPS
    # The target is met by then.
    assert_learnt(tmp_path, first, 1)
    assert not EVALUATIONS.of(second)


@pytest.mark.parametrize(("fault", "reason"), [("own-world", "WrongWorldSize"), ("no-sum", "ReplicasDiverged")])
def test_processes_that_do_not_train_together_are_seen(tmp_path: Path, fault: str, reason: str) -> None:
    trial = tf_trial(2, "multi-worker-mirrored", measure={"exposedCommunication": False})
    run_ranks(tmp_path, trial, FAULTY, FAULT=fault)
    _, verdict = judged(tmp_path, trial)
    assert checks(verdict)[reason] is False


def test_four_processes_train_one_model(tmp_path: Path) -> None:
    """More than this machine may have cores: for function alone."""
    trial = tf_trial(4, "multi-worker-mirrored", measure={"exposedCommunication": False})
    run_ranks(tmp_path, trial)
    found, verdict = judged(tmp_path, trial)
    assert [name for name in MUST if not checks(verdict)[name]] == []
    assert len({record.topology.pid for record in found}) == 4


def test_servers_hold_the_parameters(tmp_path: Path) -> None:
    """A chief, two servers, two workers: all of them end by themselves."""
    trial = tf_trial(2, "parameter-server", parameterServer={"servers": 2})
    run_ranks(tmp_path, trial)
    found, verdict = judged(tmp_path, trial)
    assert [name for name in MUST if checks(verdict)[name] is False] == []
    assert checks(verdict)["ReplicasDiverged"] is None
    first, second = found
    assert (first.world, first.backend, first.strategy) == (2, "grpc", "ParameterServerStrategyV2")
    assert first.topology.pid != second.topology.pid
    assert first.options["chiefPid"] not in (first.topology.pid, second.topology.pid)
    assert first.options["variablesByServer"] == {"0": 3, "1": 3}
    # Every update of both workers has its staleness.
    assert sum(first.options["staleness"].values()) == 2 * (2 + 2 * 3)
    assert [window.samples for window in second.windows] == [12] * 2
    assert rows_of(tmp_path, 0) == rows_of(tmp_path, 1) == 2 + 2 * 3


def test_a_loss_that_is_no_number_is_seen_by_the_chief(tmp_path: Path) -> None:
    trial = tf_trial(1, "parameter-server")
    run_ranks(tmp_path, trial, FAULTY, FAULT="nan")
    _, verdict = judged(tmp_path, trial)
    assert checks(verdict)["NonFiniteLoss"] is False


def test_workers_and_servers_end_with_their_chief(tmp_path: Path) -> None:
    said = run_ranks(tmp_path, tf_trial(1, "parameter-server"), FAULTY, fails=True, FAULT="chief-fails")
    worker, chief, server = said
    assert "the chief cannot go on" in chief
    assert "connection closed" in worker
    assert "connection closed" in server
