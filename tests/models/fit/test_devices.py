"""Utilization and energy of devices: parameters come back from exact data, and bad data are refused."""

import numpy as np
import pytest

from scalecurve_models.fit.devices import fit_energy, fit_utilization
from scalecurve_models.fitting.least_squares import FitError


def test_the_batch_that_reaches_half_speed_comes_back():
    batches = np.array([8, 16, 32, 64, 128])
    fit = fit_utilization(batches, 0.02 + 0.001 * batches, flops_per_sample=1e9, peak=4e12)
    values = {p.name: p.value for p in fit.parameters}
    assert values == pytest.approx({"t0": 0.02, "t1": 0.001, "half_batch": 20, "mfu_max": 0.25})
    assert max(map(abs, fit.held_out)) < 1e-9
    unknown = fit_utilization(batches, 0.02 + 0.001 * batches)
    assert [p.name for p in unknown.parameters] == ["t0", "t1", "half_batch"]


def test_energy_comes_apart_into_work_and_waiting():
    workers, rate = np.array([1, 2, 4, 8]), np.array([100, 190, 350, 600])
    joules = 2.5 + 300 * workers / rate
    fit = fit_energy(workers, rate, joules)
    assert [p.value for p in fit.parameters] == pytest.approx([2.5, 300])
    assert max(map(abs, fit.held_out)) < 1e-9


def test_two_energies_have_no_error_and_perfect_scaling_tells_nothing():
    assert [p.low for p in fit_energy([1, 2], [100, 180], [5.0, 5.2]).parameters] == [None, None]
    same = fit_energy([1, 2, 4], [100, 200, 400], [5.0, 5.1, 4.9])
    assert same.parameters[0].note == "not identifiable: in these points it varies only together with p"


@pytest.mark.parametrize(
    ("fit", "message"),
    [
        (lambda: fit_utilization([8, 8], [1.0, 1.1]), "at least 2 different batches per worker, got 1"),
        (lambda: fit_utilization([8, 16], [1.0, 0.0]), "times must be .* got 0 as number 2"),
        (lambda: fit_energy([1], [10.0], [3.0]), "at least 2 points, got 1"),
        (lambda: fit_energy([1, 2], [10.0], [3.0, 4.0]), "same length"),
    ],
)
def test_bad_data_are_refused_in_one_line(fit, message):
    with pytest.raises(FitError, match=message) as caught:
        fit()
    assert "\n" not in str(caught.value)
