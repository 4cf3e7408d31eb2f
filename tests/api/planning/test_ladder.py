"""Batches that are raised until memory is full: in which order they run, and where they end."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from scalecurve_api.planning.horizon import dropped, horizon
from scalecurve_api.planning.ladder import LargestFit, beyond, largest_fits
from scalecurve_api.planning.plan import Plan, count_trials, make_plan
from scalecurve_api.spec.experiment import ExperimentSpec
from scalecurve_api.spec.trial import TrialPhase
from tests.api.example_experiments import experiment

LADDER = {"from": 32, "factor": 4, "until": "memory", "maxBatches": 4}


def planned(sessions: int = 1, **changes: Any) -> tuple[ExperimentSpec, Plan]:
    of = experiment({"scaling/batch": {"ladder": LADDER}, **changes})
    return of.spec, make_plan(of, sessions)


def played(spec: ExperimentSpec, plan: Plan, memory: dict[int, int], at_once: int = 1) -> dict[int, TrialPhase]:
    """The end of every trial that is run, where ``memory`` holds so large a batch at each worker count."""
    ran: dict[int, TrialPhase] = {}
    while True:
        results = {at: 1.0 if phase is TrialPhase.succeeded else None for at, phase in ran.items()}
        full = [at for at, phase in ran.items() if phase is TrialPhase.full]
        ahead = horizon(spec, plan, results, {}, 0.0, full)
        by_name = {plan.trials.names[at]: result for at, result in results.items()}
        names = {plan.trials.names[at] for at in ahead.dropped}
        assert dropped(spec, plan, by_name, {plan.trials.names[at] for at in full}) == names
        ready = [at for at in range(ahead.end) if at not in ran and at not in ahead.dropped]
        if not ready:
            return ran
        for at in ready[:at_once]:
            point = plan.trials.point(at)
            assert point.batch_per_worker is not None
            fits = point.batch_per_worker <= memory[point.workers]
            ran[at] = TrialPhase.succeeded if fits else TrialPhase.full


def test_a_ladder_is_an_axis_of_rising_batches() -> None:
    spec, plan = planned(**{"measure/repetitions": 2})
    assert [(p.workers, p.batch_per_worker, p.rung) for p in plan.points if p.workers == 2] == [
        (2, 32, 0), (2, 128, 1), (2, 512, 2), (2, 2048, 3),
    ]  # fmt: skip
    assert count_trials(spec) == len(plan.trials) == 16
    assert plan.points[0].series == "weak batch.perWorker=32"
    first = [plan.trials.point(at) for at in range(8)]
    for workers in (1, 2):
        assert [p.rung for p in first if p.workers == workers] == [0, 1, 2, 3]


def test_without_a_ladder_points_are_as_they_were() -> None:
    plan = make_plan(experiment({"matrix": {"batch.perWorker": [32, 128]}}))
    assert [p.rung for p in plan.points] == [None] * 4
    assert "rung" not in plan.points[0].wire()


def test_it_ends_at_the_first_batch_that_does_not_fit() -> None:
    spec, plan = planned(**{"measure/repetitions": 2})
    ran = played(spec, plan, {1: 512, 2: 100})
    ended = [(plan.trials.point(at).workers, plan.trials.point(at).batch_per_worker, p) for at, p in ran.items()]
    assert sorted((workers, batch) for workers, batch, phase in ended if phase is TrialPhase.full) == [
        (1, 2048), (2, 128),
    ]  # fmt: skip
    assert len(ended) == 2 * 3 + 1 + 2 * 1 + 1


def test_batches_of_other_axes_and_counts_are_ladders_of_their_own() -> None:
    _, plan = planned(**{"matrix": {"precision": ["fp32", "bf16"]}})
    full = next(p for p in plan.points if (p.workers, p.rung, p.axes["precision"]) == (2, 1, "bf16"))
    ended = [p for p in plan.points if p.name in beyond(plan.points, [full])]
    assert {(p.workers, p.rung, p.axes["precision"]) for p in ended} == {(2, rung, "bf16") for rung in (1, 2, 3)}
    assert beyond(plan.points, []) == frozenset()


@given(st.integers(1, 10_000), st.integers(1, 10_000), st.integers(1, 5), st.integers(1, 3), st.integers(1, 2))
def test_what_ran_says_the_largest_that_fits(one: int, two: int, at_once: int, repetitions: int, sessions: int) -> None:
    changes = {"measure/repetitions": repetitions, "measure/sessions": {"count": sessions}}
    spec, plan = planned(sessions, **changes)
    memory = {1: one, 2: two}
    ran = played(spec, plan, memory, at_once)
    outcomes = [(plan.trials.point(at), ran.get(at)) for at in range(len(plan.trials))]
    results = largest_fits(outcomes)
    assert {fit.point.workers for fit in results} == {1, 2}
    for fit in results:
        batches = [batch for batch in (32, 128, 512, 2048) if batch <= memory[fit.point.workers]]
        larger = [batch for batch in (32, 128, 512, 2048) if batch > memory[fit.point.workers]]
        assert (fit.fits, fit.full) == (max(batches, default=None), min(larger, default=None))
    if at_once == 1:
        full = [plan.trials.point(at).workers for at, phase in ran.items() if phase is TrialPhase.full]
        assert len(full) == len(set(full)), "no more than one trial of a worker count runs out of memory"


def test_a_batch_that_only_sometimes_fits_does_not() -> None:
    _, plan = planned(**{"scaling/workers": [1]})
    small, middle, *_ = plan.points
    sometimes = [(small, TrialPhase.succeeded), (middle, TrialPhase.succeeded), (middle, TrialPhase.full)]
    assert largest_fits(sometimes) == [LargestFit(small, 32, 128)]
    assert largest_fits([(small, TrialPhase.invalid), (middle, TrialPhase.full)]) == [LargestFit(small, 32, 128)]
    assert largest_fits([(small, TrialPhase.failed), (small, None)]) == [LargestFit(small, None, None)]
