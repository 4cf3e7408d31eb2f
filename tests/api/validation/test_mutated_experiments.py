"""The bar for bad input: whatever is done to an experiment, no exception, and every rejection says where."""

from typing import Any

from hypothesis import given, settings
from pydantic import ValidationError

from scalecurve_api.crds.generate import experiment_crd
from scalecurve_api.planning.plan import MAX_TRIALS, count_trials, make_plan
from scalecurve_api.spec.experiment import ScalingExperiment
from scalecurve_api.validation.document import read_documents
from scalecurve_api.validation.validate import validate_text
from tests.api.kube_schema import disagreements
from tests.api.mutated import EXPERIMENTS, mutated_experiments
from tests.examples import examples

SCHEMA = experiment_crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]


@settings(max_examples=examples(300, nightly=2000))
@given(mutated_experiments())
def test_mutated_experiments(text: str) -> None:
    validated = validate_text(text, "file.yaml")
    for problem in validated.problems:
        line = str(problem)
        assert line.startswith("file.yaml:")
        assert line.isprintable()
        assert line.encode()
        assert problem.message
        assert len(line) < 3000
    for experiment in validated.experiments:
        assert 0 < count_trials(experiment.spec) <= MAX_TRIALS
        if count_trials(experiment.spec) < 200:
            make_plan(experiment)
        assert differences(experiment.spec.wire()) == []


@settings(max_examples=examples(100, nightly=300))
@given(mutated_experiments())
def test_the_crd_takes_what_the_model_takes(text: str) -> None:
    documents, _ = read_documents(text, "file.yaml")
    for document in documents:
        spec = document.value.get("spec") if isinstance(document.value, dict) else None
        if not isinstance(spec, dict) or not all(isinstance(field, dict) for field in spec.get("matrix", None) or [{}]):
            continue
        schema_says = differences(spec)
        model_says = [path for path in shape_errors(document.value) if path[0] == "spec"]
        if not model_says:
            # Values of axes are typed in the CRD, and by a later rule in validation.
            assert [said for said in schema_says if not said.startswith(".matrix")] == []
        elif not schema_says:
            # A null counts as left out; keys of env, and what open objects hold, Kubernetes cannot see.
            assert all(
                null_at(document.value, path) or path[1] in ("exclude", "matrix", "workload") for path in model_says
            )


def differences(spec: dict[str, Any]) -> list[str]:
    said = disagreements(spec, SCHEMA)
    # Half a core is a number here; the CRD wants it in quotes, as Kubernetes does.
    return [each for each in said if not (each.startswith(".resources.limits") and "neither" in each)]


def shape_errors(document: dict[str, Any]) -> list[tuple[Any, ...]]:
    try:
        ScalingExperiment.model_validate(document)
    except ValidationError as error:
        return [each["loc"] for each in error.errors()]
    return []


def null_at(value: Any, path: tuple[Any, ...]) -> bool:
    for part in path:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            break
    return value is None


def test_the_mutations_reach_both_sides() -> None:
    good = bad = 0

    @settings(max_examples=100, database=None, derandomize=True)
    @given(mutated_experiments())
    def look(text: str) -> None:
        nonlocal good, bad
        if validate_text(text, "file.yaml").problems:
            bad += 1
        else:
            good += 1

    look()
    assert good > 2
    assert bad > 30


def test_the_examples_themselves_are_right() -> None:
    paths = sorted(EXPERIMENTS.glob("*.yaml"))
    assert len(paths) >= 5
    for path in paths:
        validated = validate_text(path.read_text(encoding="utf-8"), path.name)
        assert [str(problem) for problem in validated.problems] == []
        assert [experiment.metadata.name for experiment in validated.experiments] == [path.stem]
