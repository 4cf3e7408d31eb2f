"""What a training to a target refuses before a device is taken."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.example_experiments import problems

_ACCURACY = {"epochs": 1}


def training(strategy: str = "ddp", program: str = "torch", measure: dict[str, Any] | None = None, **more: Any) -> Any:
    data = {"source": "digits"}
    changes: dict[str, Any] = {"workload": {"program": program, "strategy": strategy, "data": data, **more}}
    return changes | ({"measure": {"accuracy": _ACCURACY | measure}} if measure else {})


@pytest.mark.parametrize(
    ("changes", "field", "code"),
    [
        (training(data={"source": "digits", "validation": 0.2}), "spec.workload.data.validation", "Forbidden"),
        (training(data={"source": "digits", "instances": 0}), "spec.workload.data.instances", "Invalid"),
        (training(data={"source": "cifar10", "path": "c"}, model="inception_v3"),
         "spec.workload.data.source", "Invalid"),
        (training(data={"source": "digits", "shape": [1, 28, 28]}, model="vgg16"),
         "spec.workload.data.shape", "Invalid"),
        (training(data={"source": "digits", "cutout": -1}), "spec.workload.data.cutout", "Invalid"),
        (training(data={"source": "digits", "shape": [3, 8, 8], "cutout": 9}), "spec.workload.data.cutout", "Invalid"),
        (training("parameter-server", optimizer={"momentum": 0.0, "decayNorm": False}),
         "spec.workload.optimizer.decayNorm", "NotSupported"),
        (training(options={"labelSmoothing": 1.0}), "spec.workload.options.labelSmoothing", "Invalid"),
        (training("fsdp", transfer={"train": "head"}), "spec.workload.transfer.train", "Forbidden"),
        (training("fsdp", transfer={"checkpoint": "a.pt"}), "spec.workload.transfer.checkpoint", "Forbidden"),
        (training("parameter-server", "tensorflow", data={"source": "synthetic", "cutout": 2}),
         "spec.workload.data.cutout", "Forbidden"),
        (training("parameter-server", "tensorflow", data={"source": "synthetic"}, transfer={"train": "head"}),
         "spec.workload.transfer", "Forbidden"),
        (training(optimizer={"name": "adam", "nesterov": True}), "spec.workload.optimizer.nesterov", "Forbidden"),
        (training(optimizer={"momentum": 0.0, "nesterov": True}), "spec.workload.optimizer.nesterov", "Forbidden"),
        (training(optimizer={"name": "adam", "rho": 0.99}), "spec.workload.optimizer.rho", "Forbidden"),
        (training("mirrored", "tensorflow", optimizer={"decay": "multi-step"}),
         "spec.workload.optimizer.milestones", "Invalid"),
        (training("mirrored", "tensorflow", measure={"quantization": {}}),
         "spec.measure.accuracy.quantization", "Forbidden"),
        (training("fsdp", measure={"quantization": {}}), "spec.measure.accuracy.quantization", "Forbidden"),
        (training("zero1", measure={"noiseScale": True}), "spec.measure.accuracy.noiseScale", "Forbidden"),
        (training(measure={"noiseScale": True}), "spec.measure.accuracy.noiseScale", "NotSupported"),
        (training(options={"commHook": "bf16", "gradientAccumulation": 2}, measure={"noiseScale": True}),
         "spec.measure.accuracy.noiseScale", "Forbidden"),
        (training(measure={"quantization": {"bits": [8, 0]}}), "spec.measure.accuracy.quantization.bits.1", "Invalid"),
    ],
)  # fmt: skip
def test_options_that_go_with_something_else_are_refused(changes: dict[str, Any], field: str, code: str) -> None:
    found = [problem for problem in problems(changes) if problem.field.replace("[", ".").replace("]", "") == field]
    assert [problem.code for problem in found] == [code], problems(changes)


SHARED: dict[str, Any] = {
    "data": {
        "source": "image-folder",
        "path": "/data",
        "shape": [3, 224, 224],
        "augmentation": "flip",
        "rotation": 20,
        "shift": 0.1,
        "zoom": 0.2,
        "cutout": 16,
        "instances": 2,
        "validation": 0.2,
        "splitSeed": 3,
    },
    "transfer": {"checkpoint": "resnet50.pth", "train": "head"},
    "optimizer": {"name": "adadelta", "rho": 0.95, "weightDecay": 0.01, "decayNorm": False, "scaleWithWorkers": True},
    "options": {"labelSmoothing": 0.1, "reshuffle": False},
}


@pytest.mark.parametrize(
    "program",
    [
        {"program": "torch", "strategy": "ddp"},
        {"program": "horovod"},
        *({"program": "tensorflow", "strategy": each} for each in ("multi-worker-mirrored", "mirrored", "horovod")),
    ],
)
@pytest.mark.parametrize("name", ["sgd", "adam", "adamw", "adadelta", "adagrad", "rmsprop", "lars", "lamb"])
def test_training_options_are_the_same_under_every_framework(program: dict[str, Any], name: str) -> None:
    rule = {**SHARED["optimizer"], "name": name}
    if name not in ("adadelta", "rmsprop"):
        del rule["rho"]
    changes = {
        "workload": {**program, **SHARED, "optimizer": rule},
        "measure": {"accuracy": {"epochs": 1, "checkpoints": "trained"}},
    }
    assert not problems(changes)


def test_all_of_them_together_are_taken() -> None:
    changes = training(
        data={"source": "digits", "augmentation": "standard", "cutout": 2, "instances": 4},
        transfer={"checkpoint": "a.pt", "train": "head"},
        options={"labelSmoothing": 0.1, "gradientAccumulation": 2},
        optimizer={"decayNorm": False},
        measure={"checkpoints": "trained", "quantization": {"bits": [8, 2]}, "noiseScale": True},
    )
    assert list(problems(changes)) == []


def test_settings_of_one_strategy_stand_beside_others_of_an_axis() -> None:
    settings = {"workload/parameterServer": {"servers": 2}}
    (alone,) = problems(settings)
    assert alone.field == "spec.workload.parameterServer"
    assert list(problems({**settings, "matrix": {"strategy": ["ddp", "parameter-server"]}})) == []
