"""Records of before each program had fields of its own."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from scalecurve_api.programs.old_records import is_planned, without_foreign_fields
from scalecurve_api.programs.torch import TorchWorkload
from scalecurve_api.programs.workload import PROGRAMS, Workload
from scalecurve_api.spec.trial import TrialSpec
from tests.api.rank_records import trial

FLAT: dict[str, Any] = {
    "model": "resnet18",
    "data": {"source": "synthetic", "augmentation": "auto", "cutout": 0, "instances": 1, "splitSeed": 0},
    "precision": "fp32",
    "device": "cpu",
    "backend": "auto",
    "optimizer": {"name": "sgd", "learningRate": 0.05, "decayNorm": True},
    "options": {"compile": False, "staticGraph": False, "fsdpGroupMb": 128, "commHook": "none", "reshuffle": True},
    "transfer": {"train": "all"},
    "parameterServer": {"servers": 1, "updates": "asynchronous", "backupWorkers": 0},
    "sizes": {"payload": "sizes", "minBytes": 8},
    "env": {},
}
"""What every workload had."""


@pytest.mark.parametrize("program", ["torch", "tensorflow", "horovod", "allreduce"])
def test_a_trial_with_every_programs_fields_is_read(program: str) -> None:
    all_reduce = {"allReduce": "ring"} if program in ("torch", "allreduce") else {"allReduce": "auto"}
    wire = trial().wire() | {"workload": {**FLAT, **all_reduce, "program": program}}
    workload = TrialSpec.model_validate(wire).workload
    assert isinstance(workload, PROGRAMS.get(program))
    assert workload.field_value("allReduce") == (None if program == "tensorflow" else all_reduce["allReduce"])
    assert workload.field_value("options.compile") is (False if program in ("torch", "horovod") else None)
    assert workload.field_value("sizes.minBytes") == (8 if program == "allreduce" else None)


def test_a_workload_without_a_program_is_of_the_default_one() -> None:
    assert isinstance(TrialSpec.model_validate(trial().wire() | {"workload": FLAT}).workload, TorchWorkload)


def test_fields_that_no_program_has_are_refused_still() -> None:
    spec = {"workload": {**FLAT, "program": "torch", "sizs": {}, "options": {"compil": True}}}
    kept = without_foreign_fields(spec)["workload"]
    assert "sizes" not in kept
    with pytest.raises(ValidationError, match="sizs") as caught:
        Workload.model_validate(kept)
    assert {error["loc"] for error in caught.value.errors()} == {("sizs",), ("options", "compil")}


@pytest.mark.parametrize(
    "spec", [None, [], {}, {"workload": 3}, {"workload": {"program": []}}, {"workload": {"program": "x"}}]
)
def test_what_is_no_workload_is_left_to_the_model(spec: Any) -> None:
    assert without_foreign_fields(spec) == spec


def test_a_default_of_its_day_is_planned() -> None:
    planned = TorchWorkload.model_validate({"strategy": "ddp"})
    then = TorchWorkload.model_validate(
        {"strategy": "ddp", "options": {"gradientAsBucketView": True, "fsdpGroupMb": 128}}
    )
    assert is_planned(planned, planned)
    assert is_planned(planned, then)


def test_other_differences_are_not() -> None:
    planned = TorchWorkload.model_validate({"strategy": "ddp"})
    stated = TorchWorkload.model_validate({"strategy": "ddp", "options": {"gradientAsBucketView": True}})
    other = TorchWorkload.model_validate({"strategy": "ddp", "options": {"fsdpGroupMb": 64}})
    changed = TorchWorkload.model_validate(
        {"strategy": "ddp", "precision": "bf16", "options": {"gradientAsBucketView": True}}
    )
    assert not is_planned(planned, other)
    assert not is_planned(planned, changed)
    assert not is_planned(stated, planned)
