"""How far a plan may be run: session after session, and no further than the precision needs."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from scalecurve_api.planning.horizon import Horizon, horizon
from scalecurve_api.planning.plan import Plan, make_plan
from scalecurve_api.spec.experiment import ExperimentSpec
from tests.api.example_experiments import experiment


def planned(sessions: int = 1, **measure: Any) -> tuple[ExperimentSpec, Plan]:
    of = experiment(
        {"scaling/workers": [1, 2], "measure": {"sessions": {"count": sessions, "everyHours": 2}, **measure}}
    )
    return of.spec, make_plan(of, sessions)


def drawn(plan: Plan, spread: float, seed: int = 0) -> dict[int, float | None]:
    """A throughput for every trial, with so much noise."""
    draw = random.Random(seed)
    return {at: 100 * plan.trials.point(at).workers * (1 + draw.gauss(0, spread)) for at in range(len(plan.trials))}


def played(spec: ExperimentSpec, plan: Plan, results: dict[int, float | None]) -> tuple[list[int], Horizon]:
    """The positions that are run, one after the other, by an engine that waits for nothing."""
    ran: dict[int, float | None] = {}
    while True:
        ahead = horizon(spec, plan, ran, {}, 0.0)
        ready = [at for at in range(ahead.end) if at not in ran and at not in ahead.dropped]
        if not ready:
            return list(ran), ahead
        ran[ready[0]] = results[ready[0]]


def test_without_sessions_and_precision_all_may_start() -> None:
    spec, plan = planned(repetitions=3)
    assert horizon(spec, plan, {}, {}, 0.0) == Horizon(len(plan.trials))


def test_a_session_waits_for_the_one_before_and_for_its_time() -> None:
    spec, plan = planned(sessions=2, repetitions=1)
    half = len(plan.trials) // 2
    results = drawn(plan, 0.01)
    done = {at: results[at] for at in range(half)}
    assert horizon(spec, plan, {}, {}, 0.0) == Horizon(half)
    assert horizon(spec, plan, dict(list(done.items())[:-1]), {0: 1000.0}, 1e6) == Horizon(half)
    assert horizon(spec, plan, done, {0: 1000.0}, 1000.0 + 7199) == Horizon(half, due=1000.0 + 7200)
    assert horizon(spec, plan, done, {0: 1000.0}, 1000.0 + 7200) == Horizon(len(plan.trials))


def test_quiet_repetitions_end_early_and_noisy_ones_go_to_the_limit() -> None:
    spec, plan = planned(repetitions=3, precision={"efficiency": 0.01, "maxRepetitions": 12})
    quiet, ahead = played(spec, plan, drawn(plan, 0.0005))
    assert len(quiet) == 5 * len(plan.points), "the least that the rule believes"
    assert ahead.dropped == frozenset(range(5 * len(plan.points), len(plan.trials)))
    noisy, ahead = played(spec, plan, drawn(plan, 0.1))
    assert len(noisy) == len(plan.trials)
    assert not ahead.dropped


def test_series_end_on_their_own() -> None:
    of = experiment(
        {"scaling/workers": [1, 2], "scaling/modes": ["weak", "strong"]}
        | {"measure": {"repetitions": 2, "precision": {"efficiency": 0.01, "maxRepetitions": 8}}}
    )
    plan = make_plan(of)
    quiet, noisy = drawn(plan, 0.0005), drawn(plan, 0.1)
    results = {at: (quiet if plan.trials.point(at).mode.value == "weak" else noisy)[at] for at in quiet}
    ran, _ = played(of.spec, plan, results)
    modes = [plan.trials.point(at).mode.value for at in ran]
    assert (modes.count("weak"), modes.count("strong")) == (2 * 5, 2 * 8)


def test_failures_are_not_repeated_for_precision() -> None:
    spec, plan = planned(repetitions=2, precision={"efficiency": 0.01, "maxRepetitions": 12})
    nothing: dict[int, float | None] = dict.fromkeys(range(len(plan.trials)))
    assert len(played(spec, plan, nothing)[0]) == 2 * len(plan.points)
    results = drawn(plan, 0.0005)
    failing = {at: None if plan.trials.point(at).workers == 2 else value for at, value in results.items()}
    assert len(played(spec, plan, failing)[0]) == 5 * len(plan.points)


def test_each_session_stops_by_itself_and_the_next_goes_on() -> None:
    spec, plan = planned(sessions=2, repetitions=3, precision={"efficiency": 0.01, "maxRepetitions": 6})
    ran, _ = played(spec, plan, drawn(plan, 0.0005))
    per_session = 6 * len(plan.points)
    assert [at for at in ran if at < per_session] == list(range(5 * len(plan.points)))
    assert [at for at in ran if at >= per_session], "the second session is run"
    sessions = [trial.session for trial in plan.trials]
    assert [sessions.count(number) for number in (0, 1)] == [per_session, per_session]


@given(st.integers(0, 50), st.sampled_from([0.0005, 0.004, 0.02]), st.data())
def test_what_was_dropped_stays_dropped_and_is_never_run(seed: int, spread: float, data: st.DataObject) -> None:
    spec, plan = planned(repetitions=2, precision={"efficiency": 0.01, "maxRepetitions": 8})
    results, ran, dropped = drawn(plan, spread, seed), dict[int, float | None](), frozenset[int]()
    while ready := [at for at in range(horizon(spec, plan, ran, {}, 0.0).end) if at not in ran and at not in dropped]:
        at = data.draw(st.sampled_from(ready))
        ran[at] = results[at]
        now = horizon(spec, plan, ran, {}, 0.0).dropped
        assert dropped <= now
        assert not now & ran.keys()
        dropped = now
    assert len(ran) + len(dropped) == len(plan.trials)
