"""kubeconform with the API server's own schemas, and kube-linter; both over everything that the chart can render."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.openapi import LOCATION, write_schemas
from tests.chart.rendering import CASES, HERE, MONITORING, lacking, objects
from tools.devcluster import toolchain
from tools.devcluster.tier import Tier

LOCAL = HERE / "schemas"
EVERY_CASE = pytest.mark.parametrize("case", CASES)


@pytest.fixture(scope="module")
def server_schemas(tier: Tier, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("openapi")
    assert len(write_schemas(tier.rest, folder)) > 50
    return folder


@pytest.fixture
def kubeconform() -> Path:
    if why := lacking("kubeconform"):
        pytest.skip(why)
    return toolchain.binary("kubeconform")


def conform(kubeconform: Path, schemas: Path, found: list[dict[str, Any]]) -> dict[str, Any]:
    """Its report; a kind without a schema is an error in it."""
    command = [
        kubeconform, "-strict", "-summary", "-output", "json", "-schema-location", f"{schemas}/{LOCATION}",
        "-schema-location", f"{LOCAL}/{LOCATION}", "-",
    ]  # fmt: skip
    done = subprocess.run(command, input=yaml.safe_dump_all(found), capture_output=True, text=True, check=False)
    return dict(json.loads(done.stdout))


@EVERY_CASE
def test_every_object_conforms(case: str, kubeconform: Path, server_schemas: Path) -> None:
    found = objects(*CASES[case])
    report = conform(kubeconform, server_schemas, found)
    assert report.get("resources", []) == []
    assert report["summary"] == {"valid": len(found), "invalid": 0, "errors": 0, "skipped": 0}


def test_an_object_with_an_unknown_field_does_not(kubeconform: Path, server_schemas: Path) -> None:
    for kind in ("Deployment", "PodMonitor"):
        wrong = next(each for each in objects(*CASES["everything"]) if each["kind"] == kind)
        wrong["spec"]["replica"] = 1
        report = conform(kubeconform, server_schemas, [wrong])
        assert report["summary"]["invalid"] == 1
        assert "replica" in report["resources"][0]["msg"]


def test_schemas_written_by_hand_are_only_for_kinds_that_no_server_here_has() -> None:
    kinds = {f"{each['kind'].lower()}-monitoring-v1.json" for each in objects(*CASES["everything"])
             if each["apiVersion"].startswith(MONITORING)}  # fmt: skip
    assert {path.name for path in LOCAL.iterdir()} == kinds


@EVERY_CASE
def test_kube_linter_finds_nothing(case: str, helm: None, tmp_path: Path) -> None:
    if why := lacking("kube-linter"):
        pytest.skip(why)
    (tmp_path / "all.yaml").write_text(yaml.safe_dump_all(objects(*CASES[case])), encoding="utf-8")
    command = [
        toolchain.binary("kube-linter"), "lint", "--config", HERE / "kube-linter.yaml", "--format", "json",
        tmp_path / "all.yaml",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    report = json.loads(done.stdout)
    assert [f"{each['Check']}: {each['Diagnostic']['Message']}" for each in report["Reports"] or []] == []
    assert len(report["Checks"]) > 40
    assert done.returncode == 0, done.stderr
