"""``helm upgrade --reuse-values`` from an older chart: values that it did not have are missing."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from scalecurve_operator.settings import read_settings
from tests.chart.rendering import CHART, helm, named
from tools.chart import base

FIRST = {
    *(
        "nameOverride",
        "fullnameOverride",
        "namespaces",
        "pools",
        "startingSeconds",
        "recordBytes",
        "leaseSeconds",
        "log",
    ),
    *("crds", "image", "imagePullSecrets", "workerImages", "serviceAccount", "rbac", "commonLabels", "podAnnotations"),
    *("podLabels", "priorityClassName", "nodeSelector", "tolerations", "affinity", "resources", "extraEnv", "ports"),
    *("livenessProbe", "readinessProbe", "startupProbe", "terminationGracePeriodSeconds", "podDisruptionBudget"),
    *("networkPolicy", "serviceMonitor", "podMonitor", "prometheusFiles", "prometheusRule", "dashboard"),
}
"""The values that every chart has had. All others may be missing from values that a release reuses."""
pytestmark = pytest.mark.usefixtures("helm")


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """The chart, with the default values of the first one."""
    chart = tmp_path / "scalecurve"
    shutil.copytree(CHART, chart)
    values = yaml.safe_load((chart / "values.yaml").read_text())
    (chart / "values.yaml").write_text(yaml.safe_dump({name: values[name] for name in values if name in FIRST}))
    return chart


def rendered(chart: Path, *arguments: str) -> list[dict[str, Any]]:
    return base.render(helm(), *arguments, chart=chart)


@pytest.mark.parametrize("chosen", [("--set", "clusterWide=true"), ("--set", "namespaces={team-a}")])
def test_missing_values_are_the_defaults(older: Path, chosen: tuple[str, str]) -> None:
    assert rendered(older, *chosen) == rendered(CHART, *chosen)


def test_the_operator_takes_its_settings(older: Path) -> None:
    """It ended with ``SCALECURVE_EXPERIMENT_RECORD_BYTES='0': expected an integer from 1.04858e+06``."""
    (deployment,) = named(rendered(older, "--set", "clusterWide=false"), "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    environment = {each["name"]: each["value"] for each in container["env"] if "value" in each}
    assert read_settings(environment).experiment_record_bytes == 512 << 20


def test_values_that_meant_every_namespace_are_not_taken_for_the_release_s_own(older: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError) as refused:
        rendered(older)
    assert "set clusterWide=true to keep that" in refused.value.stderr
