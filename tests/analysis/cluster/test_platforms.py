"""What nodes and API groups show about a platform, and whether an experiment uses it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from scalecurve.cluster.platforms import OVERLAYS, detected, fabric, uses
from scalecurve_api.spec.experiment import ExperimentSpec

ROOT = Path(__file__).parents[3]
SCALING = {"scaling": {"workers": [1], "batch": {"global": 8}}}


def node(name: str = "a", labels: dict[str, str] | None = None, **allocatable: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels or {}}, "status": {"allocatable": allocatable}}


CASES: dict[str, tuple[list[dict[str, Any]], set[str]]] = {
    "infiniband": ([node(**{"nvidia.com/hostdev": "8"}), node("b")], set()),
    "efa": ([node(**{"vpc.amazonaws.com/efa": "32"})], set()),
    "gke-tcpxo": ([node(labels={"cloud.google.com/gke-accelerator": "nvidia-h100-mega-80gb"})], set()),
    "nvl72": ([node(labels={"nvidia.com/gpu.clique": "a.0"}), node("b", {"nvidia.com/gpu.clique": "b.0"})], set()),
    "openshift": ([node()], {"apps", "security.openshift.io"}),
}


@pytest.mark.parametrize("name", CASES)
def test_a_platform_is_detected_and_its_overlay_uses_it(name: str) -> None:
    nodes, groups = CASES[name]
    (platform,) = detected(nodes, groups)
    assert platform.name == name
    overlay = yaml.safe_load((ROOT / OVERLAYS / f"{name}.yaml").read_text())["spec"]
    assert uses(ExperimentSpec.model_validate({**SCALING, **overlay}), platform)
    assert not uses(ExperimentSpec.model_validate(SCALING), platform)


def test_plain_ethernet() -> None:
    assert detected([node(**{"nvidia.com/gpu": "8"})], {"apps"}) == []
    assert "plain Ethernet" in (fabric([node()]) or "")
    assert fabric([]) is None
    assert fabric(CASES["efa"][0]) is None
    assert fabric(CASES["nvl72"][0]) is not None, "NVLink joins a rack, and no racks"


def test_a_device_that_no_node_has_left_is_no_fabric() -> None:
    assert detected([node(**{"rdma/hca": "0"})], set()) == []
    (platform,) = detected([node(**{"rdma/hca": "1"}), node("b", **{"rdma/hca": "0"})], set())
    assert "rdma/hca on 1 of 2 nodes" in platform.found
