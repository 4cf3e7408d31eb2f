import copy
from typing import Any

import pytest

from scalecurve_kube.client import EXPERIMENTS, TRIALS
from scalecurve_operator.cache.object_cache import Key, Sightings
from scalecurve_operator.cache.trim import shed


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
        sightings = Sightings()
        see = {TRIALS.plural: sightings.see_trial, EXPERIMENTS.plural: sightings.see_experiment}
        see.get(plural, sightings.see_job)(raw)
        if which == "shed":
            shed(raw, plural)
        (family,) = sightings.families.values()
        for job in family.jobs.values():
            job.first_seen = job.last_seen = 0.0
        seen[which] = family
    assert seen["shed"] == seen["whole"]
    assert "managedFields" not in shown["metadata"]
    assert shown["metadata"]["labels"] == given["metadata"]["labels"]


def test_an_ended_trial_is_left_with_little() -> None:
    given = body("ScalingTrial", {"phase": "Failed", "message": "m" * 500}, name="t", measure={})
    shed(given, TRIALS.plural)
    assert given["spec"] == {}
    assert given["status"] == {}
    sightings = Sightings()
    sightings.see_trial(given)
    assert sightings.lose_trial(given) == Key("ns", "e")
