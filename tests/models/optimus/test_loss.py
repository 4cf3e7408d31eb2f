import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalecurve_models.fitting.least_squares import FitError
from scalecurve_models.optimus.loss import fit_loss
from tests.models.optimus.optimus_loss_cases import PAPER, STEPS, losses, noisy


@settings(max_examples=30)
@given(st.floats(1e-4, 2), st.floats(0.05, 10), st.floats(0, 3), st.floats(1, 1e4), st.integers(30, 500))
def test_known_coefficients_come_back_from_a_clean_curve(b0, b1, b2, stretch, count):
    steps = np.arange(float(count)) * stretch
    truth = np.array([max(b0, b1 / count) / stretch, b1, b2])
    fit = fit_loss(steps.tolist(), losses(truth, steps).tolist())
    assert fit.values[:2] == pytest.approx(truth[:2], rel=0.01)
    assert fit.values[2] == pytest.approx(b2, rel=0.01, abs=1e-6)
    assert fit.replaced <= 1


@pytest.mark.parametrize("noise", ["relative", "absolute"])
def test_coefficients_come_back_at_three_percent_noise(noise):
    errors = []
    for seed in range(25):
        rng = np.random.default_rng(seed)
        clean = losses(PAPER)
        size = clean if noise == "relative" else clean.mean()
        fit = fit_loss(STEPS.tolist(), (clean + 0.03 * size * rng.standard_normal(350)).tolist())
        errors.append(np.abs(fit.values / PAPER - 1))
    assert np.median(errors, axis=0).max() <= 0.02
    assert np.quantile(errors, 0.9, axis=0).max() <= 0.05


def test_the_first_fifty_noisy_points_tell_the_rest():
    errors = [np.abs(fit_loss(STEPS[:50], noisy(PAPER, seed=s)[:50]).values / PAPER - 1) for s in range(25)]
    assert np.median(errors, axis=0).max() <= 0.06


@pytest.mark.parametrize("noise", ["relative", "absolute"])
def test_intervals_hold_the_truth_as_often_as_they_say(noise):
    covered = np.zeros(3)
    for seed in range(100):
        rng = np.random.default_rng(1000 + seed)
        clean = losses(PAPER)
        size = clean if noise == "relative" else clean.mean()
        fit = fit_loss(STEPS.tolist(), (clean + 0.03 * size * rng.standard_normal(350)).tolist())
        covered += [p.low <= truth <= p.high for p, truth in zip(fit.parameters, PAPER, strict=True)]
    assert covered.min() >= 88


@pytest.mark.parametrize("noise", [0.0, 0.03])
def test_outliers_do_not_move_the_curve(noise):
    errors = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        curve = noisy(PAPER, noise=noise, seed=seed)
        where = rng.choice(350, 10, replace=False)
        curve[where] *= rng.choice([0.1, 0.3, 2, 5], 10)
        fit = fit_loss(STEPS.tolist(), curve.tolist())
        errors.append(np.abs(fit.values / PAPER - 1).max())
        assert 8 <= fit.replaced <= 25
    assert max(errors) <= (0.01 if noise == 0 else 0.1)
    assert np.median(errors) <= 0.05


def test_steps_to_a_loss_invert_the_curve():
    fit = fit_loss(STEPS, losses(PAPER))
    for step in (5.0, 100.0, 5000.0):
        assert fit.steps_to(float(losses(PAPER, np.array([step]))[0])).steps == pytest.approx(step, rel=1e-6)
    assert fit.steps_to(10.0).steps == 0


def test_a_loss_below_the_floor_is_never_reached_and_says_so():
    reach = fit_loss(STEPS, noisy(PAPER)).steps_to(0.05)
    assert reach.steps is None
    assert reach.high is None
    assert "flattens at 0.0" in reach.why
    near = fit_loss(STEPS[:60], noisy(PAPER)[:60]).steps_to(0.075)
    assert near.low is not None
    assert near.high is None or math.isinf(near.high)


def test_the_interval_of_steps_holds_the_truth():
    truth = 1 / (0.1 - 0.07)
    truth = (truth - 1.07) / 0.21
    inside = 0
    for seed in range(40):
        reach = fit_loss(STEPS[:100], noisy(PAPER, seed=seed)[:100]).steps_to(0.1)
        inside += reach.low <= truth <= reach.high
    assert inside >= 34


def test_a_cut_learning_rate_is_reported_and_its_pieces_fit():
    first, second = losses(np.array([0.1, 0.5, 0.4])), losses(np.array([0.4, 6.0, 0.1]), np.arange(150.0))
    measured = np.concatenate([first, second]) * (1 + 0.01 * np.random.default_rng(2).standard_normal(500))
    steps = np.arange(500.0)
    assert any(note.startswith("misfit") for note in fit_loss(steps, measured).notes)
    piece = fit_loss(steps[350:], measured[350:], first_step=350)
    assert piece.notes == ()
    assert piece.values[2] == pytest.approx(0.1, rel=0.05)
    assert piece.loss([400.0])[0] == pytest.approx(measured[400], rel=0.05)


def test_a_loss_that_does_not_fall_is_said():
    fit = fit_loss(STEPS[:20], [1.0] * 20)
    assert "the loss does not fall" in fit.notes
    assert any(p.value is None and p.note.startswith("not identifiable") for p in fit.parameters)


def test_a_curve_that_begins_infinitely_high_has_b1_at_its_bound():
    steps = np.arange(1.0, 60)
    fit = fit_loss(steps, (1 / (0.3 * steps) + 0.02) * (1 + 0.02 * np.random.default_rng(1).standard_normal(59)))
    b1 = fit.parameters[1]
    assert b1.value == pytest.approx(0, abs=0.02)
    assert b1.note in ("at its bound of 0", "not distinguishable from 0")
    assert b1.high > 0


def test_three_points_have_no_error():
    fit = fit_loss([1, 2, 3], [1.0, 0.8, 0.7])
    assert all(p.low is None for p in fit.parameters)
    assert fit.steps_to(0.65).low is None


@pytest.mark.parametrize(
    ("steps", "values", "said"),
    [
        ([1, 2], [1.0, 0.9], "3 parameters need at least 3 different steps, got 2"),
        ([1, 2, 3], [1.0, float("nan"), 0.9], "losses must be finite positive numbers, got nan as number 2"),
        ([1, 2, 3], [1.0, -0.5, 0.9], "got -0.5 as number 2"),
        ([1, 2, float("inf")], [1.0, 0.5, 0.9], "steps must be finite"),
        ([1, 2], [1.0, 0.5, 0.9], "columns must have the same length, got 2 steps, 3 losses"),
        ([-1, 2, 3], [1.0, 0.5, 0.9], "not before first_step"),
    ],
)
def test_bad_input_is_refused_in_one_line(steps, values, said):
    with pytest.raises(FitError, match=said) as caught:
        fit_loss(steps, values)
    assert "\n" not in str(caught.value)


def test_a_target_must_be_positive():
    with pytest.raises(FitError, match="target loss must be positive, got 0"):
        fit_loss(STEPS, losses(PAPER)).steps_to(0)


@pytest.mark.parametrize("loss", [5e-324, 1e-308, 1e308])
def test_a_loss_whose_square_or_reciprocal_no_float_holds_is_refused(loss):
    with pytest.raises(FitError, match=r"losses must be between 1e-100 and 1e\+100, got .* as number 3"):
        fit_loss([1.0, 2.0, 3.0, 4.0], [3.0, 2.0, loss, 1.5])
