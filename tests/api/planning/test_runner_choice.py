"""``runner: auto``: what may carry an experiment, and what is taken of it."""

from itertools import combinations
from typing import Any

import pytest

from scalecurve_api.planning.plan import make_plan
from scalecurve_api.planning.runner_choice import RunnerChoice, choices, choose, misfits
from scalecurve_api.spec.experiment import ScalingExperiment
from scalecurve_api.spec.job_kinds import Runner
from tests.api.example_experiments import experiment

SEVERAL = {"placement/workersPerNode": 1}
MPI: dict[str, Any] = {**SEVERAL, "workload": {"program": "horovod"}}
SERVED: dict[str, Any] = {
    **SEVERAL,
    "workload": {"program": "tensorflow", "strategy": "parameter-server"},
    "scaling/workers": [2],
}
TENSORFLOW: dict[str, Any] = {**SEVERAL, "workload": {"program": "tensorflow"}}


def options_of(changes: dict[str, Any]) -> tuple[RunnerChoice, ...]:
    return choices(make_plan(experiment(changes)))


def taken(changes: dict[str, Any]) -> list[str]:
    return [option.runner.value for option in options_of(changes)]


@pytest.mark.parametrize(
    ("changes", "order"),
    [
        ({}, ["Job"]),
        ({"placement/podsPerNode": 2, "scaling/workers": [2]}, ["JobSet", "TrainJob", "PyTorchJob", "Job"]),
        (SEVERAL, ["JobSet", "TrainJob", "PyTorchJob", "Job"]),
        (TENSORFLOW, ["JobSet", "TrainJob", "TFJob", "Job"]),
        (MPI, ["JobSet", "MPIJob"]),
        (SERVED, ["JobSet", "TFJob"]),
        ({**SEVERAL, "queue": "team"}, ["JobSet", "Job"]),
        ({**SERVED, "queue": "team"}, ["JobSet", "TFJob"]),
        ({**MPI, "queue": "team"}, ["JobSet", "MPIJob"]),
        ({"trainingRuntime": {"name": "ib"}}, ["TrainJob"]),
        ({**SEVERAL, "runner": "MPIJob"}, ["MPIJob"]),
        ({**SEVERAL, "runner": "auto"}, ["JobSet", "TrainJob", "PyTorchJob", "Job"]),
    ],
)
def test_the_order_follows_from_what_the_program_needs(changes: dict[str, Any], order: list[str]) -> None:
    assert taken(changes) == order


@pytest.mark.parametrize("changes", [{}, SEVERAL, TENSORFLOW, MPI, SERVED])
def test_whatever_is_installed_what_is_taken_can_carry_the_program(changes: dict[str, Any]) -> None:
    spec = experiment(changes).spec
    options = options_of(changes)
    for count in range(len(Runner) + 1):
        for installed in combinations(Runner, count):
            choice = choose(options, installed)
            fits = [runner for runner in installed if runner in {option.runner for option in options}]
            assert (choice is None) == (not fits)
            if choice is not None:
                assert choice.runner in installed
                assert not list(misfits(spec.workload, choice.runner.job_kind))


def test_the_reason_names_what_would_have_been_better() -> None:
    choice = choose(options_of(MPI), {Runner.mpi_job, Runner.job})
    assert choice is not None
    assert choice.reason == "starts ranks with mpirun; not installed: JobSet"


def test_auto_is_what_is_written_down_as_nothing() -> None:
    """So an experiment has one digest, whether it says so or not."""
    named, unnamed = experiment({"runner": "auto"}), experiment()
    assert named == unnamed
    assert "runner" not in named.spec.wire()
    assert ScalingExperiment.model_validate(named.wire()) == named
