"""``program: horovod`` by real ranks of mpirun, and faults that its checks must see."""

from __future__ import annotations

import importlib.metadata
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from scalecurve_api.contract import failure_file
from scalecurve_api.features.accuracy.facts import EVALUATIONS
from scalecurve_api.features.horovod.fields import VERSION
from scalecurve_api.record.outcome import Outcome
from scalecurve_api.record.rank import RankFailure, RankRecord, WindowKind
from scalecurve_api.record.verdict import Verdict, judge
from tests.worker.features.horovod.horovod_ranks import mpirun, reason
from tests.worker.worker_ranks import SCRIPTS, launch, make_trial, records

# Many processes that load torch: minutes on cores that others use too.
pytestmark = [pytest.mark.processes, pytest.mark.timeout(1200)]
built = pytest.mark.skipif(bool(reason()), reason=reason() or "-")

BATCH_NORM = {"model": "resnet20", "data": {"shape": [3, 8, 8], "classes": 5}}
MLP = 8 * 512 + 512 + 512 * 512 + 512 + 512 * 3 + 3
FAULTS = {
    "adds-up-nothing": ("ReplicasDiverged", "parameters of rank 1 differ from the other ranks'"),
    "another-sum-on-one-rank": ("ReplicasDiverged", "parameters of rank 1 differ from the other ranks'"),
    "bare": ("WrongStrategy", "wrapped by none, not DistributedOptimizer"),
}


@dataclass(frozen=True)
class Case:
    """One trial: its workload, what is broken, and how long it is measured."""

    name: str
    workload: Mapping[str, Any]
    fault: str = "none"
    measure: Mapping[str, Any] | None = None


def run(out: Path, workers: int, cases: list[Case]) -> dict[str, tuple[list[RankRecord], Verdict]]:
    """Every case's records and verdict; that ranks share cores is not held against them."""
    trials = {
        case.name: make_trial(workers, workload={"program": "horovod", **case.workload}, measure=case.measure)
        for case in cases
    }
    wire = json.dumps([[case.name, case.fault, trials[case.name].wire()] for case in cases])
    mpirun(out, workers, str(SCRIPTS / "horovod_cases.py"), CASES=wire)
    found = {}
    for name, trial in trials.items():
        apart = [
            record.model_copy(
                update={"foreign_load": None, "topology": record.topology.model_copy(update={"cores": [rank]})}
            )
            for rank, record in enumerate(records(out / name, workers))
        ]
        found[name] = (apart, judge(trial, dict(enumerate(apart)), Outcome(engine="local")))
    return found


@built
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_it_trains_one_model_and_says_what_carried_the_sums(tmp_path: Path, workers: int) -> None:
    """Four workers are more than the cores of a small machine: for function only."""
    cases = [
        Case("mpi", {}),
        Case(
            "parts",
            {**BATCH_NORM, "precision": "bf16", "options": {"gradientAccumulation": 2}},
        ),
        Case("half", {"options": {"commHook": "fp16", "bucketCapMb": 1.0}, "optimizer": {"name": "adamw"}}),
        Case(
            "accuracy",
            {"data": {"source": "digits"}, "optimizer": {"learningRate": 0.02}},
            measure={
                "accuracy": {"epochs": 1, "checkpoints": str(tmp_path / "trained")},
                "exposedCommunication": False,
            },
        ),
        Case(
            "head",
            {
                **BATCH_NORM,
                "optimizer": {"name": "lamb", "weightDecay": 0.01, "decayNorm": False},
                "transfer": {"train": "head"},
            },
        ),
    ]
    found = run(tmp_path, workers, cases)
    assert {name: (verdict.reason, verdict.message) for name, (_, verdict) in found.items()} == {
        case.name: (None, "") for case in cases
    }
    for ranks, _ in found.values():
        for record in ranks:
            assert (record.world, record.strategy, record.finite_loss) == (workers, "DistributedOptimizer", True)
            assert record.backend == "mpi"
            assert record.versions["horovod"] == VERSION
        assert len({record.parameter_checksum for record in ranks}) == 1
    first = found["mpi"][0][0]
    beside = WindowKind.plain if workers == 1 else WindowKind.no_communication
    assert [window.kind for window in first.windows] == [WindowKind.train, beside] * 2
    assert first.exposed_method == (None if workers == 1 else "horovod-no-all-reduce")
    assert first.traffic is not None
    assert (first.parameters, first.traffic.payload_bytes) == (MLP, MLP * 4.0)
    half = found["half"][0][0].traffic
    assert half is not None
    assert half.payload_bytes == MLP * 2.0
    assert found["parts"][0][0].options["batchNorm"] == "local"
    (evaluation,) = EVALUATIONS.of(found["accuracy"][0][0])
    assert evaluation.accuracy > 0.5
    # Rank 0 alone writes.
    assert [file.name for file in (tmp_path / "trained").iterdir()] == [f"weak-{workers}-r1.pt"]
    head = found["head"][0][0]
    assert head.options["parametersTrained"] == 64 * 5 + 5
    assert len(head.frozen_checksums) == 2
    assert head.traffic is not None
    assert head.traffic.payload_bytes == (64 * 5 + 5) * 4.0


@built
def test_faults_are_seen(tmp_path: Path) -> None:
    """The first is what Keras 3 does under Horovod's own Keras optimizer: it reports perfect scaling."""
    found = run(tmp_path, 2, [Case(fault, {}, fault) for fault in FAULTS])
    assert {name: (verdict.reason, verdict.message.split(";")[0]) for name, (_, verdict) in found.items()} == FAULTS


@built
def test_a_library_that_is_not_built_in_is_refused(tmp_path: Path) -> None:
    trial = make_trial(workload={"program": "horovod", "backend": "nccl", "device": "cpu"})
    mpirun(tmp_path, 1, "-m", "scalecurve_worker", trial=trial, fails=True)
    failure = RankFailure.model_validate_json((tmp_path / failure_file(0)).read_text())
    assert failure.reason == "BadWorkload"
    assert "nccl" in failure.message


def test_without_a_build_one_line_says_how_to_get_one(tmp_path: Path) -> None:
    hidden = tmp_path / "hidden" / "horovod"
    hidden.mkdir(parents=True)
    (hidden / "__init__.py").write_text("raise ImportError('hidden by this test')\n")
    trial = make_trial(workload={"program": "horovod"})
    command = [sys.executable, "-m", "scalecurve_worker"]
    done = launch(tmp_path, command, trial, fails=True, PYTHONPATH=str(hidden.parent))
    said = "workload.program: Horovod is not installed here; `make horovod` builds it (hidden by this test)"
    assert done.stderr == f"scalecurve: rank 0: {said}\n"
    failure = RankFailure.model_validate_json((tmp_path / failure_file(0)).read_text())
    assert (failure.reason, failure.message) == ("BadWorkload", said)


@built
def test_the_build_is_the_one_release() -> None:
    assert importlib.metadata.version("horovod") == VERSION
