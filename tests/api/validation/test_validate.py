"""The shape of an experiment: one problem a field, with line, value, what is allowed and the nearest spelling."""

from typing import Any

import pytest
import yaml

from scalecurve_api.validation.validate import validate_text
from tests.api.example_experiments import BASE, REMOVED, changed, problems

EXAMPLE = """\
apiVersion: scalecurve.dev/v1alpha1
kind: ScalingExperiment
metadata: {name: example}
spec:
  scaling:
    modes: [weak]
    workes: [1, 2]
    batch: {perWorker: 8}
"""


OTHER = {**BASE, "metadata": {"name": "other"}}


def test_a_right_experiment_has_no_problems() -> None:
    validated = validate_text(yaml.safe_dump(BASE), "file.yaml")
    assert [each.metadata.name for each in validated.experiments] == ["example"]
    assert not validated.problems


def test_all_problems_at_once_each_with_its_line() -> None:
    text = EXAMPLE.replace("[weak]", "[waek]").replace("perWorker: 8", "perWorker: eight")
    assert [str(problem) for problem in validate_text(text, "file.yaml").problems] == [
        "file.yaml:6: spec.scaling.modes[0]: given \"waek\"; allowed: 'strong' or 'weak' (did you mean 'weak'?)",
        "file.yaml:5: spec.scaling.workers: given nothing; "
        "allowed: required. Worker counts; each is a point of every curve.",
        'file.yaml:8: spec.scaling.batch.perWorker: given "eight"; allowed: a whole number',
        "file.yaml:7: spec.scaling.workes: given an unknown field 'workes'; "
        "allowed: one of modes, workers, batch, baseline (did you mean 'workers'?)",
    ]


def test_problems_of_one_document_do_not_hide_another() -> None:
    validated = validate_text(f"{yaml.safe_dump(BASE)}---\n{EXAMPLE}---\n{yaml.safe_dump(OTHER)}", "file.yaml")
    assert len(validated.experiments) == 2
    assert {problem.field for problem in validated.problems} == {"spec.scaling.workers", "spec.scaling.workes"}


def test_two_experiments_of_one_name_are_refused_unless_their_namespaces_differ() -> None:
    apart = {**BASE, "metadata": {"name": "example", "namespace": "elsewhere"}}
    text = "---\n".join(yaml.safe_dump(each, sort_keys=False) for each in (BASE, apart, BASE))
    validated = validate_text(text, "file.yaml")
    (problem,) = validated.problems
    assert (problem.field, problem.given) == ("metadata.name", "example")
    assert problem.allowed == "another name: an experiment above has this one, on line 4"
    assert [each.metadata.namespace for each in validated.experiments] == [None, "elsewhere"]


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("", "an empty file"),
        ("# only a comment\n", "an empty file"),
        ("null\n", "an empty document"),
        ("[1]\n", [1]),
        ("hello\n", "hello"),
    ],
)
def test_what_is_no_mapping(text: str, given: object) -> None:
    (problem,) = validate_text(text, "file.yaml").problems
    assert (problem.field, problem.given) == ("document", given)
    assert problem.allowed.startswith("a ScalingExperiment")


@pytest.mark.parametrize(
    ("changes", "field", "given", "allowed", "suggestion"),
    [
        ({"sclaing": {}}, "spec.sclaing", "an unknown field 'sclaing'", "one of scaling, placement", "scaling"),
        ({"workload/modle": "vgg16"}, "spec.workload.modle", "an unknown field", "one of program, model", "model"),
        ({"measure/warmUpSteps": 1}, "spec.measure.warmUpSteps", "an unknown field", "warmupSteps", "warmupSteps"),
        ({"workload/data/shpae": [1]}, "spec.workload.data.shpae", "an unknown field", "source, path, shape", "shape"),
        ({"workload/strategy": "fdsp"}, "spec.workload.strategy", "fdsp", "'ddp', 'single'", "fsdp"),
        ({"workload/program": "pytorch"}, "spec.workload.program", "pytorch", "'torch', 'tensorflow'", "torch"),
        ({"workload/precision": "BF16"}, "spec.workload.precision", "BF16", "'fp32', 'tf32'", "bf16"),
        ({"runner": "pytorchjob"}, "spec.runner", "pytorchjob", "'MPIJob', 'PyTorchJob'", "PyTorchJob"),
        ({"workload/optimizer/name": "adamm"}, "spec.workload.optimizer.name", "adamm", "'sgd', 'adam'", "adam"),
        ({"scaling/workers": []}, "spec.scaling.workers", "[]", "at least 1 item, and there are 0", None),
        ({"scaling/workers": [0]}, "spec.scaling.workers[0]", 0, "greater than or equal to 1", None),
        ({"scaling/workers": [1, 70000]}, "spec.scaling.workers[1]", 70000, "less than or equal to 65536", None),
        ({"scaling/workers": ["2"]}, "spec.scaling.workers[0]", "2", "a whole number", None),
        ({"scaling/workers": [2.0]}, "spec.scaling.workers[0]", 2.0, "a whole number", None),
        ({"scaling/workers": [True]}, "spec.scaling.workers[0]", True, "a whole number", None),
        ({"scaling/workers": 2}, "spec.scaling.workers", 2, "a list", None),
        ({"scaling/workers": list(range(1, 66))}, "spec.scaling.workers", "[1, 2,",
         "at most 64 items, and there are 65", None),
        ({"scaling/workers": REMOVED}, "spec.scaling.workers", "nothing", "required. Worker counts", None),
        ({"scaling": REMOVED}, "spec.scaling", "nothing", "required", None),
        ({"scaling": None}, "spec.scaling", None, "a mapping", None),
        ({"scaling/baseline": "smallest"}, "spec.scaling.baseline", "smallest", "'auto' or a whole number", None),
        ({"scaling/baseline": "aut"}, "spec.scaling.baseline", "aut", "'auto' or a whole number", "auto"),
        ({"scaling/baseline": 0}, "spec.scaling.baseline", 0, "'auto' or greater than or equal to 1", None),
        ({"placement/layouts": ["2*4"]}, "spec.placement.layouts[0]", "2*4", "nodes x workers a node, as 2x4", None),
        ({"placement/layouts": ["0x4"]}, "spec.placement.layouts[0]", "0x4", "nodes x workers a node, as 2x4", None),
        ({"matrix": {"precision": "bf16"}}, "spec.matrix.precision", "bf16", "a list", None),
        ({"matrix": {"precision": []}}, "spec.matrix.precision", "[]", "at least 1 item", None),
        ({"matrix": {"precision": [["bf16"]]}}, "spec.matrix.precision[0]", '["bf16"]',
         "a boolean or a whole number", None),
        ({"exclude": [{"workers": [1]}]}, "spec.exclude[0].workers", "[1]", "a boolean or a whole number", None),
        ({"exclude": {"workers": 1}}, "spec.exclude", "workers", "a list", None),
        ({"measure/seed": -1}, "spec.measure.seed", -1, "greater than or equal to 0", None),
        ({"measure/maxForeignLoad": float("nan")}, "spec.measure.maxForeignLoad", "NaN", "a finite number", None),
        ({"measure/accuracy": {"target": 1.5}}, "spec.measure.accuracy.target", 1.5, "less than or equal to 1", None),
        ({"measure/accuracy": True}, "spec.measure.accuracy", True, "a mapping", None),
        ({"cost": {}}, "spec.cost.perWorkerHour", "nothing", "required", None),
        ({"cost": {"perWorkerHour": float("inf")}}, "spec.cost.perWorkerHour", "Infinity", "a finite number", None),
        ({"cost": {"perWorkerHour": 1, "currency": "euro"}}, "spec.cost.currency", "euro",
         "three capital letters", None),
        ({"resources/limits": {"nvidia.com/gpu": [1]}}, "spec.resources.limits.nvidia.com/gpu", "[1]", "a whole number",
         None),
        ({"suspend": "no"}, "spec.suspend", "no", "a boolean", None),
        ({"workload": {"program": "custom", "command": "python train.py"}}, "spec.workload.command", "python train.py",
         "a list", None),
        ({"workload": {"program": "custom", "command": ["a\0"]}}, "spec.workload.command[0]", "\\u0000",
         "text without NUL characters", None),
        ({"workload/env": {"A=B": "1"}}, "spec.workload.env.A=B", "A=B", "the name of an environment variable", None),
        ({"workload/env": {"A": 1}}, "spec.workload.env.A", 1, "a string", None),
        ({"workload/model": ""}, "spec.workload.model", '""', "at least 1 character", None),
        ({"parallelism": 1 << 70}, "spec.parallelism", "1180591620717411303424", "less than or equal to 1000", None),
    ],
)  # fmt: skip
def test_a_wrong_field(
    changes: dict[str, Any], field: str, given: object, allowed: str, suggestion: str | None
) -> None:
    (problem,) = problems(changes)
    assert problem.field == field
    assert problem.given == given or str(given) in str(problem)
    assert allowed in problem.allowed
    assert problem.suggestion == suggestion
    assert problem.file == "file.yaml"
    assert problem.line is not None


@pytest.mark.parametrize(
    ("name", "value", "field", "allowed"),
    [
        ("apiVersion", "scalecurve.dev/v1", "apiVersion", "'scalecurve.dev/v1alpha1'"),
        ("apiVersion", REMOVED, "apiVersion", "required"),
        ("kind", "ScalingExperimnt", "kind", "'ScalingExperiment'"),
        ("metadata", {}, "metadata.name", "required"),
        ("metadata", {"name": "Big_Name"}, "metadata.name", "lower-case letters, digits and inner dashes"),
        ("metadata", {"name": "n" * 41}, "metadata.name", "at most 40 characters"),
        ("metadata", {"name": ""}, "metadata.name", "lower-case letters, digits and inner dashes"),
        ("spec", None, "spec", "a mapping"),
        ("extra", 1, "extra", "one of apiVersion, kind, metadata, spec, status"),
    ],
)
def test_around_the_spec(name: str, value: Any, field: str, allowed: str) -> None:
    document = changed({})
    document[name] = value
    if value is REMOVED:
        del document[name]
    (problem,) = validate_text(yaml.safe_dump(document), "file.yaml").problems
    assert problem.field == field
    assert allowed in problem.allowed


def test_what_kubernetes_adds_is_let_through() -> None:
    document = changed({})
    document["metadata"] |= {
        "namespace": "team",
        "uid": "x",
        "generation": 3,
        "managedFields": [{"manager": "kubectl"}],
    }
    document["status"] = {"phase": "Running", "anything": [1, 2]}
    assert not validate_text(yaml.safe_dump(document), "file.yaml").problems


def test_a_key_named_like_a_type_is_one_problem() -> None:
    (problem,) = problems({"matrix": {"precision": [{"bool": 1}]}})
    assert problem.field == "spec.matrix.precision[0]"
