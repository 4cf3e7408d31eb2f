"""Strategy horovod by real ranks of mpirun, and faults that its checks must see."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean

import pytest

from scalecurve_api.contract import failure_file
from scalecurve_api.features.accuracy.facts import EVALUATIONS
from scalecurve_api.features.horovod.fields import VERSION
from scalecurve_api.features.horovod.strategy import TAPE
from scalecurve_api.record.rank import RankFailure, RankRecord, WindowKind
from scalecurve_api.record.verdict import Verdict
from scalecurve_api.spec.trial import TrialSpec
from tests.worker.features.horovod.horovod_ranks import mpirun, reason
from tests.worker.features.tensorflow.tensorflow_ranks import (
    SCRIPTS,
    checks,
    judged,
    needs_tensorflow,
    run_ranks,
    tf_trial,
)
from tests.worker.worker_ranks import launch

pytestmark = [pytest.mark.processes, pytest.mark.timeout(900), needs_tensorflow]
built = pytest.mark.skipif(bool(reason("tensorflow")), reason=reason("tensorflow") or "-")

SHARED = ("Oversubscribed", "WrongPlacement", "NoisyNeighbor")
"""Checks that ranks on the cores of a busy machine may break."""


def assert_one_model(out: Path, trial: TrialSpec) -> list[RankRecord]:
    """Records that pass every check, but for the cores that ranks share."""
    found, verdict = judged(out, trial)
    assert broken(verdict) == []
    workers = trial.point.workers
    for record in found:
        assert (record.world, record.strategy, record.backend) == (workers, TAPE, "mpi")
        assert {"tensorflow", "keras"} < set(record.versions)
        assert record.versions["horovod"] == VERSION
        assert [window.samples for window in record.windows if window.kind is WindowKind.train] == [12] * 2
    assert len({record.topology.pid for record in found}) == workers
    assert len({record.parameter_checksum for record in found}) == 1
    # Each rank has images of its own.
    assert len({record.last_loss for record in found}) == workers
    return found


def broken(verdict: Verdict) -> list[str]:
    return [check.name for check in verdict.checks if check.passed is False and check.name not in SHARED]


@built
@pytest.mark.parametrize("workers", [1, 4])
def test_ranks_train_one_model(tmp_path: Path, workers: int) -> None:
    """Four workers are more than the cores of a small machine: for function only."""
    trial = tf_trial(workers, "horovod", {"exposedCommunication": False}, optimizer={"weightDecay": 0.01})
    mpirun(tmp_path, workers, "-m", "scalecurve_worker", trial=trial)
    assert_one_model(tmp_path, trial)


@built
def test_two_ranks_and_faults_that_must_be_seen(tmp_path: Path) -> None:
    """The first fault is what Horovod's optimizer for Keras does under Keras 3: it would report perfect scaling."""
    faults = {
        "keras-optimizer": "ReplicasDiverged",
        "other-sum-on-rank-1": "ReplicasDiverged",
        "bare-tape": "WrongStrategy",
    }
    quick = {"exposedCommunication": False}
    plain = tf_trial(2, "horovod")
    learnt = tf_trial(
        2,
        "horovod",
        {**quick, "accuracy": {"epochs": 1}},
        data={"source": "digits"},
        optimizer={"learningRate": 0.02},
        options={"commHook": "fp16", "bucketCapMb": 1.0},
    )
    cases = {"plain": ("none", plain), "learnt": ("none", learnt)}
    cases |= {fault: (fault, tf_trial(2, "horovod", quick)) for fault in faults}
    # Two ranks, and four are asked for.
    cases["fewer-ranks"] = ("none", tf_trial(4, "horovod", quick))
    cases["nccl"] = ("none", tf_trial(2, "horovod", quick, backend="nccl"))
    given = json.dumps({name: (fault, trial.wire()) for name, (fault, trial) in cases.items()})
    mpirun(tmp_path, 2, str(SCRIPTS / "one_process.py"), CASES=given)

    ours = assert_one_model(tmp_path / "plain", plain)
    assert [window.kind for window in ours[0].windows] == [WindowKind.train, WindowKind.no_communication] * 2
    # The same training as with TensorFlow's own sum of two replicas, but not to the last bit: kernels with two threads
    # may add in another order than with one, depending on the CPU. A wrong sum on one rank makes the loss 4 times that.
    mirrored = tf_trial(2, "mirrored")
    run_ranks(tmp_path / "mirrored", mirrored)
    theirs, _ = judged(tmp_path / "mirrored", mirrored)
    assert theirs[0].last_loss == pytest.approx(fmean(record.last_loss or 0 for record in ours), rel=1e-3)
    first, _ = assert_one_model(tmp_path / "learnt", learnt)
    (evaluation,) = EVALUATIONS.of(first)
    assert evaluation.step == 1438 // (4 * 2)
    assert evaluation.accuracy > 0.5
    for fault, invalid in {**faults, "fewer-ranks": "WrongWorldSize"}.items():
        _, verdict = judged(tmp_path / fault, cases[fault][1])
        assert checks(verdict)[invalid] is False, (fault, verdict)
        if fault == "keras-optimizer":
            # Nothing else tells it from a good run.
            assert broken(verdict) == [invalid]
    said = json.loads((tmp_path / "said.json").read_text())
    assert set(said) == {"nccl"}
    assert said["nccl"].startswith("workload.backend: nccl is not in this build of Horovod")


@pytest.mark.skipif(
    find_spec("mpi4py") is None, reason="mpi4py is not installed (pip install -e '.[mpi]' in the clone)"
)
def test_without_tensorflows_part_one_line_says_how_to_get_it(tmp_path: Path) -> None:
    hidden = tmp_path / "hidden" / "horovod"
    (hidden / "tensorflow").mkdir(parents=True)
    (hidden / "__init__.py").write_text("")
    (hidden / "tensorflow" / "__init__.py").write_text("raise ImportError('not built\\nIf this is not expected')\n")
    trial = tf_trial(1, "horovod")
    command = [sys.executable, "-m", "scalecurve_worker"]
    launch(tmp_path, command, trial, fails=True, PYTHONPATH=str(hidden.parent))
    failure = RankFailure.model_validate_json((tmp_path / failure_file(0)).read_text())
    assert failure.reason == "BadWorkload"
    assert failure.message.startswith("workload.strategy: Horovod does not load with tensorflow 2.")
    assert failure.message.endswith(", not built; `make horovod` builds it for what is installed")
