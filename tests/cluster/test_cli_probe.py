"""``scalecurve probe`` before a real API server and scheduler, with nodes and links that are played as slow."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.applied import manifest
from tests.cluster.cli_desk import Desk
from tests.cluster.operator_process import OperatorProcess
from tools.devcluster.tier import Tier

LABEL = "scalecurve.test/probe"
COUNT = 16


@pytest.fixture(scope="module")
def probed(tier: Tier) -> Iterator[list[str]]:
    """Nodes that only these tests select, whose hostname label is not their name."""
    labels = {LABEL: "yes", "kubernetes.io/hostname": "some-host"}
    names = tier.add_nodes(1, gpus=1, prefix="probe-a", labels={**labels, "kubernetes.io/hostname": "other-host"})
    names += tier.add_nodes(COUNT - 1, gpus=1, prefix="probe", labels={LABEL: "yes"})
    yield names
    tier.remove_nodes(names)


@pytest.fixture
def desk(tier: Tier, namespace: str, operator: OperatorProcess, tmp_path: Path) -> Desk:
    return Desk(tier, tmp_path, namespace)


def experiment(desk: Desk, slow: str) -> Path:
    tree: dict[str, Any] = manifest(desk.namespace, workers=(1,), pod={"nodeSelector": {LABEL: "yes"}})
    tree["spec"]["workload"]["env"]["PLAY_SLOW"] = slow
    path = desk.folder / "e.yaml"
    path.write_text(yaml.safe_dump(tree))
    return path


def experiments(tier: Tier, namespace: str) -> list[str]:
    path = f"/apis/scalecurve.dev/v1alpha1/namespaces/{namespace}/scalingexperiments"
    return [each["metadata"]["name"] for each in tier.rest.call("GET", path)["items"]]


def test_a_slow_node_is_found_in_twice_the_root(tier: Tier, desk: Desk, probed: list[str]) -> None:
    slow = probed[6]
    ran = desk("probe", experiment(desk, f"{slow}*1.5"), "--repetitions", "2", "--write", "out.yaml", "-o", "json",
               code=1)  # fmt: skip
    assert [(row["what"], row["where"]) for row in ran.json["probe"]["rows"]] == [("node", slow)]
    assert len(ran.json["runs"]["rows"]) <= 2 * math.sqrt(COUNT)
    assert all((slow in row["nodes"].split(", ")) == row["slow"] for row in ran.json["runs"]["rows"])
    assert experiments(tier, desk.namespace) == []
    left_out = yaml.safe_load((desk.folder / "out.yaml").read_text())
    assert slow in str(left_out)
    assert "excludes" in ran.err
    # A second probe with that overlay runs on the others.
    again = desk("probe", experiment(desk, f"{slow}*1.5"), "--overlay", "out.yaml", "--repetitions", "2", "-o", "json")
    assert again.json["probe"]["rows"] == []
    assert not any(slow in row["nodes"].split(", ") for row in again.json["runs"]["rows"])


def test_a_slow_link(desk: Desk, probed: list[str]) -> None:
    names = sorted(probed)[:4]
    chosen = [word for name in names for word in ("--node", name)]
    ran = desk("probe", experiment(desk, f"{names[0]}~{names[1]}*1.5"), "--repetitions", "2", *chosen, "-o", "json",
               code=1)  # fmt: skip
    assert [(row["what"], row["where"]) for row in ran.json["probe"]["rows"]] == [("link", f"{names[0]} - {names[1]}")]


def test_a_node_that_does_not_exist(desk: Desk, probed: list[str]) -> None:
    ran = desk("probe", experiment(desk, ""), "--node", "nowhere", code=2)
    assert "--node nowhere: not a ready node" in ran.err
