"""Strategic merge patches of pods."""

from __future__ import annotations

from typing import Any

import pytest

from scalecurve_api.spec.job_kinds import Runner
from scalecurve_operator.runners import strategic_merge
from tests.operator.runners.runner_cases import RENDERED_WHOLE, job, templates

POD: dict[str, Any] = {
    "spec": {
        "securityContext": {"runAsUser": 1000, "fsGroup": 1000},
        "containers": [{"name": "worker", "env": [{"name": "A", "value": "1"}], "ports": [{"containerPort": 1}]}],
        "tolerations": [{"key": "a"}],
    }
}


def patched(**spec: Any) -> dict[str, Any]:
    return dict(strategic_merge.merged(POD, {"spec": spec})["spec"])


def test_lists_with_a_key_are_merged_and_others_replaced() -> None:
    env = [{"name": "B", "value": "2"}, {"name": "A", "value": "3"}]
    new = patched(containers=[{"name": "worker", "env": env}, {"name": "side"}], tolerations=[{"key": "b"}])
    assert new["containers"] == [
        {
            "name": "worker",
            "env": [{"name": "A", "value": "3"}, {"name": "B", "value": "2"}],
            "ports": [{"containerPort": 1}],
        },
        {"name": "side"},
    ]
    assert new["tolerations"] == [{"key": "b"}]
    assert new["securityContext"] == {"runAsUser": 1000, "fsGroup": 1000}


def test_null_removes_a_field() -> None:
    assert patched(securityContext={"runAsUser": None})["securityContext"] == {"fsGroup": 1000}


@pytest.mark.parametrize(
    ("change", "left"),
    [
        ([{"name": "A", "$patch": "delete"}], []),
        ([{"name": "X", "$patch": "delete"}], [{"name": "A", "value": "1"}]),
        ([{"$patch": "replace"}, {"name": "B"}], [{"name": "B"}]),
    ],
)
def test_directives(change: list[Any], left: list[Any]) -> None:
    assert patched(containers=[{"name": "worker", "env": change}])["containers"][0]["env"] == left


def test_nothing_that_was_given_is_changed() -> None:
    before = repr(POD)
    patched(containers=[{"name": "worker", "env": [{"name": "A", "value": "9"}]}])["containers"][0]["env"].clear()
    assert repr(POD) == before


@pytest.mark.parametrize("runner", RENDERED_WHOLE)
def test_the_main_container_has_one_name_whatever_the_job_kind_calls_it(runner: Runner) -> None:
    patch = {"spec": {"containers": [{"name": "worker", "env": [{"name": "MINE", "value": "1"}]}]}}
    for template in templates(job(runner, workers=16, pod={"template": patch})["spec"]):
        (container,) = template["spec"]["containers"]
        assert {"name": "MINE", "value": "1"} in container["env"]


def test_no_user_is_forced_where_the_platform_assigns_one() -> None:
    (template,) = templates(job(Runner.job, pod={"platformUser": True})["spec"])
    context = template["spec"]["securityContext"]
    assert context == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


def test_the_job_object_has_labels_and_annotations_of_its_own() -> None:
    pod = {"jobLabels": {"kueue.x-k8s.io/priority-class": "high"}, "jobAnnotations": {"a/b": "c"}}
    tree = job(Runner.job_set, pod=pod)
    assert tree["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] == "high"
    assert tree["metadata"]["annotations"] == {"a/b": "c"}
    (template,) = templates(tree["spec"])
    assert "kueue.x-k8s.io/priority-class" not in template["metadata"]["labels"]
