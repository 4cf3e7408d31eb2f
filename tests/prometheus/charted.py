"""What the chart says to a Prometheus without its operator, as its ConfigMap has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tests.chart import rendering


def files(*arguments: str) -> dict[str, str]:
    """Name → text of the files in the ConfigMap; `arguments` are helm's."""
    found = rendering.objects("--set", "prometheusFiles.enabled=true", *arguments)
    (config_map,) = (
        each for each in rendering.named(found, "ConfigMap") if each["metadata"]["name"].endswith("-prometheus")
    )
    return dict(config_map["data"])


def scrape_configs(kubeconfig: Path, *arguments: str) -> list[dict[str, Any]]:
    """The scrape configurations, for a Prometheus outside of the cluster."""
    configs: list[dict[str, Any]] = yaml.safe_load(files(*arguments)["scrape.yaml"])["scrape_configs"]
    for config in configs:
        for discovery in config["kubernetes_sd_configs"]:
            discovery["kubeconfig_file"] = str(kubeconfig)
    return configs


def rules(namespace: str) -> dict[str, Any]:
    """The rules of a release in `namespace`, evaluated as often as the server pleases."""
    found: dict[str, Any] = yaml.safe_load(files("--namespace", namespace)["rules.yaml"])
    for group in found["groups"]:
        group.pop("interval", None)
    return found
