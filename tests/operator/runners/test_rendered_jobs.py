"""Rendering: golden manifests, and what must hold for every job whatever it carries.

``SCALECURVE_GOLDEN=write pytest tests/operator/runners`` writes the golden files anew; read the difference.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from scalecurve_api import contract
from scalecurve_api.spec import object_names as objects
from scalecurve_api.spec.job_kinds import Runner
from scalecurve_api.spec.quantity import times, value
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_operator.runners import RUNNERS, runner_for
from tests.operator.runners.runner_cases import CASES, case, env, manifests, request, spelled, templates

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("name", CASES)
def test_golden(name: str) -> None:
    file = GOLDEN / f"{name}.yaml"
    if os.environ.get("SCALECURVE_GOLDEN") == "write":
        file.write_text(spelled(name))
    assert spelled(name) == file.read_text()


def test_no_golden_file_without_its_case() -> None:
    assert {file.stem for file in GOLDEN.iterdir()} == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_every_pod_can_be_found_and_reads_its_trial(name: str) -> None:
    asked, (tree, *_) = case(name), manifests(name)
    found = list(templates(tree["spec"]))
    assert found
    for template in found:
        labels = template["metadata"]["labels"]
        assert labels.items() >= objects.labels("resnet", asked.trial_object, 1).items()
        assert objects.ROLE_LABEL in labels
        given = env(template)
        assert TrialSpec.model_validate_json(given[contract.TRIAL_ENV]) == asked.trial
        assert given[contract.PODS_ENV] == str(asked.pods)
        assert template["spec"]["automountServiceAccountToken"] is False


@pytest.mark.parametrize("name", CASES)
def test_an_older_worker_is_not_told_of_defaults_that_it_may_not_know(name: str) -> None:
    asked = case(name)
    for template in templates(manifests(name)[0]["spec"]):
        given = env(template)
        assert json.loads(given[contract.TRIAL_ENV]) == asked.trial.sent()
        assert given[contract.ENGINE_VERSION_ENV] == asked.engine_version


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_started_twice(name: str) -> None:
    tree = manifests(name)[0]
    if tree["kind"] == "Job":
        assert tree["spec"]["backoffLimit"] == 0
        assert tree["spec"]["template"]["spec"]["restartPolicy"] == "Never"
        return
    if tree["kind"] == "JobSet":
        assert tree["spec"]["failurePolicy"] == {"maxRestarts": 0}
        for each in tree["spec"]["replicatedJobs"]:
            inner = each["template"]["spec"]
            assert (inner["backoffLimit"], inner["template"]["spec"]["restartPolicy"]) == (0, "Never")
        return
    replicas = next(each for field, each in tree["spec"].items() if field.endswith("ReplicaSpecs"))
    assert {each["restartPolicy"] for each in replicas.values()} == {"Never"}
    assert tree["spec"]["runPolicy"]["cleanPodPolicy"] == "None"


@pytest.mark.parametrize("name", CASES)
def test_the_operator_comes_before_a_jobs_own_deadline(name: str) -> None:
    asked, spec = case(name), manifests(name)[0]["spec"]
    own = [
        each["activeDeadlineSeconds"] for each in (spec, spec.get("runPolicy", {})) if "activeDeadlineSeconds" in each
    ]
    own += [
        each["spec"]["activeDeadlineSeconds"] for each in templates(spec) if "activeDeadlineSeconds" in each["spec"]
    ]
    assert {each - asked.trial.deadline_seconds for each in own} == {60}


@pytest.mark.parametrize("name", CASES)
def test_the_number_of_pods_is_what_the_job_asks_for(name: str) -> None:
    spec = manifests(name)[0]["spec"]
    replicas = next((each for field, each in spec.items() if field.endswith("ReplicaSpecs")), {})
    sets = [each["template"]["spec"]["completions"] for each in spec.get("replicatedJobs", ())]
    made = sum(each["replicas"] for each in replicas.values()) or sum(sets) or spec["completions"]
    assert RUNNERS[CASES[name][0]].pods(case(name)) == made


def test_a_job_without_a_runner_is_a_job() -> None:
    asked = request(workers=2)
    assert runner_for(asked.spec, asked.trial).runner is Runner.job


def test_every_runner_is_registered() -> None:
    assert set(RUNNERS) == set(Runner)


@given(
    st.integers(0, 10**15), st.sampled_from(["", "n", "u", "m", "k", "M", "Ki", "Mi", "Gi", "Ti"]), st.integers(1, 4096)
)
def test_quantities_multiply_exactly(number: int, suffix: str, count: int) -> None:
    assert value(times(f"{number}{suffix}", count)) == value(f"{number}{suffix}") * count


@pytest.mark.parametrize(
    ("quantity", "count", "expected"),
    [
        ("500m", 4, "2000m"),
        (0.1, 3, "0.3"),
        ("1.5Gi", 2, "3Gi"),
        ("1e3", 2, "2000"),
        (1e-3, 8, "0.008"),
        ("2E", 2, "4E"),
    ],
)
def test_quantities(quantity: float | str, count: int, expected: str) -> None:
    assert times(quantity, count) == expected


@pytest.mark.parametrize("quantity", ["", "4 GB", "1Kib", "nan", "-", "1e", "two"])
def test_no_quantities(quantity: str) -> None:
    with pytest.raises(ValueError, match="expected a Kubernetes quantity"):
        value(quantity)


def test_a_golden_file_is_yaml() -> None:
    for file in GOLDEN.iterdir():
        assert all(isinstance(each, dict) for each in yaml.safe_load_all(file.read_text()))
