import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalecurve.hardware.devices import HardwareError
from scalecurve_models.fitting.least_squares import FitError
from scalecurve_models.projection.roofline.bound import Roof, roof_of


@given(st.floats(1e-3, 1e6))
def test_the_roof_is_flat_beyond_its_ridge(intensity):
    roof = Roof(1e15, 5e12)
    assert roof.ridge == pytest.approx(200)
    seconds, limit = roof.seconds(1e12, 1e12 / intensity)
    assert seconds == pytest.approx(1e12 / min(1e15, 5e12 * intensity))
    assert limit == ("compute" if intensity >= 200 else "memory")


def test_the_ridge_of_a_shipped_device_is_its_data_sheets():
    assert roof_of("K80").ridge == pytest.approx(5600 / 480)
    with pytest.raises(HardwareError, match="is unknown"):
        roof_of("K81")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: Roof(0, 1), "peak must be a finite positive number, got 0"),
        (lambda: Roof(1, 1).seconds(-1, 1), "work must be positive"),
    ],
)
def test_bad_input_is_refused_in_one_line(call, said):
    with pytest.raises(FitError, match=said) as caught:
        call()
    assert "\n" not in str(caught.value)
