"""Dashboard, rules and monitors speak of metrics that the code exports, and of pods that it labels."""

import json
import re
import urllib.request
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from scalecurve_api.planning.plan import make_plan
from scalecurve_api.validation.validate import validate_text
from scalecurve_operator.metrics import exposition
from scalecurve_worker.monitor.metrics import Metrics
from tests.chart.rendering import CASES, CHART, named, objects

DASHBOARD = CHART / "files" / "dashboards" / "scalecurve.json"
EXPERIMENT = Path(__file__).parents[2] / "manifests" / "experiments" / "resnet50-ddp.yaml"
SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "gauge": ("",)}


@pytest.fixture(scope="module")
def exported() -> set[str]:
    """Names of samples, from the operator's and a rank's own /metrics."""
    (experiment,) = validate_text(EXPERIMENT.read_text(), EXPERIMENT.name).experiments
    metrics = Metrics(make_plan(experiment).trials[0], rank=0, port=0)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{metrics.port}/metrics") as answer:
            text = answer.read().decode()
    finally:
        metrics.close()
    return set(samples(text)) | set(samples(exposition().decode())) | {"process_resident_memory_bytes"}


def samples(text: str) -> Iterator[str]:
    for family in text_string_to_metric_families(text):
        yield from (f"{family.name}{suffix}" for suffix in SUFFIXES.get(family.type, ()))


def panels() -> list[dict[str, Any]]:
    return list(json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"])


def queries() -> list[str]:
    document = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    variables = [each["definition"] for each in document["templating"]["list"] if each["type"] == "query"]
    return variables + [target["expr"] for panel in panels() for target in panel.get("targets", [])]


def metrics_in(expressions: Iterable[str]) -> set[str]:
    return {name for text in expressions for name in re.findall(r"(?<![\w:])(?:scalecurve|process)_\w+(?![\w:])", text)}


def test_the_dashboard_asks_for_metrics_that_are_exported(exported: set[str]) -> None:
    assert metrics_in(queries()) - exported == set()


def test_the_dashboard_shows_every_metric_of_the_design(exported: set[str]) -> None:
    design = (CHART.parents[1] / "docs" / "design.md").read_text(encoding="utf-8")
    names = set(re.findall(r"`(scalecurve_\w+)", design.partition("## 8.")[2].partition("## 9.")[0]))
    shown = metrics_in(queries())
    missing = {name for name in names if not any(each.startswith(name) for each in shown)}
    assert missing == {"scalecurve_steps_total"}, "step times count the steps"


def test_panels_do_not_lie_on_each_other() -> None:
    cells = [
        (x, y)
        for panel in panels()
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))
    assert len({panel["id"] for panel in panels()}) == len(panels())
    assert all(panel["description"] for panel in panels() if panel["type"] != "row")


@pytest.mark.usefixtures("helm")
def test_rules_speak_of_metrics_that_are_exported(exported: set[str]) -> None:
    (rule,) = named(objects(*CASES["everything"]), "PrometheusRule")
    rules = [each for group in rule["spec"]["groups"] for each in group["rules"]]
    expressions = [each["expr"] for each in rules]
    assert metrics_in(expressions) - exported == set()
    recorded = {each["record"] for each in rules if "record" in each}
    assert {name for text in expressions for name in re.findall(r"\w+:\w+:\w+", text)} <= recorded
    assert all(each["annotations"]["summary"] for each in rules if "alert" in each)


@pytest.mark.usefixtures("helm")
def test_the_config_map_holds_the_dashboard_under_the_sidecars_label() -> None:
    found = objects(*CASES["everything"])
    (config_map,) = (each for each in named(found, "ConfigMap") if each["metadata"]["name"].endswith("-dashboard"))
    assert config_map["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(config_map["data"]["scalecurve.json"]) == json.loads(DASHBOARD.read_text(encoding="utf-8"))


@pytest.mark.usefixtures("helm")
def test_without_flags_nothing_of_monitoring_is_made() -> None:
    kinds = {each["kind"] for each in objects()}
    assert kinds & {"PodMonitor", "ServiceMonitor", "PrometheusRule", "ConfigMap", "NetworkPolicy"} == set()
    assert yaml.safe_load((CHART / "values.yaml").read_text())["dashboard"]["labels"] == {"grafana_dashboard": "1"}
