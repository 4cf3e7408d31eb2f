"""The kustomize base is the chart's default output, for those who have no Helm."""

import json
import subprocess
from typing import Any

import pytest
import yaml

from tests.chart.rendering import ROOT, base, helm
from tools.devcluster import toolchain

pytestmark = pytest.mark.usefixtures("helm")
BASE = ROOT / "manifests" / "base"


def built() -> list[dict[str, Any]]:
    command = [toolchain.binary("kubectl"), "kustomize", BASE]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return list(yaml.safe_load_all(done.stdout))


def by_name(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Objects by kind and name, without what only a release gives to CRDs."""
    named = {}
    for each in found:
        if each["kind"] == "CustomResourceDefinition":
            each["metadata"].pop("labels", None)
            each["metadata"].pop("annotations", None)
        named[f"{each['kind']}/{each['metadata']['name']}"] = json.dumps(each, sort_keys=True, indent=1)
    return named


def test_the_base_equals_the_charts_default_output() -> None:
    chart = by_name(list(yaml.safe_load_all(base.remove_release_labels(base.template(helm(), "--skip-tests")))))
    kustomized = by_name(built())
    namespace = json.loads(kustomized.pop(f"Namespace/{base.NAMESPACE}"))
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    assert kustomized == chart, "run `make chart`"


def test_nothing_of_helm_is_left() -> None:
    text = base.OUTPUT.read_text(encoding="utf-8")
    assert "helm.sh" not in text
    assert ": Helm" not in text
