"""Prometheus and the record say the same of a real trial, and every panel of the dashboard has something to show."""

from __future__ import annotations

import pytest

from tests.prometheus import charted, panels
from tests.prometheus.agreement import NoSamplesError, by_windows
from tests.prometheus.panels import Panel, Span
from tests.prometheus.scene import LINGER_S, Scene

PANELS = [panel for panel in panels.panels() if panel.kind != "row"]


@pytest.fixture(scope="module")
def span(played: Scene) -> Span:
    return Span(played.begun, played.during)


@pytest.mark.parametrize("workers", [1, 2])
def test_throughput_agrees_with_the_record(played: Scene, workers: int) -> None:
    (record,) = (each for each in played.records.values() if each.trial.point.workers == workers)
    found = by_windows(record, played.prometheus.instant, LINGER_S)
    assert found.prometheus == pytest.approx(found.record), "both are quotients of the same counts"


def test_every_sample_of_a_timed_window_is_counted_and_no_other(played: Scene) -> None:
    for record in played.records.values():
        assert record.summary is not None
        query = f'sum(max_over_time(scalecurve_samples_total{{trial="{record.trial.name}"}}[1h]))'
        assert played.prometheus.instant(query)[0].last == record.summary.samples


def test_recording_rules_follow_a_real_run(played: Scene, span: Span) -> None:
    for record in played.records.values():
        assert record.summary is not None
        selector = f'{{experiment="scraped",trial="{record.trial.name}"}}'
        (whole,) = played.prometheus.over(f"trial:scalecurve_throughput:whole{selector}", span.start, played.end, 0.5)
        assert whole.points[-1][1] == pytest.approx(record.summary.throughput)


def test_every_recording_rule_gives_something(played: Scene, span: Span) -> None:
    rules = [rule for group in charted.rules("any")["groups"] for rule in group["rules"]]
    names = {rule["record"] for rule in rules if "record" in rule}
    given = {
        name for name in names if any(each.points for each in played.prometheus.over(name, span.start, span.end, 0.5))
    }
    assert given == names


def test_a_good_run_raises_no_alert(played: Scene, span: Span) -> None:
    raised = played.prometheus.over('ALERTS{alertstate="firing"}', span.start, span.end, 1)
    assert [each.labels for each in raised] == []


@pytest.mark.parametrize("panel", PANELS, ids=[f"{panel.id} {panel.title}" for panel in PANELS])
def test_every_query_of_the_dashboard_returns_data(panel: Panel, played: Scene, span: Span) -> None:
    for query in panel.queries:
        found = panels.answer(query, span, played.prometheus.instant, played.prometheus.over)
        assert found, f"{panel.title}: nothing for {panels.substituted(query.expression, span)}"


@pytest.mark.parametrize("name", panels.variables())
def test_every_variable_has_values(name: str, played: Scene, span: Span) -> None:
    selector, label = panels.variables()[name]
    (experiment_side,) = {panels.substituted(selector, span)}
    found = played.prometheus.instant(f"group by ({label}) ({experiment_side})", span.end)
    assert all(each.labels[label] for each in found)
    assert found


def test_a_query_of_something_that_is_not_there_is_empty(played: Scene, span: Span) -> None:
    query = panels.Query("rate(scalecurve_not_there_total[$__rate_interval])", "", instant=False)
    assert panels.answer(query, span, played.prometheus.instant, played.prometheus.over) == []


def test_a_trial_that_was_never_scraped_is_told(played: Scene) -> None:
    record = next(iter(played.records.values()))
    unseen = record.model_copy(update={"trial": record.trial.model_copy(update={"name": "unseen"})})
    with pytest.raises(NoSamplesError, match="unseen, attempt 1: 0 series"):
        by_windows(unseen, played.prometheus.instant, LINGER_S)
