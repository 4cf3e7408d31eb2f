"""TFJobs: TF_CONFIG of a single worker, and the chief of parameter servers."""

from __future__ import annotations

from dataclasses import replace

from scalecurve_api.spec.job_kinds import Runner
from scalecurve_operator.runners import RUNNERS
from tests.operator.runners.runner_cases import case, env, job, templates


def test_the_chief_of_parameter_servers_has_the_metrics_of_every_worker() -> None:
    scraped = replace(case("tfjob-parameter-server"), metrics_port=9400)
    replicas = RUNNERS[Runner.tf_job].render(scraped)["spec"]["tfReplicaSpecs"]
    ports = {kind: each["template"]["spec"]["containers"][0].get("ports") for kind, each in replicas.items()}
    of_chief = [{"name": f"metrics-{index}", "containerPort": 9400 + index} for index in range(4)]
    assert ports == {"Chief": of_chief, "PS": None, "Worker": None}


def test_one_tensorflow_worker_is_configured_like_many() -> None:
    alone = next(templates(job(Runner.tf_job, workers=1)["spec"]))
    assert '"task": {"type": "worker", "index": 0}' in env(alone)["TF_CONFIG"]
    for template in templates(job(Runner.tf_job, workers=16)["spec"]):
        assert "TF_CONFIG" not in env(template), "the operator's own"
