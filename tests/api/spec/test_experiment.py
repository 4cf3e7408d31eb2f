import pytest
from pydantic import ValidationError

from scalecurve_api.programs.data import Data
from scalecurve_api.programs.workload import Workload
from scalecurve_api.spec.experiment import Resources
from scalecurve_api.spec.trial import ScalingTrial


@pytest.mark.parametrize(
    "given", [{"program": "custom", "command": ["a\0b"]}, {"env": {"A": "\0"}}, {"data": {"path": "/a\0"}}]
)
def test_what_no_process_could_be_given_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match="should match pattern"):
        Workload.model_validate(given)


@pytest.mark.parametrize("name", ["", "A=B", "A B", "9A", "A\0"])
def test_names_of_variables(name: str) -> None:
    with pytest.raises(ValidationError):
        Workload.model_validate({"env": {name: "x"}})


def test_multi_line_commands_and_values_pass() -> None:
    script = "import os\nprint(os.environ['X'])\n"
    workload = Workload.model_validate({"program": "custom", "command": ["python", "-c", script], "env": {"X": "a\nb"}})
    assert workload.command == ["python", "-c", script]
    assert workload.env == {"X": "a\nb"}
    assert Data(path="data/ünï côde").path == "data/ünï côde"


def test_limits_are_numbers_or_quantities() -> None:
    assert Resources.model_validate({"limits": {"nvidia.com/gpu": 1, "memory": "4Gi", "cpu": 0.5}}).limits["cpu"] == 0.5
    with pytest.raises(ValidationError):
        Resources.model_validate({"limits": {"nvidia.com/gpu": True}})


def test_a_trial_object_has_room_for_its_experiments_name() -> None:
    name = f"{'e' * 40}-weak-16-2x8-r12"
    metadata = ScalingTrial.model_fields["metadata"].annotation
    assert metadata is not None
    assert metadata.model_validate({"name": name}).name == name
