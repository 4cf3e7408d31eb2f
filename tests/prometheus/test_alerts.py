"""The chart's rules and scrape configuration, judged by promtool."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart import rendering
from tests.prometheus import charted, prometheus_server
from tools.devcluster import toolchain

UNIT_TESTS = Path(__file__).parent / "rules_test.yaml"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with scrape.yaml and rules.yaml, as the chart's ConfigMap has them."""
    if why := prometheus_server.lacking() or rendering.lacking("helm"):
        pytest.skip(why)
    folder = tmp_path_factory.mktemp("prometheus")
    for name, text in charted.files().items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def promtool(*arguments: str | Path) -> str:
    done = subprocess.run([toolchain.binary("promtool"), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rules(files: Path) -> list[dict[str, Any]]:
    groups = yaml.safe_load((files / "rules.yaml").read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def test_the_rules_are_good(files: Path) -> None:
    said = promtool("check", "rules", "--lint=all", "--lint-fatal", files / "rules.yaml")
    assert f"{len(rules(files))} rules found" in said


def test_the_configuration_is_good(files: Path) -> None:
    config = {"scrape_config_files": ["scrape.yaml"], "rule_files": ["rules.yaml"]}
    (files / "prometheus.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    assert "SUCCESS" in promtool("check", "config", "--lint=all", "--lint-fatal", files / "prometheus.yaml")


def test_rules_and_alerts_do_what_they_say(files: Path) -> None:
    shutil.copy(UNIT_TESTS, files)
    promtool("test", "rules", files / UNIT_TESTS.name)


def test_every_rule_has_a_unit_test_and_every_alert_two(files: Path) -> None:
    tests = yaml.safe_load(UNIT_TESTS.read_text(encoding="utf-8"))["tests"]
    asked = {each["expr"] for test in tests for each in test.get("promql_expr_test", [])}
    assert {rule["record"] for rule in rules(files) if "record" in rule} <= asked
    alerts = [each for test in tests for each in test.get("alert_rule_test", [])]
    names = {rule["alert"] for rule in rules(files) if "alert" in rule}
    assert {each["alertname"] for each in alerts if each.get("exp_alerts")} == names
    assert {each["alertname"] for each in alerts if not each.get("exp_alerts")} == names


def test_a_wrong_rule_does_not_pass(files: Path, tmp_path: Path) -> None:
    text = (files / "rules.yaml").read_text(encoding="utf-8").replace("max by (namespace", "min by (namespace")
    (tmp_path / "rules.yaml").write_text(text, encoding="utf-8")
    shutil.copy(UNIT_TESTS, tmp_path)
    with pytest.raises(AssertionError, match="FAILED"):
        promtool("test", "rules", tmp_path / UNIT_TESTS.name)
