import math

import numpy as np
import pytest

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
from scalecurve_models.goodput.overlap import fit_overlap
from tests.models.goodput.goodput_cases import measured


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
