import pytest

from scalecurve_models.fitting.least_squares import FitError
from scalecurve_models.goodput.overlap import StepTime, fit_overlap
from tests.models.goodput.goodput_cases import measured


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
        ([StepTime(1, 2, 8, 0.1), StepTime(2, 1, 8, 0.1)], "got 1 worker on 2 nodes"),
        ([StepTime(1, 1, -8, 0.1), StepTime(2, 1, 8, 0.1)], "with a batch of -8"),
    ],
)
def test_bad_steps_are_refused_in_one_line(points, said):
    with pytest.raises(FitError, match=said) as caught:
        fit_overlap(points)
    assert "\n" not in str(caught.value)
