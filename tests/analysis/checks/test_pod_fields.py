"""Names of fields in ``pod.template``, offline and at every depth."""

import sys
from pathlib import Path

import pytest

from scalecurve.checks.validation import validate

EXPERIMENT = """\
apiVersion: scalecurve.dev/v1alpha1
kind: ScalingExperiment
metadata: {{name: x}}
spec:
  scaling: {{modes: [{mode}], workers: [1, 2], batch: {{perWorker: 8}}}}
  pod:
    template:
      spec:
{pod}
"""
TYPO = """\
        containers:
          - name: worker
            env:
              - name: TOKEN
                valueFrom:
                  secretKeyReff: {name: hub, key: token}
"""
MANIFESTS = Path(__file__).parents[3] / "manifests"


def said(folder: Path, pod: str, mode: str = "weak") -> list[str]:
    file = folder / "x.yaml"
    file.write_text(EXPERIMENT.format(mode=mode, pod=pod))
    (checked,) = validate([file])
    return [str(problem).removeprefix(f"{file}:") for problem in checked.problems]


def test_a_typo_deep_in_a_pod_is_named_with_its_path(tmp_path: Path) -> None:
    assert said(tmp_path, TYPO) == [
        "14: spec.pod.template.spec.containers[0].env[0].valueFrom.secretKeyReff: "
        "unknown field 'secretKeyReff'; did you mean 'secretKeyRef'?"
    ]


def test_it_is_named_beside_other_mistakes(tmp_path: Path) -> None:
    assert [line.split(":")[0] for line in said(tmp_path, TYPO, mode="waek")] == ["5", "14"]


@pytest.mark.parametrize(
    ("pod", "wrong"),
    [
        ("        tolerationSeconds: 3", "unknown field 'tolerationSeconds'"),
        ("        nodeselector: {a: b}", "did you mean 'nodeSelector'?"),
        ("        tolerations: {key: x}", 'got {"key": "x"}; expected a list'),
        ("        affinity: {nodeAffinity: [x]}", 'affinity.nodeAffinity: got ["x"]; expected a mapping'),
        ("        volumes: [{name: a, emptydir: {}}]", "volumes[0].emptydir: unknown field 'emptydir'; did you mean"),
        ("        initContainers: [{name: a, resources: {limit: {cpu: 1}}}]", "did you mean 'limits'?"),
    ],
)
def test_what_is_no_field_of_a_pod(tmp_path: Path, pod: str, wrong: str) -> None:
    (line,) = said(tmp_path, pod)
    assert wrong in line


def test_patches_and_free_names_are_taken(tmp_path: Path) -> None:
    pod = """\
        nodeSelector: {any.example/name: x}
        affinity: null
        containers:
          - {name: worker, livenessProbe: {httpGet: {port: named}}, resources: {limits: {any.example/x: 3}}}
          - {name: other, $patch: delete}
"""
    assert said(tmp_path, pod) == []


def test_overlays_are_checked_at_their_own_lines(tmp_path: Path) -> None:
    experiment, overlay = tmp_path / "x.yaml", tmp_path / "o.yaml"
    experiment.write_text(EXPERIMENT.format(mode="weak", pod="        hostNetwork: true"))
    overlay.write_text("spec: {pod: {template: {spec: {dnsPolice: None}}}}")
    (checked,) = validate([experiment], [overlay])
    assert [str(problem) for problem in checked.problems] == [
        f"{overlay}:1: spec.pod.template.spec.dnsPolice: unknown field 'dnsPolice'; did you mean 'dnsPolicy'?"
    ]


@pytest.mark.parametrize("overlay", sorted((MANIFESTS / "platforms").glob("*.yaml")), ids=lambda path: path.stem)
def test_the_overlays_that_ship_have_no_other_names(overlay: Path) -> None:
    (checked,) = validate([MANIFESTS / "experiments/allreduce.yaml"], [overlay])
    assert checked.problems == ()


def test_without_the_client_a_warning_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scalecurve_kube.pod_schema", None)
    file = tmp_path / "x.yaml"
    file.write_text(EXPERIMENT.format(mode="weak", pod=TYPO))
    (checked,) = validate([file])
    assert checked.problems == ()
    (warning,) = checked.warnings
    assert "names of its fields are not checked without the Kubernetes client" in str(warning)
