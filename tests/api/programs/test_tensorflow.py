"""What program tensorflow refuses before a device is taken, and what its strategies must turn out to be."""

from __future__ import annotations

from typing import Any

import pytest

from scalecurve_api.features.tensorflow.fields import TENSORFLOW_STRATEGIES
from scalecurve_api.programs.workload import Workload
from scalecurve_api.record.rank import RankRecord
from scalecurve_api.record.verdict import judge
from tests.api.example_experiments import problems
from tests.api.rank_records import GOOD, rank_record, trial


def tensorflow(strategy: str = "multi-worker-mirrored", **more: Any) -> dict[str, Any]:
    return {"workload": {"program": "tensorflow", "strategy": strategy, **more}}


@pytest.mark.parametrize(
    ("changes", "field", "code"),
    [
        (tensorflow(precision="fp16"), "spec.workload.precision", "Invalid"),
        (tensorflow(model="gpt2_tiny"), "spec.workload.model", "Invalid"),
        (tensorflow(model="googlenet"), "spec.workload.model", "Invalid"),
        (tensorflow("parameter-server", data={"source": "image-folder", "path": "/data"}),
         "spec.workload.data.source", "NotSupported"),
        (tensorflow(options={"compile": True}), "spec.workload.options.compile", "Forbidden"),
        (tensorflow(options={"bucketCapMb": 1.0}), "spec.workload.options.bucketCapMb", "Forbidden"),
        (tensorflow(options={"commHook": "fp16"}), "spec.workload.options.commHook", "NotSupported"),
        (tensorflow(options={"gradientAccumulation": 2}), "spec.workload.options.gradientAccumulation", "Forbidden"),
        (tensorflow(options={"batchNorm": "broadcast"}), "spec.workload.options.batchNorm", "Invalid"),
        (tensorflow(launcher="torchrun"), "spec.workload.launcher", "Invalid"),
        (tensorflow(launcher="mpirun"), "spec.workload.launcher", "NotSupported"),
        (tensorflow() | {"runner": "MPIJob"}, "spec.runner", "NotSupported"),
        (tensorflow("parameter-server") | {"runner": "Job"}, "spec.runner", "NotSupported"),
        (tensorflow("mirrored") | {"placement/podsPerNode": 2, "scaling/workers": [2, 4]},
         "spec.placement.podsPerNode", "NotSupported"),
        (tensorflow("parameter-server", parameterServer={"updates": "synchronous"}),
         "spec.workload.parameterServer.updates", "Forbidden"),
        (tensorflow("parameter-server", backend="nccl"), "spec.workload.backend", "NotSupported"),
        (tensorflow(communication="ring", backend="nccl"), "spec.workload.backend", "NotSupported"),
        (tensorflow("mirrored", backend="mpi"), "spec.workload.backend", "NotSupported"),
        (tensorflow("horovod", backend="gloo"), "spec.workload.backend", "Invalid"),
        (tensorflow("horovod", backend="nccl", device="cpu"), "spec.workload.backend", "NotSupported"),
        (tensorflow("horovod", launcher="processes"), "spec.workload.launcher", "NotSupported"),
        (tensorflow("horovod", launcher="torchrun"), "spec.workload.launcher", "Invalid"),
        (tensorflow("horovod") | {"runner": "TFJob"}, "spec.runner", "NotSupported"),
        (tensorflow("horovod", allReduce="ring"), "spec.workload.allReduce", "Forbidden"),
        (tensorflow("horovod", crossDeviceOps="nccl"), "spec.workload.crossDeviceOps", "Forbidden"),
        (tensorflow("horovod", communication="ring"), "spec.workload.communication", "Forbidden"),
        (tensorflow("horovod", precision="fp16"), "spec.workload.precision", "Invalid"),
        (tensorflow("horovod", options={"commHook": "powersgd"}), "spec.workload.options.commHook", "Invalid"),
        (tensorflow("horovod", options={"gradientAccumulation": 2}),
         "spec.workload.options.gradientAccumulation", "Forbidden"),
        ({"workload": {"program": "torch", "strategy": "horovod"}}, "spec.workload.strategy", "Invalid"),
        (tensorflow("parameter-server", data={"source": "digits"}) | {"measure": {"accuracy": {"epochs": 1}}},
         "spec.measure.accuracy", "Forbidden"),
    ],
)  # fmt: skip
def test_what_the_program_would_have_to_ignore_is_refused(changes: dict[str, Any], field: str, code: str) -> None:
    found = [problem for problem in problems(changes) if problem.field == field]
    assert [problem.code for problem in found] == [code], problems(changes)


@pytest.mark.parametrize(
    "changes",
    [
        tensorflow(),
        tensorflow(options={"deterministic": True, "channelsLast": True, "batchNorm": "local"}, precision="bf16"),
        tensorflow(launcher="processes", optimizer={"name": "lamb"}) | {"runner": "TFJob"},
        tensorflow("mirrored", backend="nccl"),
        tensorflow("parameter-server", parameterServer={"servers": 3}) | {"runner": "TFJob"},
        tensorflow("horovod") | {"runner": "MPIJob"},
        tensorflow("horovod", launcher="mpirun", backend="mpi", options={"commHook": "fp16", "bucketCapMb": 4.0}),
        tensorflow() | {"matrix": {"strategy": ["multi-worker-mirrored", "horovod"]}},
        tensorflow(model="resnet20", data={"source": "cifar10", "path": "/data"}),
        tensorflow(model="resnet20", data={"source": "image-folder", "path": "/data"}),
        tensorflow("mirrored", optimizer={"name": "lars", "scaleWithWorkers": True, "warmupEpochs": 1.0},
                   model="mlp", data={"source": "digits"}) | {"measure": {"accuracy": {"epochs": 2, "target": 0.9}}},
    ],
)  # fmt: skip
def test_what_it_can_do(changes: dict[str, Any]) -> None:
    assert not problems(changes)


def workload(strategy: str, **more: Any) -> Workload:
    return Workload.model_validate({"program": "tensorflow", "strategy": strategy, **more})


@pytest.mark.parametrize(
    ("given", "on_cpu", "on_gpu"),
    [
        (workload("one-device"), None, None),
        (workload("mirrored"), "ring", "nccl"),
        (workload("mirrored", crossDeviceOps="default"), "ring", "nccl"),
        (workload("mirrored", crossDeviceOps="hierarchical-copy"), "hierarchical-copy", "hierarchical-copy"),
        (workload("multi-worker-mirrored"), "ring", "nccl"),
        (workload("multi-worker-mirrored", communication="ring"), "ring", "ring"),
        # NCCL on CPUs is not NCCL: the run says ring, and this is what it is held against.
        (workload("multi-worker-mirrored", communication="nccl"), "nccl", "nccl"),
        (workload("parameter-server"), "grpc", "grpc"),
        (workload("horovod"), "mpi", "nccl"),
        (workload("horovod", backend="mpi"), "mpi", "mpi"),
    ],
)
def test_what_must_carry_the_sums(given: Workload, on_cpu: str | None, on_gpu: str | None) -> None:
    assert (given.carrier(on_gpu=False), given.carrier(on_gpu=True)) == (on_cpu, on_gpu)


def test_every_strategy_has_its_class() -> None:
    assert [strategy.name for strategy in TENSORFLOW_STRATEGIES.loadable().values()] == [*TENSORFLOW_STRATEGIES.names()]


def test_processes_of_a_trial() -> None:
    assert workload("mirrored").processes(8) == 1
    assert workload("multi-worker-mirrored").processes(8) == 8
    assert workload("horovod").processes(8) == 8
    assert workload("multi-worker-mirrored").roles == workload("horovod").roles == ()
    assert workload("parameter-server", parameterServer={"servers": 2}).roles == ("chief", "server-0", "server-1")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"backend": "ring", "strategy": "MirroredStrategy"}, "WrongStrategy"),
        ({"backend": "hierarchical-copy"}, "WrongBackend"),
    ],
)
def test_a_run_is_held_against_what_was_asked_for(changes: dict[str, Any], reason: str | None) -> None:
    asked = trial(tensorflow(communication="ring"))
    good = {"backend": "ring", "strategy": "CollectiveAllReduceStrategy"}
    ranks: dict[int, RankRecord] = {rank: rank_record(rank, asked, **{**good, **changes}) for rank in (0, 1)}
    assert judge(asked, ranks, GOOD).reason == reason


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"strategy": None}, "WrongStrategy"),
        ({"strategy": "OneDeviceStrategy"}, "WrongStrategy"),
        ({"backend": "gloo"}, "WrongBackend"),
    ],
)
def test_horovods_tape_must_be_there(changes: dict[str, Any], reason: str | None) -> None:
    asked = trial(tensorflow("horovod"))
    good = {"backend": "mpi", "strategy": "DistributedGradientTape"}
    assert (
        judge(asked, {rank: rank_record(rank, asked, **{**good, **changes}) for rank in (0, 1)}, GOOD).reason == reason
    )


def test_servers_hold_one_set_of_parameters() -> None:
    asked = trial(tensorflow("parameter-server"))
    good = {"backend": "grpc", "strategy": "ParameterServerStrategyV2"}
    verdict = judge(asked, {rank: rank_record(rank, asked, **good) for rank in (0, 1)}, GOOD)
    assert verdict.reason is None
    (check,) = [check for check in verdict.checks if check.name == "ReplicasDiverged"]
    assert (check.passed, check.detail) == (None, "one set of parameters, on the servers")
