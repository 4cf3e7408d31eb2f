"""The one function that decides: examples, one for each sentence of the contract."""

from typing import Any

import pytest

from scalecurve_api.lifecycle import Clean, Collect, Decision, ExperimentPhase, Job, Observed, Start, Stop, decide
from scalecurve_api.spec.trial import TrialPhase
from tests.api.simulated_engine import C, F, I, S, names, spec_of


def one_turn(views: dict[str, Observed], count: int = 3, **changes: Any) -> Decision:
    return decide(spec_of(**changes), names(count), views)


def test_nothing_begun() -> None:
    decision = one_turn({})
    assert decision.actions == (Start("t0", 1),)
    assert decision.status.phase is ExperimentPhase.pending
    assert decision.status.phases == (TrialPhase.pending,) * 3
    assert decision.status.message == "0 of 3 trials done"


def test_trials_start_in_the_order_of_the_plan_as_room_comes() -> None:
    assert one_turn({}, parallelism=2).actions == (Start("t0", 1), Start("t1", 1))
    running = {"t0": Observed(1, (), Job.running)}
    assert one_turn(running, parallelism=2).actions == (Start("t1", 1),)
    assert one_turn(running).actions == ()


@pytest.mark.parametrize(
    ("view", "phase", "action"),
    [
        (Observed(), TrialPhase.pending, Start("t0", 1)),
        (Observed(1, (), Job.queued), TrialPhase.queued, None),
        (Observed(1, (), Job.starting), TrialPhase.starting, None),
        (Observed(1, (), Job.running), TrialPhase.running, None),
        (Observed(1, (), Job.ended), TrialPhase.collecting, Collect("t0")),
        (Observed(1, (), Job.lost), TrialPhase.pending, Start("t0", 2)),
        (Observed(1, (S,), Job.ended, collected=True), S, Clean("t0")),
        (Observed(1, (S,)), S, None),
        (Observed(1, (F,)), F, None),
        (Observed(1, (I,)), I, None),
        (Observed(1, (C,)), C, None),
    ],
)
def test_each_state_of_a_trial(view: Observed, phase: TrialPhase, action: Any) -> None:
    decision = one_turn({"t0": view}, count=1)
    assert decision.status.phases == (phase,)
    assert decision.actions == ((action,) if action else ())


@pytest.mark.parametrize(
    ("history", "policy", "again"),
    [
        ((F,), {"retries": 1}, True),
        ((F, F), {"retries": 1}, False),
        ((I,), {"retries": 1}, False),
        ((I,), {"retryInvalid": 1}, True),
        ((I, I), {"retryInvalid": 1}, False),
        ((F, I), {"retries": 1, "retryInvalid": 1}, True),
        ((F, I, F), {"retries": 1, "retryInvalid": 1}, False),
        ((F, S), {"retries": 5}, False),
        ((C,), {"retries": 5}, False),
    ],
)
def test_retries(history: tuple[TrialPhase, ...], policy: dict[str, int], again: bool) -> None:
    decision = one_turn({"t0": Observed(len(history), history)}, count=1, **policy)
    assert decision.actions == ((Start("t0", len(history) + 1),) if again else ())
    assert decision.status.phases[0].final is not again


def test_a_lost_attempt_is_no_failure() -> None:
    decision = one_turn({"t0": Observed(7, (F,), Job.lost)}, count=1, retries=1)
    assert decision.actions == (Start("t0", 8),)


def test_more_failures_than_allowed_end_the_experiment() -> None:
    failed = {name: Observed(1, (F,)) for name in ("t0", "t1")}
    assert one_turn(failed, maxFailedTrials=2).actions == (Start("t2", 1),)
    decision = one_turn(failed, maxFailedTrials=1)
    assert decision.actions == ()
    assert decision.status.phase is ExperimentPhase.failed
    assert decision.status.phases == (F, F, C)
    assert decision.status.message == (
        "3 of 3 trials done, 2 Failed, 1 Cancelled, stopped: more trials failed than maxFailedTrials, 1"
    )


def test_what_runs_when_too_many_have_failed_may_end() -> None:
    seen = {"t0": Observed(1, (F,)), "t1": Observed(1, (), Job.running)}
    decision = one_turn(seen, maxFailedTrials=0, parallelism=2)
    assert decision.actions == ()
    assert decision.status.phase is ExperimentPhase.running


def test_a_retry_that_is_still_allowed_does_not_count_as_failed() -> None:
    decision = one_turn({"t0": Observed(1, (F,))}, maxFailedTrials=0, retries=1)
    assert decision.actions == (Start("t0", 2),)


def test_suspended_and_cancelled() -> None:
    running = {"t0": Observed(1, (S,)), "t1": Observed(1, (), Job.running)}
    assert one_turn(running, suspend=True) == Decision((), one_turn(running, suspend=True).status)
    assert one_turn(running, suspend=True).status.phase is ExperimentPhase.suspended
    cancelled = one_turn(running, cancel=True)
    assert cancelled.actions == (Stop("t1"),)
    assert cancelled.status.phase is ExperimentPhase.running
    assert cancelled.status.phases == (S, TrialPhase.running, C)
    both = one_turn({"t0": Observed(1, (S,)), "t1": Observed(1, (C,))}, cancel=True, suspend=True)
    assert both.status.phase is ExperimentPhase.cancelled


def test_cancelling_what_has_ended_changes_nothing() -> None:
    done = {name: Observed(1, (S,)) for name in names(3)}
    assert one_turn(done, cancel=True) == one_turn(done)
    assert one_turn(done).status.phase is ExperimentPhase.succeeded


def test_an_experiment_whose_trials_were_cancelled_is_not_called_succeeded() -> None:
    seen = {"t0": Observed(1, (S,)), "t1": Observed(1, (C,)), "t2": Observed(1, (S,))}
    assert one_turn(seen).status.phase is ExperimentPhase.cancelled


def test_invalid_trials_are_not_failures() -> None:
    done = {"t0": Observed(1, (S,)), **{name: Observed(1, (I,)) for name in names(3)[1:]}}
    decision = one_turn(done, maxFailedTrials=0)
    assert decision.status.phase is ExperimentPhase.succeeded
    assert decision.status.message == "3 of 3 trials done, 2 Invalid"


@pytest.mark.parametrize(
    ("settled", "changes", "phase", "message"),
    [
        ({}, {}, ExperimentPhase.pending, "0 of 10000 trials done"),
        ({S: 9998, I: 1}, {}, ExperimentPhase.running, "9999 of 10000 trials done, 1 Invalid"),
        ({S: 9999, I: 1}, {}, ExperimentPhase.succeeded, "10000 of 10000 trials done, 1 Invalid"),
        ({S: 5}, {"suspend": True}, ExperimentPhase.suspended, "5 of 10000 trials done"),
        ({S: 5}, {"cancel": True}, ExperimentPhase.cancelled, "10000 of 10000 trials done, 9995 Cancelled"),
        (
            {S: 5, F: 4},
            {"maxFailedTrials": 3},
            ExperimentPhase.failed,
            "10000 of 10000 trials done, 4 Failed, 9991 Cancelled, stopped: more trials failed than maxFailedTrials, 3",
        ),
    ],
)
def test_ten_thousand_trials_of_which_few_are_named(
    settled: dict[TrialPhase, int], changes: dict[str, Any], phase: ExperimentPhase, message: str
) -> None:
    left = 10_000 - sum(settled.values())
    window = names(min(left, 2))
    decision = decide(spec_of(**changes), window, {}, terminal=settled, not_started=left - len(window))
    assert (decision.status.phase, decision.status.message) == (phase, message)
    assert decision.status.total == 10_000
    assert decision.actions == ((Start("t0", 1),) if not phase.final and not changes else ())


def test_no_trials() -> None:
    assert decide(spec_of(), [], {}).status.phase is ExperimentPhase.succeeded


def test_an_experiment_without_any_number_has_failed() -> None:
    spec = spec_of(maxFailedTrials=9)
    for phase in (F, I):
        status = decide(spec, names(2), {name: Observed(1, (phase,)) for name in names(2)}).status
        assert status.phase is ExperimentPhase.failed
        assert "no trial succeeded" in status.message
    mixed = {"t0": Observed(1, (F,)), "t1": Observed(1, (S,))}
    assert decide(spec, names(2), mixed).status.phase is ExperimentPhase.succeeded
