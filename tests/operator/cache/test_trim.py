import copy
from typing import Any

import pytest

from scalecurve_kube.resources import EXPERIMENTS, TRIALS
from scalecurve_operator.cache.cached_objects import Key
from scalecurve_operator.cache.object_cache import ObjectCache, trim


def body(kind: str, status: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "kind": kind,
        "metadata": {
            "name": "e-t-a1",
            "namespace": "ns",
            "uid": "u",
            "resourceVersion": "7",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"scalecurve.dev/experiment": "e", "scalecurve.dev/trial": "e-t", "scalecurve.dev/attempt": "1"},
            "managedFields": [{"manager": "m"}],
            "ownerReferences": [{"uid": "owner"}],
        },
        "spec": spec,
        "status": status,
    }


@pytest.mark.parametrize(
    ("plural", "given"),
    [
        (TRIALS.plural, body("ScalingTrial", {"phase": "Running", "attempts": 1, "jobUid": "j"}, name="t")),
        (
            TRIALS.plural,
            body("ScalingTrial", {"phase": "Succeeded", "attempts": 1, "summary": {"throughput": 1.0}}, name="t"),
        ),
        ("jobs", body("Job", {"active": 1, "ready": 1}, completions=1, suspend=False, template={"spec": {}})),
        ("mpijobs", body("MPIJob", {"conditions": []}, runPolicy={"suspend": True}, mpiReplicaSpecs={})),
        (EXPERIMENTS.plural, body("ScalingExperiment", {"phase": "Succeeded"}, scaling={})),
    ],
)
def test_what_was_seen_is_not_taken_away(plural: str, given: dict[str, Any]) -> None:
    shown, left_alone = copy.deepcopy(given), copy.deepcopy(given)
    seen = {}
    for which, raw in (("shed", shown), ("whole", left_alone)):
        cache = ObjectCache()
        see = {TRIALS.plural: cache.upsert_trial, EXPERIMENTS.plural: cache.upsert_experiment}
        see.get(plural, cache.upsert_job)(raw)
        if which == "shed":
            trim(raw, plural)
        (family,) = cache.experiments.values()
        for job in family.jobs.values():
            job.first_seen = job.last_seen = 0.0
        seen[which] = family
    assert seen["shed"] == seen["whole"]
    assert "managedFields" not in shown["metadata"]
    assert shown["metadata"]["labels"] == given["metadata"]["labels"]


def test_an_ended_trial_is_left_with_little() -> None:
    given = body("ScalingTrial", {"phase": "Failed", "message": "m" * 500}, name="t", measure={})
    trim(given, TRIALS.plural)
    assert given["spec"] == {}
    assert given["status"] == {}
    cache = ObjectCache()
    cache.upsert_trial(given)
    assert cache.delete_trial(given) == Key("ns", "e")
