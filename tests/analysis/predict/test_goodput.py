import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalecurve_models.fitting.least_squares import FitError
from scalecurve_models.goodput.noise import (
    GradientNoise,
    best_batch,
    fit_critical_batch,
    noise_of_batches,
    noise_of_replicas,
    noise_of_scale,
    smoothed,
)
from scalecurve_models.goodput.overlap import StepTime, fit_overlap
from scalecurve_models.goodput.overlap_solver import Runs, slopes, times

TRUTH = np.array([0.01, 0.002, 0.03, 0.001, 0.008, 0.0005, 3.0])
RUNS = [
    *((1, 1, m) for m in (16, 32, 64)),
    *((r, 1, m) for r in (2, 4) for m in (16, 64)),
    *((r, 2, m) for r in (4, 8) for m in (16, 64)),
    (16, 4, 32),
    (32, 8, 32),
]


def measured(values=TRUTH, runs=RUNS, noise=0.0, seed=0, compute=True):
    rng = np.random.default_rng(seed)
    computes, steps = times(values, Runs.of(runs))
    factors = np.exp(noise * rng.standard_normal((2, len(runs))))
    return [
        StepTime(w, n, m, float(s), float(c) if compute else None)
        for (w, n, m), s, c in zip(runs, steps * factors[0], computes * factors[1], strict=True)
    ]


def test_the_step_is_the_published_one():
    compute, step = times(TRUTH, Runs.of([(1, 1, 50), (4, 1, 50), (8, 2, 50)]))
    assert compute == pytest.approx([0.11] * 3)
    within, between = 0.008 + 0.0005 * 2, 0.03 + 0.001 * 6
    assert step[0] == pytest.approx(0.11)
    assert step[1] == pytest.approx((0.11**3 + within**3) ** (1 / 3))
    assert step[2] == pytest.approx((0.11**3 + between**3) ** (1 / 3))


@settings(deadline=None, max_examples=40)
@given(st.lists(st.floats(1e-4, 0.1), min_size=6, max_size=6), st.floats(1, 10))
def test_slopes_are_the_derivatives(times_, gamma):
    values = np.array([*times_, gamma])
    runs = Runs.of(RUNS)
    compute, step = slopes(values, tuple(range(7)), runs)
    for index in range(7):
        up, down = values.copy(), values.copy()
        h = 1e-6
        up[index], down[index] = (gamma + h, gamma - h) if index == 6 else (values[index] * np.exp([h, -h]))
        for slope, which in ((compute, 0), (step, 1)):
            numeric = (np.log(times(up, runs)[which]) - np.log(times(down, runs)[which])) / (2 * h)
            assert slope[:, index] == pytest.approx(numeric, abs=1e-6)


def test_a_known_step_comes_back_and_predicts_what_was_not_run():
    fit = fit_overlap(measured())
    assert max(map(abs, fit.residuals)) < 1e-3
    assert fit.held_out_mean < 1e-3
    expected = times(TRUTH, Runs.of([(64, 8, 32)]))[1][0]
    assert fit.step_s(64, 32, nodes=8) == pytest.approx(expected, rel=0.01)
    assert fit.throughput(64, 32, nodes=8) == pytest.approx(64 * 32 / expected, rel=0.01)
    assert fit.step_s(8, 32, nodes=2, accumulation=3) == pytest.approx(
        times(TRUTH, Runs.of([(8, 2, 32)]))[1][0] + 3 * (0.01 + 0.002 * 32), rel=0.01
    )


def test_noise_is_held_out_and_intervals_hold_a_new_run():
    fit = fit_overlap(measured(noise=0.02))
    assert fit.held_out_mean < 0.05
    prediction = fit.predict(8, 64, nodes=2)
    assert prediction.low < prediction.value < prediction.high
    alpha, beta = fit.parameters[:2]
    assert alpha.low <= 0.01 <= alpha.high
    assert beta.low <= 0.002 <= beta.high


def test_what_was_not_run_is_not_identified_and_says_why():
    fit = fit_overlap(measured(runs=[(1, 1, 32), (2, 1, 32)]))
    notes = {p.name: p.note for p in fit.parameters if p.value is None}
    assert notes["alpha_c"] == "not identifiable: a single batch per worker; fixed at half of the compute time"
    assert notes["alpha_n"] == "not identifiable: no run on several nodes"
    assert notes["beta_r"] == "not identifiable: no run with more than 2 workers"
    assert fit.values[2] == pytest.approx(max(1e-8, 1.1 * fit.values[4]))
    alone = fit_overlap(measured(runs=[(1, 1, 32), (1, 1, 64)]))
    assert alone.parameters[-1].note == "not identifiable: no run with communication"


def test_a_network_that_the_others_never_used_is_not_predicted():
    fit = fit_overlap(measured(runs=[(1, 1, 16), (1, 1, 64), (2, 1, 16), (4, 2, 16)], noise=0.01))
    assert fit.held_out[2] is None
    assert fit.held_out[3] is None


@pytest.mark.parametrize(
    ("points", "said"),
    [
        ([], "at least 2 different runs .* got 0"),
        ([StepTime(1, 1, 8, 0.1), StepTime(1, 1, 8, 0.11)], "got 1"),
        ([StepTime(2, 1, 8, 0.1), StepTime(4, 1, 8, 0.1)], "needs a compute time"),
        ([StepTime(1, 1, 8, 0.0), StepTime(2, 1, 8, 0.1)], "step times must be finite positive numbers"),
        ([StepTime(1, 2, 8, 0.1), StepTime(2, 1, 8, 0.1)], "got 1 workers on 2 nodes"),
        ([StepTime(1, 1, -8, 0.1), StepTime(2, 1, 8, 0.1)], "with a batch of -8"),
    ],
)
def test_bad_steps_are_refused_in_one_line(points, said):
    with pytest.raises(FitError, match=said) as caught:
        fit_overlap(points)
    assert "\n" not in str(caught.value)


def test_efficiency_is_one_at_the_reference_and_falls_with_the_batch():
    noise = noise_of_scale(1000, 100)
    assert noise.scale == pytest.approx(1000)
    assert noise.efficiency(100) == pytest.approx(1)
    assert noise.efficiency(400) == pytest.approx((1000 + 100) / (1000 + 400))
    assert GradientNoise(0.0, 1.0, 64).efficiency(6400) == pytest.approx(1)
    assert GradientNoise(1.0, 0.0, 64).efficiency(128) == pytest.approx(0.5)
    assert math.isinf(GradientNoise(0.0, 1.0, 64).scale)


def test_noise_estimates_are_those_of_gradients_of_known_noise():
    rng = np.random.default_rng(0)
    truth, deviation, dimension = 0.1, 1.0, 400
    mean = np.full(dimension, truth)

    def norm2(batch, draws=400):
        return ((mean + deviation / math.sqrt(batch) * rng.standard_normal((draws, dimension))) ** 2).sum(1).mean()

    expected = dimension * deviation**2 / (dimension * truth**2)
    assert noise_of_batches(16, norm2(16), 256, norm2(256)).scale == pytest.approx(expected, rel=0.1)
    local = mean + deviation / math.sqrt(16) * rng.standard_normal((200, 8, dimension))
    steps = [noise_of_replicas(8, (step**2).sum(1).mean(), (step.mean(0) ** 2).sum(), 8 * 16) for step in local]
    assert smoothed(steps).scale == pytest.approx(expected, rel=0.15)


def test_the_critical_batch_comes_back_from_steps_to_a_target():
    batches = [32, 64, 128, 512, 2048]
    fit = fit_critical_batch(batches, [1000 * (1 + 400 / b) for b in batches])
    assert [p.value for p in fit.parameters] == pytest.approx([1000, 400])
    assert fit.steps(256) == pytest.approx(1000 * (1 + 400 / 256))
    assert max(map(abs, fit.held_out)) < 1e-9
    flat = fit_critical_batch([32, 64], [100, 100])
    assert flat.parameters[1].note == "not identifiable: the larger batch saved no step"
    with pytest.raises(FitError, match="2 parameters need at least 2 different batches, got 1"):
        fit_critical_batch([32, 32], [100, 90])


def test_the_best_batch_weighs_throughput_against_progress():
    fit = fit_overlap(measured())
    quiet, loud = noise_of_scale(200, 64), noise_of_scale(50_000, 64)
    few, many = (best_batch(fit, noise, 8, nodes=2, most=8192) for noise in (quiet, loud))
    assert few.batch < many.batch
    assert few.goodput == pytest.approx(few.throughput * few.efficiency)
    for batch in (few.batch - 2, few.batch + 2):
        assert fit.throughput(8, batch, nodes=2) * quiet.efficiency(8 * batch) <= few.goodput * 1.01
    split = best_batch(fit, loud, 8, nodes=2, most=8192, most_per_worker=8, accumulate=True)
    assert split.batch <= 8
    assert split.accumulation > 0
    with pytest.raises(FitError, match="exceed 1 workers with at most 8"):
        best_batch(fit, quiet, 1, most_per_worker=8)
    with pytest.raises(FitError, match="no batch between 64 and 10"):
        best_batch(fit, quiet, 2, most=10)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: noise_of_scale(0, 8), "noise scale and batch must be finite positive"),
        (lambda: noise_of_scale(10, 8).efficiency(0), "batch must be positive, got 0"),
        (lambda: noise_of_batches(8, 1.0, 8, 0.5), "a larger and a smaller batch, got 8 and 8"),
        (lambda: noise_of_replicas(1, 1.0, 0.5, 8), "at least 2 replicas, got 1"),
        (lambda: smoothed([]), "steps of a single batch size"),
    ],
)
def test_bad_noise_is_refused_in_one_line(call, said):
    with pytest.raises(FitError, match=said):
        call()
