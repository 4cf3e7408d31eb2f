import numpy as np
import pytest

from scalecurve_models.fitting.least_squares import FitError
from scalecurve_models.laws.cross_validation import compare_laws
from scalecurve_models.laws.law_fit import fit_law
from tests.models.laws.laws_cases import find_law, law_of


def test_the_baseline_is_met_exactly_and_may_be_named():
    rates = [10.0, 19, 35, 60]
    fit = fit_law(find_law("usl"), [1, 2, 4, 8], rates, baseline=2)
    assert fit.throughput([2])[0] == pytest.approx(19)
    assert fit.predict(2).low is None
    with pytest.raises(FitError, match=r"^usl: the baseline of 3 workers was not measured$"):
        fit_law(find_law("usl"), [1, 2, 4, 8], rates, baseline=3)


@pytest.mark.parametrize("name", ["usl", "ring"])
def test_too_few_worker_counts_are_refused_in_one_line(name):
    with pytest.raises(FitError, match=f"^{name}: 2 parameters need at least 2 worker counts beside the baseline of 1"):
        fit_law(find_law(name), [1, 1, 2, 2], [10, 10.1, 19, 19.1])


def test_three_counts_are_fitted_exactly_by_two_parameters_and_that_is_said():
    fit = fit_law(find_law("ring"), [1, 2, 4], [10, 18, 33])
    assert fit.exact
    assert all(p.low is None and "no error estimate" in p.note for p in fit.parameters)
    assert fit.predict(8).low is None


def test_repetitions_give_intervals_but_do_not_test_the_shape():
    fit = fit_law(find_law("amdahl"), [1, 1, 1, 2, 2, 2], [10, 10.1, 9.9, 18, 18.2, 17.9])
    assert fit.exact
    low, high = fit.predict(4).low, fit.predict(4).high
    assert low < fit.throughput([4])[0] < high


def test_the_prediction_interval_covers_a_new_run():
    rng = np.random.default_rng(5)
    counts = np.repeat([1, 2, 4, 8], 3)
    truth = np.array(law_of("ring", [0.1, 0.01], counts))
    new = law_of("ring", [0.1, 0.01], [16])[0]
    inside = 0
    for _ in range(300):
        noisy = truth * np.exp(0.02 * rng.standard_normal(len(counts)))
        prediction = fit_law(find_law("ring"), counts.tolist(), noisy.tolist()).predict(16)
        inside += prediction.low <= new * np.exp(0.02 * rng.standard_normal()) <= prediction.high
    assert 0.9 <= inside / 300 <= 0.99


def test_a_share_is_at_most_one_however_slow_more_workers_are():
    fit = fit_law(find_law("amdahl"), [1, 2, 4], [100, 50, 20])
    (share,) = fit.parameters
    assert (share.value, share.high) == (1.0, 1.0)
    assert share.note == "at its bound of 1; the curve is slower than this law allows"
    assert fit.throughput([8])[0] == pytest.approx(100)


def test_values_that_are_no_throughput_are_refused():
    for rates in ([10, 0, 3], [10, -1, 3], [10, float("nan"), 3]):
        with pytest.raises(FitError, match=r"throughputs must be finite positive numbers, got .* as number 2"):
            compare_laws([1, 2, 4], rates)
    with pytest.raises(FitError, match="same length"):
        fit_law(find_law("usl"), [1, 2], [1.0])
