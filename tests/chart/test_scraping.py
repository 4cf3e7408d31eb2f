"""Pods are found alike by the PodMonitor and by the scrape configuration for a Prometheus without its operator."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from scalecurve_api.spec import object_names as cluster_objects
from tests.chart.rendering import CASES, named, objects

pytestmark = pytest.mark.usefixtures("helm")
BOTH = pytest.mark.parametrize(
    "where", [(), ("--set-json", "namespaces=[]", "--set", "clusterWide=true")], ids=["namespaced", "whole-cluster"]
)
BY_THE_OPERATOR = {"namespace", "pod", "container"}
"""Labels that the Prometheus operator gives every target of a PodMonitor."""


def rendered(where: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    return objects(*CASES["everything"], *where)


def files(found: list[dict[str, Any]]) -> dict[str, Any]:
    (config_map,) = (each for each in named(found, "ConfigMap") if each["metadata"]["name"].endswith("-prometheus"))
    return {name: yaml.safe_load(text) for name, text in config_map["data"].items()}


def scrape(found: list[dict[str, Any]], job: str) -> dict[str, Any]:
    (config,) = (each for each in files(found)["scrape.yaml"]["scrape_configs"] if each["job_name"] == job)
    return dict(config)


def selected_by(selector: str, labels: dict[str, str]) -> bool:
    """A label selector of equalities and bare names, which must be there."""
    pairs = (part.partition("=") for part in selector.split(","))
    return all(name in labels and (not equals or labels[name] == value) for name, equals, value in pairs)


def relabelings(config: dict[str, Any]) -> set[tuple[str, ...]]:
    """(action, sources, regex, target) whichever of the two spellings they are in."""
    found = config.get("relabel_configs") or config.get("relabelings") or []
    either = [{key.replace("_", "").lower(): value for key, value in each.items()} for each in found]
    return {
        (each["action"], ",".join(each["sourcelabels"]), each.get("regex", ""), each.get("targetlabel", ""))
        for each in either
    }


def pod_labels(trial: str = "resnet-strong-1") -> dict[str, str]:
    return cluster_objects.labels("resnet", trial, 1)


def test_the_pod_monitor_selects_pods_of_trials_and_not_the_operators() -> None:
    found = rendered()
    selector = named(found, "PodMonitor")[0]["spec"]["selector"]
    (exists,) = [each["key"] for each in selector["matchExpressions"]]

    def selected(labels: dict[str, str]) -> bool:
        return selector["matchLabels"].items() <= labels.items() and exists in labels

    assert selected(pod_labels())
    assert not selected(named(found, "Deployment")[0]["spec"]["template"]["metadata"]["labels"])


@BOTH
def test_both_find_the_same_pods(where: tuple[str, ...]) -> None:
    found = rendered(where)
    monitor = named(found, "PodMonitor")[0]["spec"]
    (discovery,) = scrape(found, "scalecurve-trials")["kubernetes_sd_configs"]
    (selector,) = discovery["selectors"]
    equal = [f"{name}={value}" for name, value in monitor["selector"]["matchLabels"].items()]
    there = [each["key"] for each in monitor["selector"]["matchExpressions"]]
    assert sorted(selector["label"].split(",")) == sorted(equal + there)
    assert selected_by(selector["label"], pod_labels())
    assert discovery["role"] == selector["role"] == "pod"
    namespaces = discovery.get("namespaces", {}).get("names")
    assert monitor["namespaceSelector"] == ({"matchNames": namespaces} if namespaces else {"any": True})
    assert bool(namespaces) == (not where)


def test_both_choose_the_same_ports_and_give_the_same_labels() -> None:
    found = rendered()
    (endpoint,) = named(found, "PodMonitor")[0]["spec"]["podMetricsEndpoints"]
    config = scrape(found, "scalecurve-trials")
    ours, theirs = relabelings(config), relabelings(endpoint)
    assert theirs <= ours
    added = {target for action, _, _, target in ours - theirs if action == "replace"}
    assert added == BY_THE_OPERATOR
    assert {each for each in ours - theirs if each[0] != "replace"} == {
        ("drop", "__meta_kubernetes_pod_phase", "Failed|Succeeded", "")
    }
    assert config["scrape_interval"] == endpoint["interval"]


def test_the_operator_is_found_by_its_pods_labels() -> None:
    found = rendered()
    config = scrape(found, "scalecurve-operator")
    (discovery,) = config["kubernetes_sd_configs"]
    template = named(found, "Deployment")[0]["spec"]["template"]
    labels = template["metadata"]["labels"]
    assert selected_by(discovery["selectors"][0]["label"], labels)
    assert not selected_by(discovery["selectors"][0]["label"], pod_labels())
    assert discovery["namespaces"]["names"] == [named(found, "Deployment")[0]["metadata"]["namespace"]]
    ports = {each["name"] for each in template["spec"]["containers"][0]["ports"]}
    assert {regex for action, _, regex, _ in relabelings(config) if action == "keep"} == {"metrics"} <= ports
    assert config["scrape_interval"] == named(found, "ServiceMonitor")[0]["spec"]["endpoints"][0]["interval"]


def test_the_rules_are_the_same() -> None:
    found = rendered()
    (rule,) = named(found, "PrometheusRule")
    assert files(found)["rules.yaml"] == {"groups": rule["spec"]["groups"]}


@pytest.mark.parametrize("flag", ["podMonitor", "prometheusFiles"])
def test_workers_linger_where_they_are_scraped(flag: str) -> None:
    def lingers(*arguments: str) -> bool:
        (deployment,) = named(objects(*arguments), "Deployment")
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        return "SCALECURVE_LINGER_SECONDS" in {each["name"] for each in container["env"]}

    assert lingers("--set", f"{flag}.enabled=true")
    assert not lingers()
