"""The value of a Secret goes to the pods, and is in nothing that the operator or a user keeps of the trial."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from scalecurve.bundle.open import open_bundle
from scalecurve.reporting import report
from tests.cluster.applied import Applied, manifest
from tests.cluster.cli_desk import Desk
from tests.cluster.operator_process import OperatorProcess
from tests.waiting import eventually
from tools.devcluster.tier import Tier

NAMED, WHOLE, PREFIXED = "named-canary-Zq91", "whole-canary-Zq92", "prefixed-canary-Zq93"
SOURCES = [
    {"secret": "named", "key": "token", "name": "FROM_SECRET"},
    {"secret": "whole"},
    {"secret": "prefixed", "prefix": "S3_"},
]
SECRETS = {"named": {"token": NAMED}, "whole": {"login": WHOLE}, "prefixed": {"login": PREFIXED}}


def everything(folder: Path) -> str:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return "".join(f"{path}{path.read_bytes().decode(errors='replace')}" for path in paths)


def objects(tier: Tier, namespace: str) -> dict[str, str]:
    """Every object of a namespace but its Secrets, by kind; what is in base64 is decoded beside it."""
    kinds = tier.kubectl("api-resources", "--namespaced", "--verbs=list", "-o", "name").split()
    found = {}
    for kind in sorted({kind for kind in kinds if kind != "secrets"}):
        text = tier.kubectl("get", kind, "-n", namespace, "-o", "json")
        for each in json.loads(text)["items"]:
            text += "".join(
                base64.b64decode(data).decode(errors="replace") for data in (each.get("binaryData") or {}).values()
            )
        found[kind] = text
    return found


@pytest.mark.timeout(300)
def test_a_canary_is_nowhere(tier: Tier, namespace: str, tmp_path: Path) -> None:
    for name, data in SECRETS.items():
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data}
        tier.rest.call("POST", f"/api/v1/namespaces/{namespace}/secrets", body)
    desk = Desk(tier, tmp_path, namespace)
    with OperatorProcess(tier, namespace, settings={"LOG_LEVEL": "DEBUG", "POOLS": "default=2"}) as operator:
        applied = []
        for name, play in (("good", "succeed"), ("bad", "fail")):
            env = {"PLAY": play, "PLAY_PRINT": "1", "PLAY_SECONDS": "1"}
            tree = manifest(namespace, name=name, workload={"env": env, "envFrom": SOURCES})
            applied.append(Applied.apply(tier, tree))
        jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
        eventually(lambda: b"FROM_SECRET" in tier.rest.raw("GET", jobs), "a job that asks")
        assert [each.final()["phase"] for each in applied] == ["Succeeded", "Failed"]
        kept = {f"objects: {kind}": text for kind, text in objects(tier, namespace).items()}
        for each in applied:
            desk("pull", each.name, "--into", each.name)
            report([open_bundle(tmp_path / each.name)], tmp_path / f"{each.name}-report")
            kept[f"status of {each.name}"] = desk("status", each.name, "-o", "json").out
        kept |= {"operator's log": operator.output(), "operator's metrics": operator.metrics()}
    kept["bundles and reports"] = everything(tmp_path)
    assert "S3_login=***" in kept["bundles and reports"], "the program printed it, and what it printed is kept"
    for where, text in kept.items():
        for canary in (NAMED, WHOLE, PREFIXED):
            assert canary not in text, f"{canary} in {where}"
