"""What is written into statuses: always what the CRDs declare, and never more than 100 KiB."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalecurve_api.crds.status import MAX_BYTES, ExperimentStatus, TrialStatus
from scalecurve_api.lifecycle import ExperimentPhase, Observed, Status, decide
from scalecurve_api.planning.plan import make_plan
from scalecurve_api.record.trial_record import Summary
from scalecurve_api.record.verdict import Verdict
from scalecurve_api.spec.experiment import ExperimentSpec
from scalecurve_api.spec.trial import FINAL_PHASES, TrialPhase
from scalecurve_kube.resources import Object, timestamp
from scalecurve_operator.status import render as statuses
from scalecurve_operator.status.render import AttemptResult, best_efficiency, headlines
from tests.examples import examples
from tests.operator.attempt_remains import experiment

NOW = 1_790_000_000.0
TEXT = st.text(max_size=30) | st.text(alphabet="aé\n ", min_size=600, max_size=2000)
POSITIVE = st.floats(0, 1e300)
SUMMARIES = st.none() | st.tuples(st.integers(0, 2**40), POSITIVE, POSITIVE).map(
    lambda each: Summary(samples=each[0], wall_s=each[1], throughput=each[2]).wire()
)
RECORDS = st.fixed_dictionaries(
    {
        "sha256": st.just("0" * 64),
        "bytes": st.integers(0, 10**8),
        "configMaps": st.lists(st.just("r" * 70), max_size=60),
        "leftOut": st.lists(TEXT, max_size=40),
    }
)


@st.composite
def trial_statuses(draw: st.DrawFn) -> list[Object]:
    """The statuses of a trial over a few attempts, each made from the one before."""
    found: list[Object] = [{}]
    for attempt in range(1, draw(st.integers(1, 4)) + 1):
        found.append(statuses.claimed(found[-1], attempt, f"job-a{attempt}", NOW))
        for _ in range(draw(st.integers(0, 2))):
            phase = draw(st.sampled_from([TrialPhase.queued, TrialPhase.starting, TrialPhase.running]))
            found.append(statuses.progress_status(found[-1], phase, "uid", draw(st.none() | TEXT), NOW))
        verdict = Verdict(draw(st.sampled_from(sorted(FINAL_PHASES))), draw(st.none() | TEXT), draw(TEXT), ())
        nodes = draw(st.lists(st.text("n", min_size=1, max_size=80), max_size=100))
        result = AttemptResult(verdict, draw(SUMMARIES), draw(RECORDS), tuple(nodes), NOW)
        found.append(statuses.ended(found[-1], attempt, result, draw(st.none() | st.just("uid"))))
    return found


def as_stored(model: type[ExperimentStatus] | type[TrialStatus], status: Object) -> Any:
    """As the API server would take it: nothing that the model cuts, nothing it does not know."""
    text = json.dumps(status, allow_nan=False)
    assert len(text) <= MAX_BYTES
    found = model.model_validate_json(text)
    assert within(status, found.wire())
    return found


def within(part: Any, whole: Any) -> bool:
    """Whether nothing of it was cut; a model adds its defaults."""
    if isinstance(part, dict):
        return all(name in whole and within(value, whole[name]) for name, value in part.items())
    if isinstance(part, list):
        return len(part) == len(whole) and all(map(within, part, whole))
    return bool(part == whole)


@settings(max_examples=examples(40, nightly=1000))
@given(trial_statuses())
def test_a_trials_statuses_are_declared_ones(found: list[Object]) -> None:
    for status in found[1:]:
        as_stored(TrialStatus, status)
    attempts = [past["attempt"] for past in found[-1]["history"]]
    assert attempts == list(range(1, found[-1]["attempts"] + 1))


def test_a_new_attempt_keeps_history_and_nothing_else_of_the_last() -> None:
    verdict = Verdict(TrialPhase.failed, "RankFailed", "no", ())
    summary = {"samples": 1, "wallS": 1.0, "throughput": 1.0}
    result = AttemptResult(verdict, summary, {}, ("n",), NOW)
    ended = statuses.ended(statuses.claimed({}, 1, "t-a1", NOW), 1, result, "u")
    assert "throughput" not in ended, "what did not succeed enters no table"
    again = statuses.claimed(ended, 2, "t-a2", NOW)
    assert set(again) == {"phase", "attempts", "job", "startedAt", "timeline", "history"}
    assert again["history"] == ended["history"]


PHASES = st.sampled_from(sorted(FINAL_PHASES))


def spec_of(repetitions: int = 3) -> tuple[ExperimentSpec, Any]:
    measure = {"windows": 2, "stepsPerWindow": 3, "repetitions": repetitions}
    made = experiment(matrix={"model": ["m" * 90, "n" * 90], "precision": ["fp32", "bf16"]}, measure=measure)
    return made.spec, make_plan(made)


@settings(max_examples=examples(15, nightly=50))
@given(st.lists(PHASES, max_size=24), st.data())
def test_an_experiments_status_is_a_declared_one(phases: list[TrialPhase], data: st.DataObject) -> None:
    spec, plan = spec_of()
    names = list(plan.trials.names)
    observed = {name: Observed(1, (phase,)) for name, phase in zip(names, phases, strict=False)}
    decision = decide(spec, names, observed)
    throughputs = {at: data.draw(POSITIVE) for at, phase in enumerate(phases) if phase is TrialPhase.succeeded}
    entries = headlines(plan, throughputs)
    began = timestamp(NOW)
    current = [
        statuses.current_trial(name, plan.trials[0], TrialPhase.running, {"attempts": 1, "startedAt": began})
        for name in names
    ]
    condition = statuses.condition("Stalled", True, "JobWaiting", data.draw(TEXT))
    conditions = statuses.conditions({}, [condition], 1, NOW)
    new = statuses.experiment({}, 1, decision.status, current, entries, conditions, NOW)
    status = as_stored(ExperimentStatus, new)
    assert status.counts is not None
    assert sum(status.counts.wire().values()) == status.total == len(names)


@given(TEXT)
def test_a_refusal_is_a_declared_status(message: str) -> None:
    status = statuses.refused({}, 3, message, NOW)
    as_stored(ExperimentStatus, status)
    assert {entry["type"]: entry["status"] for entry in status["conditions"]} == {"Accepted": "False", "Failed": "True"}


def test_a_conditions_time_moves_only_with_its_status() -> None:
    first = statuses.conditions({}, [statuses.condition("A", True, "X", "")], 1, NOW)
    same = statuses.conditions({"conditions": first}, [statuses.condition("A", True, "Y", "m")], 2, NOW + 60)
    other = statuses.conditions({"conditions": same}, [statuses.condition("A", False, "Y", "m")], 2, NOW + 120)
    times = [entry["lastTransitionTime"] for (entry,) in (first, same, other)]
    assert times[0] == times[1] < times[2]
    assert same[0]["observedGeneration"] == 2
    assert statuses.is_true({"conditions": same}, "A")
    assert not statuses.is_true({"conditions": other}, "A")


@pytest.mark.parametrize("phase", ExperimentPhase)
def test_every_end_has_exactly_one_condition_to_wait_for(phase: ExperimentPhase) -> None:
    """``kubectl wait --for=condition=Complete`` must not succeed for an experiment whose every trial failed."""
    found = list(statuses.ends(Status(phase, 1, {}, "said", ()), {}))
    expected = {"Succeeded": "Complete", "Failed": "Failed", "Cancelled": "Failed", "Suspended": "Suspended"}
    kinds = [(entry["type"], entry["status"]) for entry in found]
    assert kinds == ([(expected[phase.value], "True")] if phase.value in expected else [])


def test_what_was_resumed_is_not_suspended() -> None:
    suspended = Status(ExperimentPhase.suspended, 1, {}, "", ())
    before = {"conditions": list(statuses.ends(suspended, {}))}
    (now,) = statuses.ends(Status(ExperimentPhase.running, 1, {}, "", ()), before)
    assert (now["type"], now["status"], now["reason"]) == ("Suspended", "False", "Resumed")


def progress(before: dict[str, object], started_at: float | None) -> dict[str, object]:
    status = Status(ExperimentPhase.running, 1, {TrialPhase.running: 1}, "", (TrialPhase.running,))
    return statuses.experiment(before, 1, status, [], [], [], now=1_000_000_100.0, started_at=started_at)


def test_an_experiment_started_when_its_first_trial_did() -> None:
    assert progress({}, None)["startedAt"] == timestamp(1_000_000_100)
    assert progress({}, 1_000_000_000.0)["startedAt"] == timestamp(1_000_000_000)
    assert progress({"startedAt": "then"}, 1_000_000_000.0)["startedAt"] == "then"


def test_a_trial_without_samples_tells_its_bandwidth() -> None:
    succeeded = Verdict(TrialPhase.succeeded, None, "", ())
    told = {}
    for name, summary in (("both", {"samples": 8, "peakBusbw": 2.0}), ("none", {"samples": 0, "peakBusbw": 12.3456})):
        result = AttemptResult(succeeded, {"throughput": 0.0, **summary}, {}, (), 1.0)
        ended = statuses.ended({}, 1, result, "j")
        told[name] = ended["throughput"]
    assert told == {"both": "0.0 samples/s", "none": "12.3 GB/s busbw"}


def test_headlines_of_a_series_are_at_its_largest_measured_count() -> None:
    plan = make_plan(experiment())
    (alone,) = headlines(plan, {0 if plan.trials[0].point.workers == 1 else 1: 100.0})
    assert (alone["workers"], "efficiency" in alone) == (1, False)
    by_workers = {
        at: 100.0 * plan.trials[at].point.workers * 0.9 ** (plan.trials[at].point.workers - 1) for at in (0, 1)
    }
    (both,) = headlines(plan, by_workers)
    assert (both["workers"], both["speedUp"], both["efficiency"], both["throughput"]) == (2, "1.80", "90.0%", "180.0/s")
    assert best_efficiency([both]) == "90.0% at 2"


def test_a_baseline_without_any_throughput_gives_no_efficiency() -> None:
    plan = make_plan(experiment())
    for entry in headlines(plan, {0: 0.0, 1: 0.0}):
        assert "efficiency" not in entry
