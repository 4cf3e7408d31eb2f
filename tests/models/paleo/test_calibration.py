"""PPP from measured steps, and the terms of Paleo+: what they recover, and what they say that they cannot tell."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalecurve_models.fitting.least_squares import FitError
from scalecurve_models.networks import shipped
from scalecurve_models.paleo.calibration import MeasuredStep, calibrate
from scalecurve_models.paleo.scaling import Platform, predict_scaling, predict_step
from tests.models.paleo.paleo_calibration_cases import ON

# Images a second of one GPU, TensorFlow's benchmarks page of May 2017 (AWS K80, DGX-1 P100), synthetic data.
PUBLISHED = {"inception_v3": (64, 30.8), "resnet50_paleo": (64, 51.5), "alex_v2": (512, 684), "vgg16": (32, 36.3)}


def published(name):
    batch, rate = PUBLISHED[name]
    return MeasuredStep(shipped(name), batch, batch / rate * 1e3)


@settings(max_examples=30)
@given(
    st.sampled_from(["alex_v2", "nin", "resnet50"]),
    st.floats(0.02, 5),
    st.lists(st.integers(1, 512), min_size=1, max_size=4),
)
def test_a_ppp_that_made_the_steps_is_found_again(name, ppp, batches):
    on = Platform(ON.device, ON.link, ppp)
    points = [MeasuredStep(shipped(name), b, predict_step(shipped(name), on, batch=b).compute_ms) for b in batches]
    found = calibrate(points, ON)
    assert found.ppp_comp.value == pytest.approx(ppp, rel=1e-6)
    assert all(abs(point.error) < 1e-6 for point in found.points)
    assert found.platform.ppp_comp == found.ppp_comp.value


@pytest.mark.parametrize(
    ("name", "ppp"), [("inception_v3", 0.22), ("resnet50_paleo", 0.26), ("alex_v2", 0.70), ("vgg16", 0.69)]
)
def test_published_k80_steps_need_these_ppps(name, ppp):
    assert calibrate([published(name)], ON).ppp_comp.value == pytest.approx(ppp, abs=0.005)


@pytest.mark.parametrize(
    ("name", "speedup", "tensorflow"), [("inception_v3", 49.1, 34.5), ("resnet50_paleo", 41.4, 27.6)]
)
def test_known_weak_scaling_of_64_workers(name, speedup, tensorflow):
    batch = PUBLISHED[name][0]
    for platform, wanted in ((calibrate([published(name)], ON).platform, speedup), (ON, tensorflow)):
        one, many = predict_scaling(shipped(name), platform, batch=batch, workers=[1, 64])
        assert many.throughput / one.throughput == pytest.approx(wanted, abs=0.06)


def test_one_point_tells_no_error_and_says_so():
    found = calibrate([published("vgg16")], ON)
    assert (found.ppp_comp.low, found.ppp_comp.high) == (None, None)
    assert any("error estimate" in note for note in found.notes)
    assert any("no information on the PPP for communication" in note for note in found.notes)


def test_several_families_have_no_common_ppp_and_it_shows():
    found = calibrate([published(name) for name in PUBLISHED], ON)
    assert found.ppp_comp.low < found.ppp_comp.value < found.ppp_comp.high
    assert max(abs(point.error) for point in found.points) > 0.5
    assert "Exact PPPs of the points range from 0.221 to 0.699." in found.notes


def test_noise_is_covered_by_the_interval():
    on = Platform(ON.device, ON.link, 0.5)
    factors = (0.97, 1.02, 1.01, 0.99, 1.03, 0.98)
    points = [
        MeasuredStep(shipped("nin"), b, f * predict_step(shipped("nin"), on, batch=b).compute_ms)
        for b, f in zip((16, 32, 64, 128, 256, 512), factors, strict=True)
    ]
    ppp = calibrate(points, ON).ppp_comp
    assert ppp.low < 0.5 < ppp.high
    assert ppp.high / ppp.low < 1.06


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([], "got none"),
        ([MeasuredStep(shipped("vgg16"), 1, 3.0)], "no PPP gives this step"),
        ([MeasuredStep(shipped("vgg16"), 1, 1e12)], "check the unit"),
        ([MeasuredStep(shipped("vgg16"), 1, 100.0, workers=2)], "got a step of 2"),
    ],
)
def test_points_that_give_no_ppp(points, message):
    with pytest.raises(FitError, match=message) as error:
        calibrate(points, ON)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("ms", [0.0, -1.0, math.nan, math.inf])
def test_steps_that_cannot_be(ms):
    with pytest.raises(FitError, match="expected a positive number"):
        MeasuredStep(shipped("vgg16"), 1, ms)
