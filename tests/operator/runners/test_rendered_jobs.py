"""Rendering: golden manifests, and what must hold for every job whatever it carries.

``SCALECURVE_GOLDEN=write pytest tests/operator/runners`` writes the golden files anew; read the difference.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from scalecurve_api import contract
from scalecurve_api.spec import object_names as objects
from scalecurve_api.spec.job_kinds import Runner
from scalecurve_api.spec.quantity import times, value
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_operator.runners import RUNNERS, JobRequestError, runner_for
from tests.operator.runners.runner_cases import CASES, case, manifests, request, spelled

GOLDEN = Path(__file__).parent / "golden"


def templates(tree: Any) -> Iterator[dict[str, Any]]:
    """Every pod template in a manifest."""
    children = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    for child in children:
        if isinstance(child, dict) and "containers" in (child.get("spec") or {}):
            yield child
        else:
            yield from templates(child)


def env(template: dict[str, Any]) -> dict[str, str]:
    """Variables as the kubelet would give them."""
    given = template["spec"]["containers"][0]["env"]
    assert len({each["name"] for each in given}) == len(given), "a variable twice"
    return {each["name"]: each["value"].replace("$$", "$") for each in given if "value" in each}


def job(runner: Runner, **options: Any) -> dict[str, Any]:
    return RUNNERS[runner].render(request(runner=runner, **options))


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
    replicas = next(each for field, each in tree["spec"].items() if field.endswith("ReplicaSpecs"))
    assert {each["restartPolicy"] for each in replicas.values()} == {"Never"}
    assert tree["spec"]["runPolicy"]["cleanPodPolicy"] == "None"


@pytest.mark.parametrize("name", CASES)
def test_the_operator_comes_before_a_jobs_own_deadline(name: str) -> None:
    asked, spec = case(name), manifests(name)[0]["spec"]
    own = [spec.get("activeDeadlineSeconds", spec.get("runPolicy", {}).get("activeDeadlineSeconds"))]
    own += [
        each["spec"]["activeDeadlineSeconds"] for each in templates(spec) if "activeDeadlineSeconds" in each["spec"]
    ]
    assert {each - asked.trial.deadline_seconds for each in own} == {60}


@pytest.mark.parametrize("name", CASES)
def test_the_number_of_pods_is_what_the_job_asks_for(name: str) -> None:
    spec = manifests(name)[0]["spec"]
    replicas = next((each for field, each in spec.items() if field.endswith("ReplicaSpecs")), {})
    made = sum(each["replicas"] for each in replicas.values()) or spec["completions"]
    assert RUNNERS[CASES[name][0]].pods(case(name)) == made


def test_devices_of_all_workers_are_those_asked_for() -> None:
    for runner in Runner:
        for workers, each in ((1, 1), (8, 8), (32, 8)):
            tree = job(runner, workers=workers, workload={"program": "torch"})
            limits = [template["spec"]["containers"][0]["resources"]["limits"] for template in templates(tree["spec"])]
            held = {given.get("nvidia.com/gpu") for given in limits} - {None}
            assert held == {str(each)}


def test_every_worker_has_a_metrics_port_and_lingers_for_a_scrape() -> None:
    scraped = replace(case("job-1x8-in-2-pods"), metrics_port=9400, linger_seconds=5)
    template = RUNNERS[Runner.job].render(scraped)["spec"]["template"]
    assert template["spec"]["containers"][0]["ports"] == [
        {"name": f"metrics-{index}", "containerPort": 9400 + index} for index in range(4)
    ]
    assert env(template)[contract.METRICS_PORT_ENV] == "9400"
    assert env(template)[contract.METRICS_LINGER_ENV] == "5"


def test_the_chief_of_parameter_servers_has_the_metrics_of_every_worker() -> None:
    scraped = replace(case("tfjob-parameter-server"), metrics_port=9400)
    replicas = RUNNERS[Runner.tf_job].render(scraped)["spec"]["tfReplicaSpecs"]
    ports = {kind: each["template"]["spec"]["containers"][0].get("ports") for kind, each in replicas.items()}
    of_chief = [{"name": f"metrics-{index}", "containerPort": 9400 + index} for index in range(4)]
    assert ports == {"Chief": of_chief, "PS": None, "Worker": None}


def test_users_variables_reach_the_container_as_they_are_written() -> None:
    given = env(manifests("job-own-program")[0]["spec"]["template"])
    assert given["NOTE"] == "$(POD_NAME) costs 5$"
    assert given["NCCL_DEBUG"] == "INFO"
    assert given[contract.PODS_ENV] == "1", "the operator's own"
    assert "POD_NAME" not in given, "read from the pod itself"


def test_requests_are_the_limits() -> None:
    worker = manifests("job-own-program")[0]["spec"]["template"]["spec"]["containers"][0]
    assert worker["resources"]["limits"] == {"cpu": "1", "memory": "3000000000", "example.com/fpga": "4"}
    assert worker["resources"]["requests"] == worker["resources"]["limits"]


def test_a_limit_that_is_no_quantity_is_refused_by_name() -> None:
    with pytest.raises(
        JobRequestError, match=r"spec\.resources\.limits\.memory: '4 GB': a Kubernetes quantity is wanted"
    ):
        job(Runner.job, resources={"limits": {"memory": "4 GB"}})


def test_an_image_is_missing() -> None:
    with pytest.raises(JobRequestError, match=r"spec\.workload\.image: missing, .* for program 'custom'"):
        job(Runner.job, workload={"program": "custom", "command": ["true"]})


def test_workers_that_do_not_divide_over_pods_are_refused() -> None:
    with pytest.raises(JobRequestError, match=r"spec\.placement\.podsPerNode: 3: 8 workers do not divide over 3 pods"):
        job(Runner.pytorch_job, workers=8, placement={"podsPerNode": 3})


def test_a_trial_that_no_process_could_be_given_is_refused() -> None:
    env = {f"V{number}": "x" * 30_000 for number in range(5)}
    with pytest.raises(JobRequestError, match=r"spec\.workload: the trial has \d+ bytes, at most 120000"):
        job(Runner.job, workload={"env": env})


def test_threads_are_the_same_for_every_count() -> None:
    for workers in (1, 8):
        template = job(Runner.job, workers=workers)["spec"]["template"]
        assert env(template)[contract.THREADS_ENV] == "3"
    few = job(Runner.job, resources={"limits": {"cpu": "250m"}})["spec"]["template"]
    assert env(few)[contract.THREADS_ENV] == "1"
    unset = job(Runner.job, resources={"limits": {}})["spec"]["template"]
    assert contract.THREADS_ENV not in env(unset)


def test_one_tensorflow_worker_is_configured_like_many() -> None:
    alone = next(templates(job(Runner.tf_job, workers=1)["spec"]))
    assert '"task": {"type": "worker", "index": 0}' in env(alone)["TF_CONFIG"]
    for template in templates(job(Runner.tf_job, workers=16)["spec"]):
        assert "TF_CONFIG" not in env(template), "the operator's own"


def test_a_job_without_a_runner_is_a_job() -> None:
    asked = request(workers=2)
    assert runner_for(asked.spec, asked.trial).runner is Runner.job


def test_every_runner_is_registered() -> None:
    assert set(RUNNERS) == set(Runner)


class TestNesting:
    KNOWN = ("c", "a", "b")

    def affinity(self, nesting: str, workers: int) -> dict[str, Any]:
        placement = {"workersPerNode": 1, "nesting": nesting}
        spec = job(Runner.job, workers=workers, nodes=self.KNOWN, placement=placement)["spec"]["template"]["spec"]
        return dict(spec.get("affinity", {}).get("nodeAffinity", {}))

    def required(self, nesting: str, workers: int) -> list[str] | None:
        found = self.affinity(nesting, workers).get("requiredDuringSchedulingIgnoredDuringExecution")
        return found and found["nodeSelectorTerms"][0]["matchExpressions"][0]["values"]

    def preferred(self, nesting: str, workers: int) -> list[str]:
        found = self.affinity(nesting, workers)["preferredDuringSchedulingIgnoredDuringExecution"]
        return list(found[0]["preference"]["matchExpressions"][0]["values"])

    def test_a_smaller_count_stays_on_known_nodes(self) -> None:
        assert self.required("require", 2) == ["c", "a", "b"]
        assert self.preferred("require", 2) == ["c", "a"]

    def test_a_larger_count_needs_further_nodes(self) -> None:
        assert self.required("require", 4) is None
        assert self.preferred("require", 4) == ["c", "a", "b"]

    def test_preferred_only(self) -> None:
        assert self.required("prefer", 2) is None
        assert self.preferred("prefer", 1) == ["c"]

    def test_off(self) -> None:
        assert self.affinity("off", 2) == {}


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
    with pytest.raises(ValueError, match="a Kubernetes quantity is wanted"):
        value(quantity)


def test_a_golden_file_is_yaml() -> None:
    for file in GOLDEN.iterdir():
        assert all(isinstance(each, dict) for each in yaml.safe_load_all(file.read_text()))


def test_no_users_variable_stands_where_a_job_kind_tells_a_pod_its_place() -> None:
    """``rules`` refuses them too; what was begun before it did is not broken by them."""
    mine = {"TF_CONFIG": "{}", "RANK": "7", "K_MPI_JOB_ROLE": "launcher", "NCCL_DEBUG": "INFO"}
    for runner in Runner:
        for template in templates(job(runner, workload={"env": mine})["spec"]):
            given = env(template)
            assert {name for name in mine if given.get(name) == mine[name]} == {"NCCL_DEBUG"}
