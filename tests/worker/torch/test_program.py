"""The built-in programs, as real processes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from scalecurve_api.contract import OUT_ENV, TRIAL_ENV, failure_file, journal_file
from scalecurve_api.features.accuracy.facts import EVALUATIONS, EVALUATIONS_FILE, Evaluation
from scalecurve_api.features.collectives.facts import ALLREDUCE, COLLECTIVES
from scalecurve_api.features.collectives.kinds import Collective
from scalecurve_api.features.quantization.facts import QUANTIZATION
from scalecurve_api.record.facts.dataset import DATASET
from scalecurve_api.record.outcome import Outcome
from scalecurve_api.record.rank import RankFailure, WindowKind
from scalecurve_api.record.verdict import judge
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_worker.process.failure import WorkloadError
from scalecurve_worker.steps.schedule import LEAD_STEPS
from scalecurve_worker.torch.process_group import leave_group
from scalecurve_worker.torch.program import run
from tests.step_journal import read_rows
from tests.waiting import PATIENCE_S
from tests.worker.forked_ranks import fork_ranks, rendezvous
from tests.worker.worker_ranks import SCRIPTS, launch, make_trial, rank_environment, records, torchrun

pytestmark = pytest.mark.processes


def test_two_ranks_train_one_model(tmp_path: Path) -> None:
    trial = make_trial(
        2,
        workload={"data": {"source": "digits"}, "optimizer": {"learningRate": 0.02}, "precision": "bf16"},
        measure={"accuracy": {"epochs": 2, "quantization": {"bits": [8], "calibrationBatches": 1}}},
    )
    launch(tmp_path, torchrun(2), trial)
    first, second = records(tmp_path, 2)
    kinds = [WindowKind.train, WindowKind.no_communication] * 2
    for record in (first, second):
        assert [window.kind for window in record.windows] == kinds
        assert [window.samples for window in record.windows] == [12] * 4
        assert (record.world, record.backend, record.strategy) == (2, "gloo", "DistributedDataParallel")
        assert (record.exposed_method, record.finite_loss) == ("ddp-no-sync", True)
        assert record.topology.threads == 1
    assert first.parameter_checksum == second.parameter_checksum is not None
    assert (first.versions, first.environment) == (second.versions, second.environment)
    assert first.parameters == 64 * 512 + 512 + 512 * 512 + 512 + 512 * 10 + 10
    assert first.flops_per_sample == 2 * (64 * 512 * 2 + 512 * 512 * 3 + 512 * 10 * 3)
    assert first.options["datasetSamples"] == 1438
    rows = list(read_rows(tmp_path / journal_file(1)))
    last = max(at for at, row in enumerate(rows) if row.window >= 0)  # sections of steps are timed after it
    assert last + 1 == 2 + 4 * (LEAD_STEPS + 3) + 3 * 3, [row.window for row in rows]
    assert all(row.loss == row.loss for row in rows)
    # Rank 0 alone keeps the evaluations: 359 images of digits are held back, and every one is counted once.
    assert [row.epoch for row in EVALUATIONS.of(first)] == [1, 2]
    assert not EVALUATIONS.of(second)
    written = [json.loads(line) for line in (tmp_path / EVALUATIONS_FILE).read_text().splitlines()]
    assert [Evaluation.model_validate(row) for row in written] == EVALUATIONS.of(first)
    assert EVALUATIONS.of(first)[1].accuracy > 0.8
    fitted = [row.train_accuracy or 0.0 for row in EVALUATIONS.of(first)]
    assert 0 < fitted[0] < fitted[1] < 1
    # Full batches of both workers: 179 x 8 of the 1438 images of an epoch.
    assert all((accuracy * 1432).is_integer() or abs(accuracy * 1432 % 1 - 0.5) > 0.49 for accuracy in fitted)
    assert EVALUATIONS.of(first)[1].wall_s > EVALUATIONS.of(first)[0].wall_s > 0
    # So is what was trained looked at: in float32, on every image, where the evaluations were in bfloat16.
    assert QUANTIZATION.of(second) is None
    quantized = QUANTIZATION.of(first)
    assert quantized is not None
    assert quantized.float_accuracy == pytest.approx(EVALUATIONS.of(first)[1].accuracy, abs=0.05)
    assert {row.stage for row in quantized.rows} >= {"weights", "activations", "biases"}


def test_windows_without_communication_leave_no_trace(tmp_path: Path) -> None:
    fork_ranks(tmp_path, 2, SCRIPTS / "no_sync.py", **rendezvous())


def test_plain_processes_find_each_other(tmp_path: Path) -> None:
    trial = make_trial(2, measure={"exposedCommunication": False})
    started = []
    for rank in range(2):
        world = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
        variables = rank_environment(tmp_path, trial, **world)
        started.append(subprocess.Popen([sys.executable, "-m", "scalecurve_worker"], env=variables))
    assert [process.wait(timeout=PATIENCE_S) for process in started] == [0, 0]
    assert len({record.parameter_checksum for record in records(tmp_path, 2)}) == 1


def test_wrong_scripts_are_seen(tmp_path: Path) -> None:
    faults = ("none", "no-wrapper", "nan", "own-world")
    environment = {"FAULTS": " ".join(faults), **rendezvous()}
    fork_ranks(tmp_path, 2, SCRIPTS / "ddp.py", trial=make_trial(2), **environment)
    found = {fault: records(tmp_path / fault, 2) for fault in faults}
    for fault, both in found.items():
        checksums = [record.parameter_checksum for record in both]
        assert None not in checksums
        assert (checksums[0] == checksums[1]) == (fault in ("none", "nan"))
        assert [record.world for record in both] == [1 if fault == "own-world" else 2] * 2
        assert [record.topology.rank for record in both] == [0, 1]
        assert {record.finite_loss for record in both} == {fault != "nan"}
        wrapper = None if fault == "no-wrapper" else "DistributedDataParallel"
        assert {record.strategy for record in both} == {wrapper}
        assert {record.parameters for record in both} == {10}


def test_all_reduce_by_size(tmp_path: Path) -> None:
    sizes = {"minBytes": 8, "maxBytes": 65536, "factor": 64, "iterations": 6, "warmup": 1, "dtype": "float16"}
    trial = make_trial(2, workload={"program": "allreduce", "sizes": sizes})
    fork_ranks(tmp_path, 2, SCRIPTS / "built_in.py", trial=trial)
    first, second = records(tmp_path, 2)
    assert ALLREDUCE.of(first) == ALLREDUCE.of(second)
    assert [(row.bytes, row.in_place, row.iterations, row.errors) for row in ALLREDUCE.of(first)] == [
        (8, True, 6, 0),
        (512, True, 6, 0),
        (32768, True, 6, 0),
    ]
    for row in ALLREDUCE.of(first):
        assert row.algbw == pytest.approx(row.bytes / row.time_us_median / 1e3)
        assert row.busbw == row.algbw
        assert row.time_us_min <= row.time_us_median <= row.time_us_p95
    assert [(window.index, window.steps, window.samples) for window in first.windows] == [(i, 6, 0) for i in range(3)]
    assert (first.backend, len(list(read_rows(tmp_path / journal_file(0))))) == ("gloo", 18)


def test_every_collective_by_size(tmp_path: Path) -> None:
    sizes = {"minBytes": 4, "maxBytes": 4096, "factor": 1024, "iterations": 3, "warmup": 1, "dtype": "bfloat16"}
    trial = make_trial(3, workload={"program": "collectives", "sizes": sizes})
    fork_ranks(tmp_path, 3, SCRIPTS / "built_in.py", trial=trial)
    ranks = records(tmp_path, 3)
    rows = COLLECTIVES.of(ranks[0])
    assert [COLLECTIVES.of(record) for record in ranks] == [rows] * 3
    # Whole elements, and as many of them for each rank where every rank has a share.
    least = {kind: 6 if kind.shared_out else 4 for kind in Collective}
    assert [(row.collective, row.bytes) for row in rows] == [
        (kind, size) for kind in Collective for size in (least[kind], 4096 // least[kind] * least[kind])
    ]
    for row in rows:
        assert (row.errors, row.iterations, row.in_place) == (0, 3, row.collective.in_place)
        assert row.busbw == pytest.approx(row.algbw * row.collective.bus_factor(3))
    assert [record.transport and record.transport.library for record in ranks] == ["gloo"] * 3
    verdict = judge(trial, dict(enumerate(ranks)), Outcome(engine="tests", attempt=1))
    assert {check.name: check.passed for check in verdict.checks}["WrongTransport"] is True
    assert "RecordsMissing" not in {check.name for check in verdict.checks if check.passed is False}


@pytest.mark.parametrize(
    ("workload", "message"),
    [
        (
            {"program": "custom", "command": ["x"]},
            "workload.program: custom runs a command, not a function",
        ),
        (
            {"options": {"staticGraph": True, "compile": True}},
            "workload.options.staticGraph: cannot be combined with compile; set one of them to false",
        ),
        ({"data": {"shape": [3, 9000, 9000], "classes": 3}}, None),
    ],
)
def test_what_cannot_run_says_why(tmp_path: Path, workload: dict[str, object], message: str | None) -> None:
    trial = make_trial(workload=workload)
    if message is None:
        trial = trial.model_copy(update={"point": trial.point.model_copy(update={"batch_per_worker": 10**6})})
    if workload.get("program") == "custom":
        # Refused before torch is loaded, which makes a real start cheap.
        printed = launch(tmp_path, [sys.executable, "-m", "scalecurve_worker"], trial, fails=True).stderr
    else:
        printed = fork_ranks(tmp_path, 1, SCRIPTS / "built_in.py", trial=trial, fails=True)
    failure = RankFailure.model_validate_json((tmp_path / failure_file(0)).read_text())
    if message is None:
        assert failure.reason == "OutOfMemory"
        assert "allocate memory" in failure.message
    else:
        assert (failure.reason, failure.message) == ("BadWorkload", message)
        assert printed == f"scalecurve: rank 0: {message}\n"
    assert "\n" not in failure.message


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """One rank in this process, with one thread: two that share busy cores wait for one another."""
    monkeypatch.setenv(OUT_ENV, str(tmp_path))
    threads, benchmark = torch.get_num_threads(), torch.backends.cudnn.benchmark
    torch.set_num_threads(1)
    yield tmp_path
    torch.set_num_threads(threads)
    torch.backends.cudnn.benchmark = benchmark
    leave_group()


def run_alone(trial: TrialSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TRIAL_ENV, json.dumps(trial.wire()))
    run(trial)


def test_one_worker_is_compared_with_the_bare_model(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"gradientAccumulation": 2, "channelsLast": True, "bucketCapMb": 1.5}
    data = {"shape": [3, 8, 8], "classes": 5}
    run_alone(make_trial(workload={"model": "resnet20", "data": data, "options": options}), monkeypatch)
    (record,) = records(alone, 1)
    assert [window.kind.value for window in record.windows] == ["train", "plain"] * 2
    assert (record.exposed_method, record.strategy, record.backend) == (None, "DistributedDataParallel", "gloo")
    assert record.peak_memory_bytes is not None
    assert record.options["gradientAccumulation"] == 2
    assert record.options["bucketCapMb"] == 1.5


def test_single_has_no_wrapper_and_no_group(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workload = {"strategy": "single", "model": "gpt2_tiny", "data": {}, "optimizer": {"name": "adamw"}}
    run_alone(make_trial(workload=workload), monkeypatch)
    (record,) = records(alone, 1)
    assert [window.kind.value for window in record.windows] == ["train"] * 2
    assert (record.strategy, record.backend) == (None, None)
    assert (record.sample_unit, record.windows[0].samples) == ("tokens", 3 * 4 * 64)


def test_a_loss_that_explodes_is_not_finite(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workload = {"strategy": "single", "optimizer": {"learningRate": 1000.0}}
    run_alone(make_trial(workload=workload, measure={"windows": 5, "stepsPerWindow": 20}), monkeypatch)
    assert records(alone, 1)[0].finite_loss is False


@pytest.mark.parametrize(
    ("workload", "measure", "said"),
    [
        ({"strategy": "single", "model": "resnet51"}, {}, "workload.model: program torch has no model 'resnet51'"),
        ({"strategy": "single", "data": {"source": "cifar10"}}, {}, "workload.data: cifar10: path"),
        ({"strategy": "single", "precision": "tf32"}, {}, "workload.precision: tf32 needs a GPU"),
        (
            {"strategy": "single", "options": {"gradientAccumulation": 3}},
            {},
            "does not divide the batch of a worker, 4",
        ),
        ({"strategy": "single"}, {"accuracy": {"epochs": 1}}, "needs real data"),
        ({"backend": "nccl"}, {}, "workload.backend: nccl needs a GPU, but this rank drives a CPU"),
    ],
)
def test_what_this_release_cannot_do(
    alone: Path, monkeypatch: pytest.MonkeyPatch, workload: dict[str, object], measure: dict[str, object], said: str
) -> None:
    with pytest.raises(WorkloadError, match=said):
        run_alone(make_trial(workload=workload, measure=measure), monkeypatch)


def test_copies_of_a_sample_count_once(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for instances in (1, 3):
        data = {"shape": [3, 8, 8], "classes": 5, "cutout": 4, "augmentation": "standard", "instances": instances}
        trial = make_trial(workload={"strategy": "single", "model": "resnet20", "data": data})
        run_alone(trial, monkeypatch)
        (record,) = records(alone, 1)
        found.append(record)
        checks = {check.name: check.passed for check in judge(trial, {0: record}, Outcome(engine="local")).checks}
        assert checks["WrongSamples"] is True
        assert [window.samples for window in record.windows] == [3 * 4] * 2
    once, thrice = found
    assert "instances" not in once.options
    assert (thrice.options["instances"], thrice.options["imagesPerWorker"]) == (3, 12)
    assert thrice.flops_per_sample == 3 * (once.flops_per_sample or 0)


def test_too_many_copies_for_the_memory_are_named(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = {"source": "digits", "shape": [1, 1 << 18, 1 << 18], "instances": 1024}
    with pytest.raises(MemoryError, match=r"^workload\.data\.instances: 1024 of each of 4 samples are 4096 images"):
        run_alone(make_trial(workload={"strategy": "single", "model": "resnet20", "data": data}), monkeypatch)


def test_a_training_to_accuracy_shows_its_data(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With copies, cutout, smoothed labels and norms that do not decay, all at once."""
    workload = {
        "strategy": "single",
        "data": {"source": "digits", "instances": 2, "cutout": 3},
        "options": {"labelSmoothing": 0.5},
        "optimizer": {"weightDecay": 0.001, "decayNorm": False},
    }
    trial = make_trial(workload=workload, measure={"accuracy": {"epochs": 1}})
    trial = trial.model_copy(update={"point": trial.point.model_copy(update={"batch_per_worker": 32})})
    run_alone(trial, monkeypatch)
    (record,) = records(alone, 1)
    data = DATASET.of(record)
    assert data is not None
    assert (data.train, data.val, len(data.pictures)) == (1438, 359, 8)
    (row,) = EVALUATIONS.of(record)
    assert row.accuracy > 0.5
    # 0.55 for the label and 0.05 for each of the others: the entropy of that is the least loss, 1.677 nats.
    assert row.train_loss > 1.677 > row.loss
