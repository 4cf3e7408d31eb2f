import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalecurve.hardware.devices import HardwareError
from scalecurve_models.fitting.least_squares import FitError
from scalecurve_models.roofline.bound import Roof, roof_of
from scalecurve_models.roofline.energy import fit_energy
from scalecurve_models.roofline.utilization import fit_utilization


@given(st.floats(1e-3, 1e6))
def test_the_roof_is_flat_beyond_its_ridge(intensity):
    roof = Roof(1e15, 5e12)
    assert roof.ridge == pytest.approx(200)
    assert roof.attainable(intensity) == pytest.approx(min(1e15, 5e12 * intensity))
    seconds, limit = roof.seconds(1e12, 1e12 / intensity)
    assert seconds == pytest.approx(1e12 / roof.attainable(intensity))
    assert limit == ("compute" if intensity >= 200 else "memory")


def test_the_ridge_of_a_shipped_device_is_its_data_sheets():
    assert roof_of("K80").ridge == pytest.approx(5600 / 480)
    with pytest.raises(HardwareError, match="is unknown"):
        roof_of("K81")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: Roof(0, 1), "peak must be a finite positive number, got 0"),
        (lambda: Roof(1, 1).attainable(-1), "intensity must be"),
        (lambda: Roof(1, 1).seconds(-1, 1), "work must be positive"),
        (lambda: fit_utilization([8, 8], [1.0, 1.1]), "at least 2 different batches per worker, got 1"),
        (lambda: fit_utilization([8, 16], [1.0, 0.0]), "times must be .* got 0 as number 2"),
        (lambda: fit_utilization([8, 16], [1.0, 2.0]).seconds(0), "batch must be positive"),
        (lambda: fit_energy([1], [10.0], [3.0]), "at least 2 points, got 1"),
        (lambda: fit_energy([1, 2], [10.0], [3.0, 4.0]), "same length"),
        (lambda: fit_energy([1, 2], [10.0, 19], [3.0, 4.0]).joules(2, 0), "must be positive"),
    ],
)
def test_bad_input_is_refused_in_one_line(call, said):
    with pytest.raises(FitError, match=said) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_the_batch_that_reaches_half_speed_comes_back():
    batches = np.array([8, 16, 32, 64, 128])
    fit = fit_utilization(batches, 0.02 + 0.001 * batches, flops_per_sample=1e9, peak=4e12)
    values = {p.name: p.value for p in fit.parameters}
    assert values == pytest.approx({"t0": 0.02, "t1": 0.001, "half_batch": 20, "mfu_max": 0.25})
    assert fit.mfu(20).value == pytest.approx(0.125)
    assert max(map(abs, fit.held_out)) < 1e-9
    assert fit_utilization(batches, 0.02 + 0.001 * batches).mfu(8) is None


def test_energy_comes_apart_into_work_and_waiting():
    workers, rate = np.array([1, 2, 4, 8]), np.array([100, 190, 350, 600])
    joules = 2.5 + 300 * workers / rate
    fit = fit_energy(workers, rate, joules)
    assert [p.value for p in fit.parameters] == pytest.approx([2.5, 300])
    assert fit.joules(16, 1000).value == pytest.approx(2.5 + 300 * 0.016)
    assert max(map(abs, fit.held_out)) < 1e-9


def test_two_energies_have_no_error_and_perfect_scaling_tells_nothing():
    assert fit_energy([1, 2], [100, 180], [5.0, 5.2]).joules(2, 180).low is None
    same = fit_energy([1, 2, 4], [100, 200, 400], [5.0, 5.1, 4.9])
    assert same.parameters[0].note == "not identifiable: in these points it varies only together with p"
