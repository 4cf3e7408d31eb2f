"""The shape of an experiment: one problem a field, with line, value, what is allowed and the nearest spelling."""

from typing import Any

import pytest
import yaml

from scalecurve_api.problem import shorten
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
    problems = validate_text(text, "file.yaml").problems
    assert [(problem.line, problem.field, problem.code, problem.suggestion) for problem in problems] == [
        (6, "spec.scaling.modes[0]", "Invalid", "weak"),
        (7, "spec.scaling.workes", "Unknown", "workers"),
        (8, "spec.scaling.batch.perWorker", "Invalid", None),
    ]
    assert str(problems[1]) == "file.yaml:7: spec.scaling.workes: unknown field 'workes'; did you mean 'workers'?"


def test_problems_of_one_document_do_not_hide_another() -> None:
    validated = validate_text(f"{yaml.safe_dump(BASE)}---\n{EXAMPLE}---\n{yaml.safe_dump(OTHER)}", "file.yaml")
    assert len(validated.experiments) == 2
    assert [problem.field for problem in validated.problems] == ["spec.scaling.workes"]


def test_two_experiments_of_one_name_are_refused_unless_their_namespaces_differ() -> None:
    apart = {**BASE, "metadata": {"name": "example", "namespace": "elsewhere"}}
    text = "---\n".join(yaml.safe_dump(each, sort_keys=False) for each in (BASE, apart, BASE))
    validated = validate_text(text, "file.yaml")
    (problem,) = validated.problems
    assert (problem.field, problem.got, problem.code) == ("metadata.name", "example", "Duplicate")
    assert "line 4" in problem.message
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
    assert (problem.field, problem.got, problem.code) == ("document", given, "Invalid")


@pytest.mark.parametrize(
    ("changes", "field", "got", "code", "suggestion"),
    [
        ({"sclaing": {}}, "spec.sclaing", {}, "Unknown", "scaling"),
        ({"workload/modle": "vgg16"}, "spec.workload.modle", "vgg16", "Unknown", "model"),
        ({"measure/warmUpSteps": 1}, "spec.measure.warmUpSteps", 1, "Unknown", "warmupSteps"),
        ({"workload/data/shpae": [3, 32, 32]}, "spec.workload.data.shpae", [3, 32, 32], "Unknown", "shape"),
        ({"workload/strategy": "fdsp"}, "spec.workload.strategy", "fdsp", "Invalid", "fsdp"),
        ({"workload/program": "pytorch"}, "spec.workload.program", "pytorch", "Invalid", "torch"),
        ({"workload/precision": "BF16"}, "spec.workload.precision", "BF16", "Invalid", "bf16"),
        ({"runner": "pytorchjob"}, "spec.runner", "pytorchjob", "Invalid", "PyTorchJob"),
        ({"workload/optimizer/name": "adamm"}, "spec.workload.optimizer.name", "adamm", "Invalid", "adam"),
        ({"scaling/workers": []}, "spec.scaling.workers", [], "Invalid", None),
        ({"scaling/workers": [0]}, "spec.scaling.workers[0]", 0, "Invalid", None),
        ({"scaling/workers": [1, 70000]}, "spec.scaling.workers[1]", 70000, "Invalid", None),
        ({"scaling/workers": ["2"]}, "spec.scaling.workers[0]", "2", "Invalid", None),
        ({"scaling/workers": [2.0]}, "spec.scaling.workers[0]", 2.0, "Invalid", None),
        ({"scaling/workers": [True]}, "spec.scaling.workers[0]", True, "Invalid", None),
        ({"scaling/workers": 2}, "spec.scaling.workers", 2, "Invalid", None),
        ({"scaling/workers": list(range(1, 66))},
         "spec.scaling.workers", list(range(1, 66)), "Invalid", None),
        ({"scaling/workers": REMOVED}, "spec.scaling.workers", "nothing", "Required", None),
        ({"scaling": REMOVED}, "spec.scaling", "nothing", "Required", None),
        ({"scaling": None}, "spec.scaling", None, "Invalid", None),
        ({"scaling/baseline": "smallest"}, "spec.scaling.baseline", "smallest", "Invalid", None),
        ({"scaling/baseline": "aut"}, "spec.scaling.baseline", "aut", "Invalid", "auto"),
        ({"scaling/baseline": 0}, "spec.scaling.baseline", 0, "Invalid", None),
        ({"placement/layouts": ["2*4"]}, "spec.placement.layouts[0]", "2*4", "Invalid", None),
        ({"placement/layouts": ["0x4"]}, "spec.placement.layouts[0]", "0x4", "Invalid", None),
        ({"matrix": {"precision": "bf16"}}, "spec.matrix.precision", "bf16", "Invalid", None),
        ({"matrix": {"precision": []}}, "spec.matrix.precision", [], "Invalid", None),
        ({"matrix": {"precision": [["bf16"]]}}, "spec.matrix.precision[0]", ['bf16'], "Invalid", None),
        ({"exclude": [{"workers": [1]}]}, "spec.exclude[0].workers", [1], "Invalid", None),
        ({"exclude": {"workers": 1}}, "spec.exclude", {"workers": 1}, "Invalid", None),
        ({"measure/seed": -1}, "spec.measure.seed", -1, "Invalid", None),
        ({"measure/maxForeignLoad": float("nan")}, "spec.measure.maxForeignLoad", float("nan"), "Invalid", None),
        ({"measure/accuracy": {"target": 1.5}, "workload/data": {"source": "digits"}},
         "spec.measure.accuracy.target", 1.5, "Invalid", None),
        ({"measure/accuracy": True}, "spec.measure.accuracy", True, "Invalid", None),
        ({"cost": {}}, "spec.cost.perWorkerHour", "nothing", "Required", None),
        ({"cost": {"perWorkerHour": float("inf")}}, "spec.cost.perWorkerHour", float("inf"), "Invalid", None),
        ({"cost": {"perWorkerHour": 1, "currency": "euro"}}, "spec.cost.currency", "euro", "Invalid", None),
        ({"resources/limits": {"nvidia.com/gpu": [1]}}, "spec.resources.limits.nvidia.com/gpu", [1], "Invalid", None),
        ({"suspend": "no"}, "spec.suspend", "no", "Invalid", None),
        ({"workload": {"program": "custom", "command": "python train.py"}},
         "spec.workload.command", "python train.py", "Invalid", None),
        ({"workload": {"program": "custom", "command": ["a\0"]}}, "spec.workload.command[0]", 'a\x00', "Invalid", None),
        ({"workload/env": {"A=B": "1"}}, "spec.workload.env.A=B", "A=B", "Invalid", None),
        ({"workload/env": {"A": 1}}, "spec.workload.env.A", 1, "Invalid", None),
        ({"workload/model": ""}, "spec.workload.model", "", "Invalid", None),
        ({"parallelism": 1 << 70}, "spec.parallelism", 1180591620717411303424, "Invalid", None),
    ],
)  # fmt: skip
def test_a_wrong_field(changes: dict[str, Any], field: str, got: object, code: str, suggestion: str | None) -> None:
    (problem,) = problems(changes)
    assert (problem.field, problem.code, problem.suggestion) == (field, code, suggestion)
    assert problem.got == got or shorten(problem.got) == shorten(got)
    assert problem.file == "file.yaml"
    assert problem.line is not None


@pytest.mark.parametrize(
    ("name", "value", "field", "code"),
    [
        ("apiVersion", "scalecurve.dev/v1", "apiVersion", "Invalid"),
        ("apiVersion", REMOVED, "apiVersion", "Required"),
        ("kind", "ScalingExperimnt", "kind", "Invalid"),
        ("metadata", {}, "metadata.name", "Required"),
        ("metadata", {"name": "Big_Name"}, "metadata.name", "Invalid"),
        ("metadata", {"name": "n" * 41}, "metadata.name", "Invalid"),
        ("metadata", {"name": ""}, "metadata.name", "Invalid"),
        ("spec", None, "spec", "Invalid"),
        ("extra", 1, "extra", "Unknown"),
    ],
)
def test_around_the_spec(name: str, value: Any, field: str, code: str) -> None:
    document = changed({})
    document[name] = value
    if value is REMOVED:
        del document[name]
    (problem,) = validate_text(yaml.safe_dump(document), "file.yaml").problems
    assert (problem.field, problem.code) == (field, code)


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


MISTAKES = """\
apiVersion: scalecurve.dev/v1alpha1
kind: ScalingExperiment
metadata: {name: Many_Mistakes}
spec:
  scaling:
    modes: [weak, strnog]
    workers: [1, 2, 2]
    baseline: 3
    batch: {global: 17, perWorker: 8}
  workload:
    modle: resnet18
    precision: BF16
    options: {fsdpGroupMb: 64, commHook: fp16, staticGraph: true}
    data: {source: cifar10}
    env: {RANK: "0"}
  measure: {warmupSteps: 30, maxWarmupSteps: 20}
  matrix: {allreduce: [ring]}
  exclude: [{wokers: 1}]
  report: {x: depth}
"""


def test_one_mistake_does_not_hide_another() -> None:
    problems = validate_text(MISTAKES, "file.yaml").problems
    assert [(problem.line, problem.field, problem.code) for problem in problems] == [
        (3, "metadata.name", "Invalid"),
        (6, "spec.scaling.modes[1]", "Invalid"),
        (7, "spec.scaling.workers[2]", "Duplicate"),
        (8, "spec.scaling.baseline", "Invalid"),
        (9, "spec.scaling.batch.global", "Invalid"),
        (11, "spec.workload.modle", "Unknown"),
        (12, "spec.workload.precision", "Invalid"),
        (13, "spec.workload.options.fsdpGroupMb", "Forbidden"),
        (14, "spec.workload.data.path", "Required"),
        (15, "spec.workload.env.RANK", "Forbidden"),
        (16, "spec.measure.maxWarmupSteps", "Invalid"),
        (17, "spec.matrix.allreduce", "Unknown"),
        (18, "spec.exclude[0].wokers", "Unknown"),
        (19, "spec.report.x", "Invalid"),
    ]


def test_what_a_dropped_field_explains_is_not_reported() -> None:
    text = MISTAKES.replace("precision: BF16", "strategy: none").replace("global: 17", "global: many")
    fields = {problem.field for problem in validate_text(text, "file.yaml").problems}
    assert "spec.workload.strategy" in fields
    assert "spec.scaling.batch.global" in fields
    assert "spec.workload.options.fsdpGroupMb" not in fields, "some strategy has it"


def test_a_repaired_name_is_reported_as_it_was_written() -> None:
    text = MISTAKES.replace("workers: [1, 2, 2]", "workes: [1, 2, 0, 2]")
    problems = {problem.field: problem for problem in validate_text(text, "file.yaml").problems}
    assert "spec.scaling.workers" not in problems
    assert problems["spec.scaling.workes"].suggestion == "workers"
    assert problems["spec.scaling.workes[2]"].got == 0
    assert problems["spec.scaling.workes[3]"].code == "Duplicate"


def test_a_field_of_a_section_is_suggested_where_it_belongs_and_no_guess_is_judged() -> None:
    text = """\
apiVersion: scalecurve.dev/v1alpha1
kind: ScalingExperiment
metadata: {name: a}
spec:
  scaling: {modes: [weak], workers: [1, 2], batch: {perWorker: 16}}
  workload: {program: torch, strategy: ddp, model: resnet20, data: {source: digits}}
  measure: {epochs: 30, repetitions: 2}
"""
    (problem,) = validate_text(text, "a.yaml").problems
    assert str(problem) == "a.yaml:7: spec.measure.epochs: unknown field 'epochs'; did you mean 'accuracy.epochs'?"
    close = validate_text(text.replace("epochs: 30", "epochSample: 3"), "a.yaml").problems
    assert str(close[0]).startswith("a.yaml:7: spec.measure.epochSample: unknown field")
    assert len(close) > 1
