from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalecurve.bundle.open import Bundle, open_bundle
from scalecurve_api.spec.experiment import Cost
from scalecurve_api.spec.trial import Point
from scalecurve_models.fitting.least_squares import FitError
from scalecurve_models.recommend.candidates import draw_rates
from scalecurve_models.recommend.recommend import recommend
from tests.analysis.synthetic import Truth, experiment, write_bundle

COST = {"perWorkerHour": 1.0, "currency": "EUR", "datasetSamples": 1_000_000}


def step_s(point: Point) -> float:
    """Strong scaling turns around between 8 and 16 workers."""
    n = point.workers
    return 0.4 / n + 0.004 * (n - 1) if point.mode == "strong" else 0.1 * (1 + 0.05 * (1 - 1 / n))


def bundle_at(folder: Path, **more: object) -> Bundle:
    spec = experiment("choose", workers=[1, 2, 4, 8, 16], windows=2, steps_per_window=4, cost=COST, **more)
    truth = Truth(step_s=step_s, repetition_cv=0.004, step_cv=0.01)
    return open_bundle(write_bundle(folder, spec, truth, tables=False))


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return bundle_at(tmp_path_factory.mktemp("choose"))


def answers(found, series):
    return {answer.goal: answer for answer in found.optima if answer.series == series}


def test_the_fastest_and_the_cheapest_are_those_of_the_truth(measured: Bundle):
    strong = answers(recommend(measured), "strong")
    assert strong["fastest"].workers == 8
    assert strong["fastest"].probability >= 0.95
    assert "probability, in this session)" in strong["fastest"].sentence
    assert strong["cheapest"].workers == 1
    assert strong["fastest"].caveat == ""
    weak = answers(recommend(measured), "weak")
    assert (weak["fastest"].workers, weak["cheapest"].workers) == (16, 1)


def test_counts_that_cannot_be_told_apart_are_named(tmp_path: Path):
    spec = experiment("close", modes=["weak"], workers=[1, 2, 4], windows=2, steps_per_window=4, cost=COST)
    truth = Truth(step_s=lambda point: 0.1 * point.workers, repetition_cv=0.05)
    found = recommend(open_bundle(write_bundle(tmp_path / "b", spec, truth, tables=False)))
    fastest = answers(found, "weak")["fastest"]
    assert fastest.probability < 0.95
    assert len(fastest.others) >= 1
    assert "cannot separate" in fastest.caveat
    assert "run more repetitions" in fastest.sentence


def test_a_count_that_was_not_run_is_predicted_and_said_to_be(measured: Bundle):
    found = recommend(measured, workers=[32], workers_per_node=32)
    fastest = answers(found, "weak")["fastest"]
    assert fastest.workers == 32
    assert "32 not measured, predicted by" in fastest.caveat
    assert fastest.probability < 0.99  # as certain as its calibration, and no more
    choice = next(c for c in found.series[1].candidates if c.workers == 32)
    assert not choice.measured
    truth = 1e6 / (64 * 32) * 0.1 * (1 + 0.05 * 31 / 32)
    low, high = np.quantile(choice.seconds, [0.025, 0.975])
    assert low <= truth <= high


def test_several_nodes_are_not_recommended_from_one(measured: Bundle):
    """512 workers of one node's 1 to 4 were the fastest with 100 %."""
    found = recommend(measured, workers=[512])
    weak = answers(found, "weak")
    assert (weak["fastest"].workers, weak["cheapest"].workers) == (16, 1)
    assert any("512 workers on 32 nodes, but only one node was measured" in note for note in found.notes)


def with_counts(folder: Path, workers: list[int], step: Callable[[Point], float], modes: list[str]) -> Bundle:
    spec = experiment("few", modes=modes, workers=workers, windows=2, steps_per_window=4, cost=COST)
    truth = Truth(step_s=step, repetition_cv=0.003, step_cv=0.01)
    return open_bundle(write_bundle(folder / "b", spec, truth, tables=False))


def test_two_counts_test_no_model_and_recommend_none_that_may_be_slower(tmp_path: Path):
    """The truth is slower at 32 than at 2, which 1 and 2 do not tell; a straight line would recommend 32."""
    bundle = with_counts(tmp_path, [1, 2], lambda p: 0.4 / p.workers + 0.015 * (p.workers - 1), ["strong"])
    found = recommend(bundle, workers=[32], workers_per_node=32)
    fastest = answers(found, "strong")["fastest"]
    assert fastest.workers == 2
    assert fastest.probability < 0.95
    assert fastest.others[0][0] == 32
    assert "two measured counts test no model" in fastest.caveat
    assert "run 32 to confirm" in fastest.sentence
    choice = next(c for c in found.series[0].candidates if c.workers == 32)
    assert not choice.tested
    low, high = np.quantile(choice.seconds, [0.025, 0.975])
    truth = 1e6 / bundle.trials[0].spec.point.global_batch * (0.4 / 32 + 0.015 * 31)
    assert low <= truth <= high
    assert high / low > 5


def test_two_counts_are_enough_where_every_way_of_going_on_is_faster(tmp_path: Path):
    bundle = with_counts(tmp_path, [1, 2], lambda p: 0.1 * (1 + 0.01 * (1 - 1 / p.workers)), ["weak"])
    fastest = answers(recommend(bundle, workers=[4], workers_per_node=4), "weak")["fastest"]
    assert fastest.workers == 4
    assert fastest.probability >= 0.95
    assert "two measured counts test no model" in fastest.caveat


def test_one_count_says_nothing_of_others(tmp_path: Path):
    bundle = with_counts(tmp_path, [2], lambda p: 0.1, ["weak"])
    found = recommend(bundle, workers=[64])
    assert answers(found, "weak")["fastest"].workers == 2
    assert any("64 workers: needs at least 3 measured worker counts" in note for note in found.notes)


def test_a_count_that_is_held_out_is_one_that_was_not_run(measured: Bundle):
    found = recommend(measured, hold_out=[4, 8, 16])
    strong = {c.workers: c for c in found.series[0].candidates}
    assert [c.measured for c in strong.values()] == [True, True, False, False, False]
    truth = 1e6 / measured.trials[0].spec.point.global_batch * (0.4 / 4 + 0.004 * 3)
    low, high = np.quantile(strong[4].seconds, [0.025, 0.975])
    # The loss grows with N² alone: the end of what is possible, and the two counts have noise of their own.
    assert low <= truth <= high * 1.01


def test_a_count_far_beyond_those_that_were_run_is_refused(measured: Bundle):
    found = recommend(measured, workers=[256], workers_per_node=256)
    assert answers(found, "weak")["fastest"].workers == 16
    assert any("256 workers: 16 times the largest measured count" in note for note in found.notes)


@given(
    base=st.integers(1, 8),
    more=st.integers(1, 8),
    kept=st.floats(0.05, 1.3),
    workers=st.integers(1, 512),
)
def test_what_two_counts_leave_open_passes_through_both_and_lies_between_the_named_laws(base, more, kept, workers):
    other = base + more
    draws = 200
    rates = np.full(draws, 100.0), np.full(draws, 100.0 * kept * other / base)
    rng = np.random.default_rng(1)
    assert draw_rates(base, rates[0], other, rates[1], other, rng) == pytest.approx(rates[1])
    found = draw_rates(base, rates[0], other, rates[1], workers, rng)
    assert (found > 0).all()
    assert np.isfinite(found).all()
    ideal = rates[1] * workers / other
    if workers >= other:
        assert (found <= ideal * (1 + 1e-9)).all()
    if kept <= 1 and base == 1:
        assert draw_rates(base, rates[0], other, rates[1], base, rng) == pytest.approx(rates[0])
        ways = [1 - 1 / np.array([workers, other]), np.array([workers, other]) * (np.array([workers, other]) - 1)]
        ends = [100 * workers / (1 + (1 / kept - 1) * here / there) for here, there in ways]
        assert (found >= min(ends) * (1 - 1e-9)).all()
        assert (found <= max(ends) * (1 + 1e-9)).all()


def test_limits_are_kept_surely_or_refused_with_the_nearest(measured: Bundle):
    found = recommend(measured, deadline_s=400, budget=0.3)
    strong = answers(found, "strong")
    within = next(answer for goal, answer in strong.items() if goal.startswith("cheapest within") and "EUR" not in goal)
    chosen = next(c for c in found.series[0].candidates if c.workers == within.workers)
    assert (chosen.seconds <= 400).mean() >= 0.95
    cheaper = [c for c in found.series[0].candidates if c.cost.mean() < chosen.cost.mean()]
    assert all((c.seconds <= 400).mean() < 0.95 for c in cheaper)
    never = answers(recommend(measured, deadline_s=1e-3), "strong")["cheapest within 1 ms"]
    assert never.workers is None
    fastest = min(found.series[0].candidates, key=lambda c: float(np.median(c.seconds))).workers
    assert (
        never.caveat
        == f"no worker count meets the deadline in 95 % of simulations; {fastest} workers comes closest (0 %)"
    )
    assert never.caveat in never.sentence


def test_a_deadline_and_a_budget_are_kept_together(measured: Bundle):
    candidates = recommend(measured).series[0].candidates
    medians = {c.workers: (float(np.median(c.seconds)), float(np.median(c.cost))) for c in candidates}
    fastest = min(medians, key=lambda n: medians[n][0])
    cheapest = min(medians, key=lambda n: medians[n][1])
    assert fastest != cheapest
    within = {"deadline_s": medians[cheapest][0] * 1.2, "budget": medians[fastest][1] * 1.2}
    assert both(recommend(measured, **within)).workers == cheapest
    # Each limit alone has an answer, and no count keeps both.
    apart = recommend(measured, deadline_s=medians[fastest][0] * 1.2, budget=medians[cheapest][1] * 1.05)
    assert all(
        each.workers for goal, each in answers(apart, "strong").items() if "EUR" not in goal or "fastest" in goal
    )
    assert both(apart).workers is None
    assert "meets the deadline and the budget in 95 % of simulations" in both(apart).caveat


def both(found):
    """The answer for a deadline and a budget."""
    return next(
        each for goal, each in answers(found, "strong").items() if goal.startswith("cheapest within") and "EUR" in goal
    )


def test_without_a_price_cost_is_in_worker_hours_and_another_price_counts(tmp_path: Path):
    spec = experiment("free", modes=["strong"], workers=[1, 2, 4], windows=2, steps_per_window=3)
    bundle = open_bundle(write_bundle(tmp_path / "b", spec, Truth(step_s=step_s), tables=False))
    found = recommend(bundle)
    assert found.series[0].currency == "worker-hours"
    assert any("No price is known" in note for note in found.notes)
    priced = recommend(bundle, price=Cost(per_worker_hour=2, currency="USD", dataset_samples=10_000))
    assert priced.series[0].currency == "USD"
    assert priced.series[0].scope == "one epoch"
    hours = priced.series[0].candidates[0].seconds / 3600
    assert priced.series[0].candidates[0].cost == pytest.approx(hours * 2)


def test_a_target_is_asked_of_runs_that_were_trained(tmp_path: Path):
    from tests.models.learning_curves.test_fit import evaluations

    measure = {"windows": 2, "stepsPerWindow": 3, "repetitions": 3, "accuracy": {"epochs": 40, "target": 0.9}}
    spec = experiment("goal", modes=["weak"], workers=[1, 2, 4], measure=measure, cost=COST)
    bundle = open_bundle(write_bundle(tmp_path / "b", spec, tables=False, evaluations=evaluations))
    found = recommend(bundle, workers=[8], workers_per_node=8)
    goal = next(each for each in found.series if each.scope == "training to an accuracy of 0.9")
    fastest = goal.optima[0]
    assert fastest.workers == 4
    times = {c.workers: c.seconds for c in goal.candidates}
    assert times[8] is None
    assert any("this count needs a training run of its own" in note for note in found.notes)
    steps = 400 * (1 + 64 / 256)
    assert times[4].mean() == pytest.approx(steps * 0.1, rel=0.15)


def test_a_small_noise_scale_makes_large_batches_worth_less(measured: Bundle):
    plain, weighed = recommend(measured), recommend(measured, noise_scale=100)
    before, after = (next(c for c in f.series[1].candidates if c.workers == 16) for f in (plain, weighed))
    assert after.seconds.mean() == pytest.approx(before.seconds.mean() * (100 + 16 * 64) / (100 + 64), rel=0.01)
    strong = [next(c for c in f.series[0].candidates if c.workers == 16).seconds.mean() for f in (plain, weighed)]
    assert strong[0] == pytest.approx(strong[1])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"workers": [0]}, "worker counts must be at least 1, got 0"),
        ({"target": 1.5}, "target accuracy must be between 0 and 1, got 1.5"),
        ({"deadline_s": -1.0}, "deadline must be a finite positive number, got -1"),
        ({"budget": float("inf")}, "budget must be a finite positive number"),
        ({"hold_out": [3]}, "cannot hold out 3: not measured \\(measured: 1, 2, 4, 8, 16\\)"),
        ({"hold_out": [1, 2, 4, 8, 16]}, "every measured count is held out"),
        ({"noise_scale": 0.0}, "noise scale must be a finite positive number, got 0"),
    ],
)
def test_bad_limits_are_refused_in_one_line(measured: Bundle, given: dict, said: str):
    with pytest.raises(FitError, match=said):
        recommend(measured, **given)


def test_the_same_bundle_gives_the_same_bytes(measured: Bundle):
    first, second = ("".join(t.json() for t in recommend(measured, workers=[32]).tables()) for _ in range(2))
    assert first == second
