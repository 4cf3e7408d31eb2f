"""From one measured worker and links to a step, by hand."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from scalecurve.bundle.open import Bundle, open_bundle
from scalecurve.hardware.devices import devices
from scalecurve_api.record.step_program import StepProgram
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_models.collectives.costs import LinkCost
from scalecurve_models.fitting.least_squares import FitError
from scalecurve_models.projection import projection
from scalecurve_models.projection.links import WorkerLinks
from scalecurve_models.projection.projection import Projection, project
from scalecurve_models.projection.worker import balance_of
from tests.analysis.synthetic import Truth, experiment, write_bundle
from tests.models.projection.programs import program

GB = 10**9
FABRIC = WorkerLinks({}, LinkCost(0.0, 1 / 100e9), LinkCost(0.0, 1 / 1e9))
ALONE = program([(3, []), (1, []), (0, [])], [], ranks=1)


def on_gpu(record: TrialRecord) -> TrialRecord:
    topology = [each.model_copy(update={"device": f"GPU-{each.rank}"}) for each in record.topology]
    assert record.summary is not None
    summary = record.summary.model_copy(update={"peak_memory_bytes": 15})
    return record.model_copy(update={"topology": topology, "summary": summary})


@pytest.fixture
def measured(tmp_path: Path) -> Callable[..., Bundle]:
    """A bundle of one worker whose steps take 100 ms, exactly."""

    def make(change: Callable[[TrialRecord], TrialRecord] = on_gpu, name: str = "alone", **spec: Any) -> Bundle:
        exact = Truth(
            step_s=lambda point: 0.1, step_cv=0, repetition_cv=0, autocorrelation=0, device_name="Unheard-of 1"
        )
        of = experiment(name, modes=["weak"], workers=[1], repetitions=2, **spec)
        return open_bundle(write_bundle(tmp_path / name, of, exact, change=change))

    return make


@pytest.fixture(autouse=True)
def recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every step has 4 units of work; several workers all-reduce 1 GB after the first three, read before the last."""

    def record_steps(trials: Sequence[TrialSpec]) -> list[StepProgram | str]:
        return [
            ALONE
            if trial.point.workers == 1
            else program([(3, []), (1, []), (0, [0])], [(GB, 0)], trial.point.workers, trial.point.nodes)
            for trial in trials
        ]

    monkeypatch.setattr(projection, "record_steps", record_steps)


def one(measured: Bundle, links: WorkerLinks = FABRIC, **spec: Any) -> Projection:
    of = experiment("predicted", modes=["weak"], workers=[8], **spec)
    (found,) = project(of, (), [measured], links)
    return found


def test_what_outlasts_the_work_adds_to_the_measured_step(measured: Callable[..., Bundle]):
    found = one(measured(), placement={"workersPerNode": 1})
    exchanged = 2 * 7 / 8  # of 1 GB at 1 GB/s, from 75 ms on
    assert found.replayed is not None
    assert found.efficiency is not None
    assert found.replayed.step_s == pytest.approx(0.075 + exchanged)
    assert found.throughput == pytest.approx(8 * 64 / (0.075 + exchanged))
    assert found.efficiency == pytest.approx(0.1 / (0.075 + exchanged))
    assert found.memory_bytes == 15  # 10 recorded at both counts, and 5 that one worker took beside them


def test_more_than_perfect_weak_scaling_is_refused(
    measured: Callable[..., Bundle], monkeypatch: pytest.MonkeyPatch
) -> None:
    """FSDP's workers update a shard each; projected at 110.6 %, four H100s took 44 % longer a step than that."""

    def record_steps(trials: Sequence[TrialSpec]) -> list[StepProgram | str]:
        of_shard = program([(3, []), (0.5, []), (0, [0])], [(GB, 0)], 8)
        return [ALONE if trial.point.workers == 1 else of_shard for trial in trials]

    monkeypatch.setattr(projection, "record_steps", record_steps)
    found = one(measured(), placement={"workersPerNode": 8})
    assert found.refused.startswith("weak scaling at 108.1 %: a worker that updates a shard")
    assert (found.throughput, found.efficiency, found.replayed) == (None, None, None)


def test_the_placement_changes_the_link(measured: Callable[..., Bundle]):
    found = one(measured(), placement={"workersPerNode": 8})
    assert found.replayed is not None
    assert found.replayed.exchange_s == pytest.approx(2 * 7 / 8 / 100)
    assert found.replayed.step_s == pytest.approx(0.1)  # hidden: 17.5 ms of the last 25


def test_nodes_without_a_link_are_refused(measured: Callable[..., Bundle]):
    found = one(measured(), WorkerLinks({}, FABRIC.within), placement={"workersPerNode": 4})
    assert "--node-link" in found.refused
    assert found.replayed is None


def test_more_workers_on_a_node_than_measured_need_its_size(measured: Callable[..., Bundle]):
    assert "placement.workersPerNode" in one(measured()).refused


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"workload": {"model": "resnet34"}}, "workload.model is 'resnet34', measured with 'resnet18'"),
        ({"workload": {"precision": "bf16"}}, "workload.precision"),
        ({"workload": {"options": {"channelsLast": True}}}, "workload.options.channelsLast"),
    ],
)
def test_another_computation_is_refused_by_its_field(measured: Callable[..., Bundle], spec: dict[str, Any], says: str):
    assert says in one(measured(), placement={"workersPerNode": 8}, **spec).refused


def test_another_way_of_communicating_is_no_other_computation(measured: Callable[..., Bundle]):
    workload = {"strategy": "fsdp", "options": {"fsdpGroupMb": 10}}
    assert not one(measured(), placement={"workersPerNode": 8}, workload=workload).refused


def test_another_batch_is_refused(measured: Callable[..., Bundle]):
    scaling = {"modes": ["weak"], "workers": [8], "batch": {"perWorker": 32}}
    assert "batch 32 per worker" in one(measured(), placement={"workersPerNode": 8}, scaling=scaling).refused


def test_a_batch_between_measured_ones_is_interpolated(measured: Callable[..., Bundle]):
    scaling = {"modes": ["weak"], "workers": [1], "batch": {"perWorker": 16}}
    bundles = [measured(), measured(name="less", scaling=scaling)]
    scaling = {"modes": ["weak"], "workers": [8], "batch": {"perWorker": 32}}
    of = experiment("predicted", placement={"workersPerNode": 8}, scaling=scaling)
    (found,) = project(of, (), bundles, FABRIC)
    assert found.replayed is not None
    assert found.replayed.compute_s == pytest.approx(0.1)
    assert "between those measured at 16 and 64" in found.assumptions[0]


def test_workers_on_cpus_are_refused_with_the_reason(measured: Callable[..., Bundle]):
    assert (
        "compete with computing" in one(measured(change=lambda record: record), placement={"workersPerNode": 8}).refused
    )


def test_counts_of_the_command_line_take_the_place_of_the_experiments(measured: Callable[..., Bundle]):
    of = experiment("predicted", modes=["weak"], workers=[1, 2], placement={"workersPerNode": 8})
    assert [each.trial.point.workers for each in project(of, [4, 8], [measured()], FABRIC)] == [4, 8]
    with pytest.raises(FitError, match="at least 1"):
        project(of, [0], [measured()], FABRIC)
    with pytest.raises(FitError, match="several workers"):
        project(of, [1], [measured()], FABRIC)


CARDS = {"NVIDIA H100 80GB HBM3": "H100", "NVIDIA H200": "H200", "NVIDIA H100 PCIe": "H100_PCIE", "H100": "H100"}


@pytest.mark.parametrize(("stated", "key"), CARDS.items())
def test_a_card_is_known_by_the_name_that_its_driver_reports(stated: str, key: str) -> None:
    balance = balance_of(stated, "bf16", ALONE)
    assert balance.flops == devices()[key].peak("bf16") * 1e9
    assert balance.source.endswith(f" {key}")


def test_of_an_unknown_card_flops_and_bytes_share_the_step() -> None:
    assert "half" in balance_of("Unheard-of 1", "bf16", ALONE).source
