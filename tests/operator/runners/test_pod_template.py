"""Pods: resources, variables, ports."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scalecurve_api import contract
from scalecurve_api.spec.job_kinds import Runner
from scalecurve_operator.runners import RUNNERS, JobRequestError
from tests.operator.runners.runner_cases import RENDERED_WHOLE, case, env, job, manifests, templates


def test_devices_of_all_workers_are_those_asked_for() -> None:
    for runner in RENDERED_WHOLE:
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


def test_users_variables_reach_the_container_as_they_are_written() -> None:
    given = env(manifests("job-own-program")[0]["spec"]["template"])
    assert given["NOTE"] == "$(POD_NAME) costs 5$"
    assert given["NCCL_DEBUG"] == "INFO"
    assert given[contract.PODS_ENV] == "1", "the operator's own"
    assert "POD_NAME" not in given, "read from the pod itself"


def test_variables_from_secrets_are_references_and_never_values() -> None:
    sources = [
        {"secret": "hub", "key": "token", "name": "HF_TOKEN"},
        {"configMap": "paths", "key": "DATA", "optional": True},
        {"secret": "all", "prefix": "S3_"},
        {"secret": "every", "optional": True},
        {"configMap": "more", "optional": True},
    ]
    for runner in RENDERED_WHOLE:
        tree = job(runner, workers=2, workload={"program": "torch", "envFrom": sources})
        for template in templates(tree["spec"]):
            container = template["spec"]["containers"][0]
            named = {entry["name"]: entry["valueFrom"] for entry in container["env"] if "valueFrom" in entry}
            assert named["HF_TOKEN"] == {"secretKeyRef": {"name": "hub", "key": "token"}}
            assert named["DATA"] == {"configMapKeyRef": {"name": "paths", "key": "DATA", "optional": True}}
            assert container["envFrom"] == [
                {"prefix": "S3_", "secretRef": {"name": "all"}},
                {"prefix": f"{contract.HIDDEN_PREFIX}1_", "secretRef": {"name": "all"}},
                {"secretRef": {"name": "every", "optional": True}},
                {"prefix": f"{contract.HIDDEN_PREFIX}3_", "secretRef": {"name": "every", "optional": True}},
                {"configMapRef": {"name": "more", "optional": True}},
            ]


def test_requests_are_the_limits() -> None:
    worker = manifests("job-own-program")[0]["spec"]["template"]["spec"]["containers"][0]
    assert worker["resources"]["limits"] == {"cpu": "1", "memory": "3000000000", "example.com/fpga": "4"}
    assert worker["resources"]["requests"] == worker["resources"]["limits"]


def test_a_limit_that_is_no_quantity_is_refused_by_name() -> None:
    with pytest.raises(
        JobRequestError, match=r"spec\.resources\.limits\.memory: '4 GB': expected a Kubernetes quantity"
    ):
        job(Runner.job, resources={"limits": {"memory": "4 GB"}})


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


def test_no_users_variable_stands_where_a_job_kind_tells_a_pod_its_place() -> None:
    """``rules`` refuses them too; what was begun before it did is not broken by them."""
    mine = {"TF_CONFIG": "{}", "RANK": "7", "K_MPI_JOB_ROLE": "launcher", "NCCL_DEBUG": "INFO"}
    for runner in RENDERED_WHOLE:
        for template in templates(job(runner, workload={"env": mine})["spec"]):
            given = env(template)
            assert {name for name in mine if given.get(name) == mine[name]} == {"NCCL_DEBUG"}


def test_pods_write_to_volumes_of_limited_size_only() -> None:
    for runner in RENDERED_WHOLE:
        for template in templates(job(runner, resources={"limits": {"memory": "4Gi"}})["spec"]):
            (container,) = template["spec"]["containers"]
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            volumes = {volume["name"]: volume["emptyDir"] for volume in template["spec"]["volumes"]}
            assert volumes["shm"] == {"medium": "Memory", "sizeLimit": container["resources"]["limits"]["memory"]}
            assert (volumes["out"], volumes["tmp"]) == ({"sizeLimit": "8Gi"}, {"sizeLimit": "32Gi"})
            assert all(env(template)[name].startswith("/tmp/") for name in ("XDG_CACHE_HOME", "TRITON_CACHE_DIR"))


def test_a_program_may_ask_for_more() -> None:
    template = job(Runner.job, pod={"scratch": "1Ti", "sharedMemory": "2Gi", "writableRoot": True})["spec"]["template"]
    (container,) = template["spec"]["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is False
    volumes = {volume["name"]: volume["emptyDir"] for volume in template["spec"]["volumes"]}
    assert (volumes["shm"]["sizeLimit"], volumes["tmp"]["sizeLimit"]) == ("2Gi", "1Ti")


def test_every_container_of_an_attempt_has_its_secret() -> None:
    for name, runner in (("job-2x8", Runner.job), ("mpijob-2x8", Runner.mpi_job), ("tfjob-2x8", Runner.tf_job)):
        tree = RUNNERS[runner].render(replace(case(name), secret="s3cret"))
        assert {env(template)[contract.SECRET_ENV] for template in templates(tree["spec"])} == {"s3cret"}
