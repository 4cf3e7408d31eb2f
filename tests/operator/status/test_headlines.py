"""Headlines of an experiment that is under way."""

from __future__ import annotations

from scalecurve_api.planning.plan import make_plan
from scalecurve_operator.status.headlines import best_efficiency, headlines
from tests.operator.attempt_remains import experiment


def test_headlines_of_a_series_are_at_its_largest_measured_count() -> None:
    spec, plan = experiment().spec, make_plan(experiment())
    (alone,) = headlines(spec, plan, {0 if plan.trials[0].point.workers == 1 else 1: 100.0})
    assert (alone["workers"], "efficiency" in alone) == (1, False)
    by_workers = {
        at: 100.0 * plan.trials[at].point.workers * 0.9 ** (plan.trials[at].point.workers - 1) for at in (0, 1)
    }
    (both,) = headlines(spec, plan, by_workers)
    assert (both["workers"], both["speedUp"], both["efficiency"], both["throughput"]) == (2, "1.80", "90.0%", "180.0/s")
    assert best_efficiency([both]) == "90.0% at 2"


def test_a_baseline_without_any_throughput_gives_no_efficiency() -> None:
    spec, plan = experiment().spec, make_plan(experiment())
    for entry in headlines(spec, plan, {0: 0.0, 1: 0.0}):
        assert "efficiency" not in entry
