"""Workloads as a tagged union over their program."""

from __future__ import annotations

import re
from pathlib import Path
from typing import ClassVar, Literal

import pytest
from pydantic import ValidationError

from scalecurve_api.features.horovod.fields import HorovodWorkload
from scalecurve_api.features.tensorflow.fields import TensorFlowWorkload
from scalecurve_api.planning.plan import make_plan
from scalecurve_api.programs.custom import CustomWorkload
from scalecurve_api.programs.torch import TorchWorkload
from scalecurve_api.programs.workload import PROGRAMS, Workload
from scalecurve_api.spec.trial import TrialSpec
from tests.api.example_experiments import experiment, problems


def test_the_program_chooses_the_class() -> None:
    assert type(Workload.model_validate({})) is TorchWorkload
    assert type(Workload.model_validate({"program": "tensorflow"})) is TensorFlowWorkload


def test_what_is_sent_keeps_the_program() -> None:
    for name in PROGRAMS.names():
        wire = {"program": name} | ({"command": ["x"]} if name == "custom" else {})
        workload = Workload.model_validate(wire)
        sent = workload.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True)
        assert Workload.model_validate(sent) == workload


def test_a_program_whose_name_would_not_be_sent_is_refused() -> None:
    with pytest.raises(TypeError, match=r"JaxWorkload\.program must have no default"):

        class JaxWorkload(Workload):
            program: Literal["jax"] = "jax"


def test_a_program_runs_its_own_workload_only() -> None:
    (first, *_) = make_plan(experiment()).trials
    assert first.workload_as(TorchWorkload) is first.workload
    with pytest.raises(TypeError, match="program torch is not a CustomWorkload"):
        first.workload_as(CustomWorkload)


def test_programs_can_be_an_axis() -> None:
    changes = {"workload/options": {"compile": True}, "matrix": {"program": ["torch", "horovod"]}}
    assert not problems(changes)
    classes = {type(trial.workload) for trial in make_plan(experiment(changes)).trials}
    assert classes == {TorchWorkload, HorovodWorkload}
    for trial in make_plan(experiment(changes)).trials:
        assert TrialSpec.model_validate(trial.sent()) == trial


def test_an_axis_beside_a_program_axis_fits_one_of_the_programs() -> None:
    changes = {"matrix": {"program": ["torch", "horovod"], "options.staticGraph": [False, True]}}
    (problem,) = problems(changes)
    assert problem.field == "spec.matrix.options.staticGraph"
    left = {"exclude": [{"program": "horovod", "options.staticGraph": value} for value in (False, True)]}
    assert not problems({**changes, **left})


def test_an_axis_of_another_program_is_unknown() -> None:
    (problem,) = problems({"matrix": {"crossDeviceOps": ["default"]}})
    assert (problem.got, problem.code) == ("crossDeviceOps", "Unknown")


@pytest.mark.parametrize("program", ["pytorch", 3, None, [], {"a": 1}])
def test_an_unknown_program_is_an_error_of_its_field(program: object) -> None:
    with pytest.raises(ValidationError) as caught:
        Workload.model_validate({"program": program})
    assert [error["loc"] for error in caught.value.errors()] == [("program",)]
    (problem,) = problems({"workload/program": program})
    assert (problem.field, problem.code) == ("spec.workload.program", "Invalid")


def test_a_subclass_has_the_defaults_of_its_base() -> None:
    class Minimal(Workload):
        counts_samples: ClassVar[bool] = False
        program: Literal["minimal"]

    workload = Minimal(program="minimal")
    assert (workload.resolved_strategy, workload.carrier(True), workload.wrapper(), workload.model_framework) == (
        None,
    ) * 4
    assert (workload.roles, workload.processes(4), workload.gradient_accumulation) == ((), 4, 1)
    assert list(workload.problems(2, 1)) == []


class MeshtasticWorkload(Workload):
    """A program of another package."""

    runs: ClassVar[str] = "somebody.mesh:run"
    requires: ClassVar[str] = "no_such_library"

    program: Literal["meshtastic"]


def test_what_another_packages_program_lacks_is_named() -> None:
    workload = MeshtasticWorkload(program="meshtastic")
    expected = "spec.workload.program: meshtastic needs no_such_library, which is not installed here"
    assert workload.not_installed() == expected
    assert workload.entry == ("somebody.mesh:run", "no_such_library")


def test_only_a_command_of_the_users_has_words_and_texts() -> None:
    custom = CustomWorkload(program="custom", command=["a"], args=["{workers}"], env={"B": "c"}, same_data=True)
    assert custom.words == ["a", "{workers}"]
    assert dict(custom.texts()) == {("command", 0): "a", ("args", 0): "{workers}", ("env", "B"): "c"}
    for name in PROGRAMS.names():
        if name != "custom":
            workload = Workload.model_validate({"program": name, "env": {"B": "{workers}"}})
            assert (workload.words, list(workload.texts())) == ([], [])


def test_servers_of_a_job_are_roles_and_those_of_rank_0_are_none() -> None:
    of_job = Workload.model_validate({"program": "tensorflow", "strategy": "parameter-server"})
    of_rank = Workload.model_validate({"strategy": "parameter-server", "parameterServer": {"servers": 2}})
    assert (of_job.roles, of_job.parameter_servers) == (("chief", "server-0"), None)
    assert not of_rank.roles
    assert of_rank.parameter_servers is not None
    assert of_rank.parameter_servers.servers == 2


def test_the_core_asks_few_workloads_for_their_class() -> None:
    """What a program needs of its surroundings it says itself; a command of the user's is known to the core."""
    root = Path(__file__).parents[3]
    files = [
        path
        for package in ("api", "worker", "operator", "local", "analysis")
        for path in root.glob(f"{package}/**/*.py")
    ]
    asked = [str(path) for path in files for _ in re.findall(r"isinstance\([^()]*Workload\b", path.read_text())]
    assert len(files) > 500
    assert len(asked) <= 8, asked
