"""Installed by Helm into the whole cluster, the operator as a process: its own Deployment's environment and rights."""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.applied import Applied, manifest
from tests.waiting import PATIENCE_S
from tools.devcluster import toolchain
from tools.devcluster.components import Component
from tools.devcluster.ports import Ports
from tools.devcluster.tier import Tier, lacking

CHART = Path(__file__).parents[2] / "charts" / "scalecurve"
NAMESPACE = "scalecurve-system"


@pytest.fixture(scope="module")
def bare() -> Iterator[Tier]:
    """A cluster of its own: an operator of the whole cluster would take other tests' experiments."""
    if why := lacking(operators=()) or (toolchain.missing(["helm"]) and "helm is not built"):
        pytest.skip(str(why))
    with Tier(operators=()) as running:
        running.add_nodes(2)
        yield running


def helm(tier: Tier, *arguments: str | Path) -> None:
    environment = {**os.environ, "KUBECONFIG": str(tier.kubeconfig)}
    command = [toolchain.binary("helm"), *arguments, "-n", NAMESPACE]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def answers(port: int, path: str) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def deployed(tier: Tier) -> dict[str, Any]:
    """The operator's Deployment, as it is in the cluster."""
    found = tier.rest.call("GET", f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments")["items"]
    assert len(found) == 1
    return dict(found[0])


def test_what_helm_installs_runs_an_experiment(bare: Tier) -> None:
    ports = Ports()
    health, metrics = ports.take(), ports.take()
    bare.namespace(NAMESPACE)
    chosen = ("--set", f"ports.health={health}", "--set", f"ports.metrics={metrics}", "--set", "clusterWide=true")
    helm(bare, "install", "scalecurve", CHART, "--take-ownership", *chosen)
    pod = deployed(bare)["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["command"][-2:] == ["-m", "scalecurve_operator"] or container["args"]
    environment = {each["name"]: each.get("value", "") for each in container["env"]}
    environment |= {"POD_NAME": "scalecurve-0", "KUBERNETES_SERVICE_HOST": ""}
    environment["KUBECONFIG"] = str(bare.user(f"system:serviceaccount:{NAMESPACE}:{pod['serviceAccountName']}"))
    log = bare.logs / "installed-operator.log"
    operator = Component(
        "the installed operator",
        [sys.executable, "-m", "scalecurve_operator"],
        log,
        lambda: answers(health, "/readyz"),
        environment,
    )
    operator.start()
    try:
        operator.wait(PATIENCE_S)
        teams = [bare.namespace(name) for name in ("team-a", "team-b")]
        for team in teams:
            applied = Applied.apply(bare, manifest(team))
            assert applied.final()["phase"] == "Succeeded"
            applied.gone()
        assert answers(health, "/healthz")
        assert answers(metrics, "/metrics")
        assert " 403 " not in log.read_text()
        assert "Forbidden" not in log.read_text()
    except BaseException as error:
        error.add_note(operator.last_lines(40))
        raise
    finally:
        operator.kill()
        ports.release()
    helm(bare, "uninstall", "scalecurve")
    left = bare.rest.call("GET", f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments")["items"]
    assert left == []
