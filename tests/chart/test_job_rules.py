"""The operator may work with the jobs of every runner, and the rules for that are generated."""

from __future__ import annotations

import yaml

from scalecurve_api.spec.job_kinds import Runner
from tools.chart.job_rules import text


def test_every_runner_has_a_rule() -> None:
    allowed = {
        (group, plural)
        for rule in yaml.safe_load(text())
        for group in rule["apiGroups"]
        for plural in rule["resources"]
    }
    assert allowed == {(runner.job_kind.group, runner.job_kind.plural) for runner in Runner}
