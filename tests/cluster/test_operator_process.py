"""The operator as a process: it runs an experiment with the chart's rights, and ends when it is told to."""

from __future__ import annotations

from tests.cluster.applied import Applied, manifest
from tests.cluster.operator_process import OperatorProcess
from tools.devcluster.tier import Tier


def test_an_experiment_is_run_with_the_rights_of_the_chart(
    tier: Tier, namespace: str, operator: OperatorProcess
) -> None:
    applied = Applied.apply(tier, manifest(namespace, workers=(1, 2)))
    assert applied.final()["phase"] == "Succeeded"
    assert operator.probe("/healthz") == (200, "ok")
    assert 'scalecurve_trials_ended_total{phase="Succeeded",reason=""} 2.0' in operator.metrics()
    applied.gone()
    assert operator.stop() == 0
    assert "forbidden" not in operator.output()
