"""What the chart renders: golden files, the CRDs, the notes, and what holds in every case."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from scalecurve_api.validation.validate import validate_text
from scalecurve_operator.settings import read_settings
from tests.chart.rendering import CASES, CHART, base, named, objects
from tests.chart.rendering import helm as helm_binary
from tools.generated import KINDS, GeneratedFiles

pytestmark = pytest.mark.usefixtures("helm")
EVERY_CASE = pytest.mark.parametrize("case", CASES)


def deployment(*arguments: str) -> dict[str, Any]:
    (found,) = named(objects(*arguments), "Deployment")
    return found


def container(*arguments: str) -> dict[str, Any]:
    (found,) = deployment(*arguments)["spec"]["template"]["spec"]["containers"]
    return dict(found)


def environment(*arguments: str) -> dict[str, str]:
    return {each["name"]: each.get("value", "") for each in container(*arguments)["env"]}


def test_helm_lints_it_strictly() -> None:
    for arguments in CASES.values():
        done = subprocess.run(
            [helm_binary(), "lint", "--strict", CHART, *arguments], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("files", [files for files in KINDS if files.needs], ids=lambda files: files.kind)
def test_what_helm_generates_is_current(files: GeneratedFiles) -> None:
    """`make check` skips these where helm is not built."""
    assert list(files.stale()) == [], "read the change, then `make fix`"


def test_the_crds_are_those_of_the_models_and_are_kept() -> None:
    found = {crd["metadata"]["name"]: crd for crd in named(objects(), "CustomResourceDefinition")}
    wanted = [yaml.safe_load(path.read_text()) for path in (CHART / "files/crds").glob("scalecurve.dev_*.yaml")]
    assert sorted(found) == sorted(crd["metadata"]["name"] for crd in wanted)
    for crd in wanted:
        rendered = found[crd["metadata"]["name"]]
        assert rendered["spec"] == crd["spec"], "run `make crds`"
        assert rendered["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}


def test_the_crds_can_be_left_out() -> None:
    assert named(objects("--set", "crds.install=false"), "CustomResourceDefinition") == []


@EVERY_CASE
def test_pods_are_restricted_and_write_nowhere(case: str) -> None:
    found = objects(*CASES[case])
    specs = [each["spec"]["template"]["spec"] for each in named(found, "Deployment")]
    specs += [each["spec"] for each in named(found, "Pod")]
    assert len(specs) == 2
    for spec in specs:
        assert spec["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
        for each in spec["containers"]:
            assert each["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
                "readOnlyRootFilesystem": True,
                "runAsNonRoot": True,
            }


@EVERY_CASE
def test_there_is_never_more_than_one_operator(case: str) -> None:
    spec = deployment(*CASES[case])["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})


@EVERY_CASE
def test_the_operator_understands_its_environment(case: str) -> None:
    given = environment(*CASES[case])
    settings = read_settings(given)
    read = {"POD_NAME", "HTTPS_PROXY"} | {name for name in given if name.startswith("SCALECURVE_")}
    assert set(given) <= read
    chosen = yaml.safe_load(Path(CASES[case][1]).read_text()) if CASES[case] else {}
    own = () if chosen.get("clusterWide") else (base.NAMESPACE,)
    assert settings.namespaces == tuple(chosen.get("namespaces", own))
    assert dict(settings.pools) == chosen.get("pools", {"default": 1})
    assert settings.unlisted_pools == chosen.get("unlistedPools", "refuse")
    assert settings.max_experiment_hours == chosen.get("maxExperimentHours", 168)
    assert list(settings.forbidden_pod_options) == chosen.get("forbiddenPodOptions", [])
    assert settings.records_url == chosen.get("recordsUrl", "")
    assert settings.experiment_record_bytes == chosen.get("experimentRecordBytes", 512 << 20)
    assert settings.starting_seconds == chosen.get("startingSeconds", 30)
    assert settings.record_bytes == chosen.get("recordBytes", 4194304)
    assert settings.lease_seconds == chosen.get("leaseSeconds", 10)
    log = chosen.get("log", {"level": "INFO", "format": "json"})
    assert {"level": settings.log_level, "format": settings.log_format} == log
    ports = {"metrics": settings.metrics_port, "health": settings.health_port}
    assert ports == chosen.get("ports", {"metrics": 8080, "health": 8081})
    assert settings.lease_namespace == base.NAMESPACE


def test_the_lease_that_the_operator_takes_is_the_one_it_may_take() -> None:
    for arguments in CASES.values():
        found = objects(*arguments)
        name = environment(*arguments)["SCALECURVE_LEASE_NAME"]
        assert [lease["metadata"]["name"] for lease in named(found, "Lease")] == [name]
        rules = [rule for role in named(found, "Role") for rule in role["rules"]]
        assert [rule["resourceNames"] for rule in rules if "resourceNames" in rule] == [[name]]


def test_a_digest_wins_over_a_tag() -> None:
    digest = "sha256:" + "0" * 64
    pinned = ("--set", f"image.digest={digest},image.tag=1.2", "--set", f"workerImages.torch.digest={digest}")
    assert container(*pinned)["image"] == f"ghcr.io/scalecurve/operator@{digest}"
    assert environment(*pinned)["SCALECURVE_IMAGE_TORCH"] == f"ghcr.io/scalecurve/worker-torch@{digest}"
    assert container("--set", "image.tag=1.2")["image"] == "ghcr.io/scalecurve/operator:1.2"


def test_own_labels_never_replace_those_that_select_the_pod() -> None:
    spec = deployment("--set", "podLabels.app\\.kubernetes\\.io/name=other")["spec"]
    assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()


def test_two_releases_share_no_cluster_wide_name() -> None:
    def cluster_wide(namespace: str) -> set[str]:
        found = objects("--namespace", namespace)
        return {each["metadata"]["name"] for each in found if each["kind"].startswith("ClusterRole")}

    assert cluster_wide("one") & cluster_wide("two") == set()


def test_names_of_a_long_release_are_valid() -> None:
    found = objects("--set", f"fullnameOverride={'r' * 53}", "--namespace", "n" * 63)
    for each in found:
        assert len(each["metadata"]["name"]) <= (253 if "rbac" in each["apiVersion"] else 63)


def test_the_example_on_artifact_hub_is_right() -> None:
    annotations = yaml.safe_load((CHART / "Chart.yaml").read_text())["annotations"]
    examples = yaml.safe_load(annotations["artifacthub.io/crdsExamples"])
    for example in examples:
        assert [str(problem) for problem in validate_text(yaml.safe_dump(example), "example").problems] == []
    images = {each["image"] for each in yaml.safe_load(annotations["artifacthub.io/images"])}
    used = {value for name, value in environment().items() if name.startswith("SCALECURVE_IMAGE_")}
    assert images == used | {container()["image"]}
