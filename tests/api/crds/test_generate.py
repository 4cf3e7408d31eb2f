import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml
from pydantic import BaseModel

from scalecurve_api.crds.generate import HEADER, experiment_crd, files, main, trial_crd
from scalecurve_api.crds.status import MAX_BYTES, ExperimentStatus, TrialStatus
from scalecurve_api.crds.structural import PRESERVE, SchemaError, structural_schema
from scalecurve_api.planning.axes import axis_names
from scalecurve_api.planning.plan import make_plan
from scalecurve_api.programs.all_reduce import AllReduce
from scalecurve_api.programs.workload import PROGRAMS, Workload
from scalecurve_api.validation.validate import validate_text
from tests.api.kube_schema import disagreements, unbounded, unstructural

ROOT = Path(__file__).parents[3]
EXPERIMENTS = sorted((ROOT / "manifests" / "experiments").glob("*.yaml"))
BOTH = pytest.mark.parametrize("crd", [experiment_crd(), trial_crd()], ids=["experiment", "trial"])


def schema_of(crd: dict[str, Any]) -> dict[str, Any]:
    (version,) = crd["spec"]["versions"]
    return dict(version["schema"]["openAPIV3Schema"])


def at(schema: dict[str, Any], *names: str) -> dict[str, Any]:
    for name in names:
        schema = schema["properties"][name]
    return schema


def rules(schema: dict[str, Any]) -> list[str]:
    return [rule["rule"] for rule in schema["x-kubernetes-validations"]]


def test_the_command_writes_the_same_files_again(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "crds"
    subprocess.run([sys.executable, "-m", "scalecurve_api.crds.generate", str(folder)], check=True)
    assert {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()} == files()
    assert all(text.startswith(HEADER) and "generated" in text.splitlines()[0] for text in files().values())


def test_the_command_wants_one_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "usage: python -m scalecurve_api.crds.generate DIR" in capsys.readouterr().err


@BOTH
def test_the_schema_is_structural(crd: dict[str, Any]) -> None:
    assert list(unstructural(schema_of(crd), crd["spec"]["names"]["kind"])) == []


def undescribed(schema: dict[str, Any], path: str = "") -> Iterator[str]:
    for name, field in schema.get("properties", {}).items():
        text = field.get("description", "")
        if not text[:1].isupper() or not text.endswith("."):
            yield f"{path}.{name}: {text!r}"
        yield from undescribed(field, f"{path}.{name}")
        if isinstance(field.get("items"), dict):
            yield from undescribed(field["items"], f"{path}.{name}[]")


@BOTH
def test_every_field_has_a_sentence_that_describes_it(crd: dict[str, Any]) -> None:
    assert list(undescribed(schema_of(crd))) == [".metadata: ''"]


@BOTH
def test_metadata_has_its_type_alone(crd: dict[str, Any]) -> None:
    """An API server refuses a CRD that says more of it."""
    assert schema_of(crd)["properties"]["metadata"] == {"type": "object"}


@BOTH
def test_the_files_hold_plain_yaml_without_anchors(crd: dict[str, Any]) -> None:
    text = files()[f"scalecurve.dev_{crd['spec']['names']['plural']}.yaml"]
    assert yaml.safe_load(text) == crd
    assert "&id" not in text


def test_names_columns_and_subresource() -> None:
    experiment, trial = experiment_crd()["spec"], trial_crd()["spec"]
    assert experiment["names"]["shortNames"] == ["sx"]
    assert (experiment["names"]["plural"], trial["names"]["plural"]) == ("scalingexperiments", "scalingtrials")
    assert trial["names"]["shortNames"] == ["sxt"]
    for spec in (experiment, trial):
        assert spec["scope"] == "Namespaced"
        assert spec["versions"][0]["subresources"] == {"status": {}}
    shown = [
        column["name"] for column in experiment["versions"][0]["additionalPrinterColumns"] if "priority" not in column
    ]
    assert shown == ["Phase", "Done", "Failed", "Invalid", "Best efficiency", "Age"]
    shown = [column["name"] for column in trial["versions"][0]["additionalPrinterColumns"] if "priority" not in column]
    assert shown == ["Point", "Workers", "Mode", "Phase", "Reason", "Throughput", "Age"]


@BOTH
def test_every_column_shows_a_declared_field(crd: dict[str, Any]) -> None:
    for column in crd["spec"]["versions"][0]["additionalPrinterColumns"]:
        path = column["jsonPath"].strip(".").split(".")
        if path[0] == "metadata":
            continue
        shown = at(schema_of(crd), *path)
        assert shown["type"] == column["type"], column


@BOTH
def test_conditions_are_a_list_map_by_type(crd: dict[str, Any]) -> None:
    conditions = at(schema_of(crd), "status", "conditions")
    assert conditions["x-kubernetes-list-type"] == "map"
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]
    assert set(conditions["items"]["required"]) == {"type", "status", "reason", "message", "lastTransitionTime"}


def test_every_field_but_suspend_and_cancel_is_frozen_by_a_root_rule() -> None:
    schema = schema_of(experiment_crd())
    frozen = {rule["fieldPath"] for rule in schema["x-kubernetes-validations"] if "oldSelf" in rule["rule"]}
    assert frozen == {f".spec.{name}" for name in schema["properties"]["spec"]["properties"]} - {
        ".spec.suspend",
        ".spec.cancel",
    }
    for rule in schema["x-kubernetes-validations"]:
        if "oldSelf" in rule["rule"]:
            assert rule["rule"].startswith("!(has(oldSelf.status) && has(oldSelf.status.startedAt)")


def test_optional_fields_are_looked_for_before_they_are_compared() -> None:
    schema = schema_of(experiment_crd())
    spec = schema["properties"]["spec"]
    for name, field in spec["properties"].items():
        compared = [rule for rule in rules(schema) if f"self.spec.{name} == oldSelf.spec.{name}" in rule]
        if compared and "default" not in field and name not in spec["required"]:
            assert f"has(self.spec.{name}) == has(oldSelf.spec.{name})" in compared[0]


def test_rules_sit_on_objects_that_have_no_default() -> None:
    # An API server tries the default {} against the rules beside it, and has not filled in what is inside.
    def places(schema: dict[str, Any]) -> list[dict[str, Any]]:
        inside = [*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")]
        found = [place for child in inside if isinstance(child, dict) for place in places(child)]
        return [*found, *([schema] if "x-kubernetes-validations" in schema else [])]

    for crd in (experiment_crd(), trial_crd()):
        assert all("default" not in place for place in places(schema_of(crd)))


def test_the_spec_of_a_trial_is_frozen() -> None:
    assert rules(at(schema_of(trial_crd()), "spec")) == ["self == oldSelf"]


def test_what_a_user_writes_is_bounded() -> None:
    bounded_by_their_pattern = [".placement.layouts.items", ".cost.currency"]
    assert list(unbounded(at(schema_of(experiment_crd()), "spec"))) == bounded_by_their_pattern


def test_every_known_axis_has_the_type_of_its_field() -> None:
    matrix = at(schema_of(experiment_crd()), "spec", "matrix")
    assert tuple(matrix["properties"]) == axis_names(PROGRAMS.names())
    assert matrix[PRESERVE] is True
    assert matrix["properties"]["options.compile"]["items"] == {"type": "boolean"}
    assert matrix["properties"]["batch.global"]["items"]["minimum"] == 1
    assert matrix["properties"]["allReduce"]["items"]["enum"] == [each.value for each in AllReduce]


def test_environment_variables_are_not_pruned() -> None:
    env = at(schema_of(experiment_crd()), "spec", "workload", "env")
    assert env["additionalProperties"]["type"] == "string"


@pytest.mark.parametrize("program", PROGRAMS.names())
def test_the_defaults_that_an_api_server_fills_in_are_the_programs_own(program: str) -> None:
    def filled(schema: dict[str, Any]) -> Any:
        default = schema.get("default")
        if not isinstance(default, dict):
            return default
        inner = {name: filled(field) for name, field in schema.get("properties", {}).items()}
        return {name: value for name, value in inner.items() if value is not None}

    schema = at(schema_of(experiment_crd()), "spec", "workload")
    minimal = {"program": program} | ({"command": ["x"]} if program == "custom" else {})
    assert Workload.model_validate({**filled(schema), **minimal}) == Workload.model_validate(minimal)


def test_a_field_of_some_programs_says_of_which_and_has_its_default_in_words() -> None:
    workload = at(schema_of(experiment_crd()), "spec", "workload")
    assert at(workload, "options", "compile")["description"].endswith(
        "Only for program torch and horovod. Default: false."
    )
    assert at(workload, "crossDeviceOps")["description"].endswith("Only for program tensorflow.")
    assert at(workload, "options", "commHook")["enum"][:3] == ["none", "fp16", "bf16"]
    assert "Only" not in at(workload, "precision")["description"]


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.stem)
def test_the_examples_fit_the_schema(path: Path) -> None:
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    schema = schema_of(experiment_crd())
    assert list(disagreements({k: v for k, v in document.items() if k != "metadata"}, schema)) == []


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.stem)
def test_planned_trials_fit_the_schema(path: Path) -> None:
    (experiment,) = validate_text(path.read_text(encoding="utf-8"), path.name).experiments
    schema = at(schema_of(trial_crd()), "spec")
    for trial in make_plan(experiment).trials:
        assert list(disagreements(trial.wire(), schema)) == []


def fullest(schema: dict[str, Any]) -> Any:
    """A value as large as the schema allows; numbers as long as they get."""
    if "enum" in schema:
        return max(schema["enum"], key=len)
    match schema["type"]:
        case "object":
            return {name: fullest(field) for name, field in schema["properties"].items()}
        case "array":
            return [fullest(schema["items"])] * int(schema["maxItems"])
        case "string":
            if schema.get("format") == "date-time":
                return "2026-11-20T10:00:00.000000Z"
            return "x" * int(schema.get("maxLength", 64))
        case "integer":
            return 1 << 62
        case "number":
            return -1.7976931348623157e308
    raise AssertionError(schema)


@pytest.mark.parametrize("status", [ExperimentStatus, TrialStatus])
def test_a_status_stays_below_its_limit_at_any_size(status: type[BaseModel]) -> None:
    full = json.dumps(fullest(structural_schema(status)))
    assert len(full) < MAX_BYTES


def test_a_union_that_kubernetes_cannot_hold_is_refused() -> None:
    class Odd(BaseModel):
        field: list[int] | dict[str, int]

    with pytest.raises(SchemaError, match="no structural form"):
        structural_schema(Odd)


def test_unions_constants_and_open_bounds() -> None:
    class Odd(BaseModel):
        either: Literal["auto"] | int = "auto"
        only: Literal["x"] = "x"
        anything: bool | int | str = 1

    properties = structural_schema(Odd)["properties"]
    assert properties["either"] == {
        "x-kubernetes-int-or-string": True,
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": "^auto$",
        "default": "auto",
    }
    assert properties["only"] == {"type": "string", "enum": ["x"], "default": "x"}
    assert properties["anything"] == {PRESERVE: True, "default": 1}
