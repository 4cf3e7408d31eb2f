"""PPP from measured steps, and the terms of Paleo+: what they recover, and what they say that they cannot tell."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalecurve.hardware.devices import find_device, find_link
from scalecurve_models.fitting.least_squares import FitError
from scalecurve_models.networks import shipped
from scalecurve_models.paleo.calibration import MeasuredStep, calibrate
from scalecurve_models.paleo.costs import costs_of
from scalecurve_models.paleo.measured import read_measured
from scalecurve_models.paleo.plus import PlusTerms, fit_plus, overlapped, with_plus
from scalecurve_models.paleo.scaling import Platform, predict_scaling, predict_step
from scalecurve_models.paleo.terms import PaleoError

ON = Platform(find_device("K80"), find_link("ethernet20"))
P100 = Platform(find_device("P100"), find_link("ethernet20"))

# Images a second of one GPU, TensorFlow's benchmarks page of May 2017 (AWS K80, DGX-1 P100), synthetic data.
PUBLISHED = {"inception_v3": (64, 30.8), "resnet50_paleo": (64, 51.5), "alex_v2": (512, 684), "vgg16": (32, 36.3)}


def published(name):
    batch, rate = PUBLISHED[name]
    return MeasuredStep(shipped(name), batch, batch / rate * 1e3)


@settings(deadline=None, max_examples=30)
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


def test_measured_steps_from_a_file(tmp_path):
    file = tmp_path / "steps.csv"
    file.write_text("batch,step_ms,workers\n32,100.5,1\n64,190,\n64,200,4\n")
    steps = read_measured(file, shipped("nin"))
    assert [(step.batch_per_worker, step.step_ms, step.workers) for step in steps] == [
        (32, 100.5, 1), (64, 190.0, 1), (64, 200.0, 4),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("batch,ms\n1,2\n", "column 'ms'"),
        ("batch\n1\n", "column 'step_ms'"),
        ("", "column 'batch'"),
        ("batch,step_ms\nx,2\n", r"steps\.csv:2: expected an integer batch and milliseconds, got x, 2"),
        ("batch,step_ms\n1\n", r"steps\.csv:2: expected an integer batch"),
        ("batch,step_ms\n1,2,3,4\n", r"steps\.csv:2: "),
        ("batch,step_ms\n1,-2\n", r"steps\.csv:2: step time -2\.0 ms: expected a positive number"),
    ],
)
def test_files_of_steps_that_cannot_be(tmp_path, text, message):
    file = tmp_path / "steps.csv"
    file.write_text(text)
    with pytest.raises(FitError, match=message):
        read_measured(file, shipped("nin"))
    with pytest.raises(FitError, match="cannot be read"):
        read_measured(tmp_path / "none.csv", shipped("nin"))


@given(st.floats(0, 1e6), st.floats(0, 1e6), st.floats(1, 10))
def test_overlap_lies_between_the_sum_and_the_longer(compute, exchange, overlap):
    step = overlapped(compute, exchange, overlap)
    assert max(compute, exchange) * (1 - 1e-12) <= step <= (compute + exchange) * (1 + 1e-12)
    assert overlapped(compute, exchange, 1.0) == pytest.approx(compute + exchange)


def plus(name, workers, terms, platform=ON, batch=64):
    step = predict_step(shipped(name), platform, batch=batch, workers=workers)
    return with_plus(step, costs_of(shipped(name)).parameter_bytes, platform, terms)


def test_without_overlap_and_latency_the_trees_step_is_paleos():
    step = plus("vgg16", 8, PlusTerms(scheme="tree"))
    assert step.step_ms == pytest.approx(step.paleo.step_ms)
    assert step.throughput == pytest.approx(step.paleo.throughput)
    assert step.exposed_ms == pytest.approx(step.exchange_ms)
    assert plus("vgg16", 1, PlusTerms(latency_us=100)).step_ms == step.paleo.compute_ms


def test_latency_is_a_message_and_the_ring_has_twice_the_workers_less_one():
    free, late = (plus("vgg16", 8, PlusTerms(latency_us=latency)).exchange_ms for latency in (0, 1000))
    assert late - free == pytest.approx(14)
    size = costs_of(shipped("vgg16")).parameter_bytes
    assert free == pytest.approx(2 * 7 / 8 * size / 2.5e9 * 1e3 / 0.72)


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ({"overlap": 0.5}, "overlap 0.5"),
        ({"overlap": math.nan}, "overlap nan"),
        ({"latency_us": -1}, "latency -1"),
        ({"scheme": "star"}, "scheme 'star': expected one of one_to_all, tree, butterfly, ring"),
    ],
)
def test_terms_that_cannot_be(terms, message):
    with pytest.raises(PaleoError, match=message):
        PlusTerms(**terms)


def measured(name, terms, platform, workers, batches=(64,)):
    return [
        MeasuredStep(shipped(name), batch, plus(name, n, terms, platform, batch).step_ms, n)
        for n in workers
        for batch in batches
    ]


@pytest.mark.parametrize("overlap", [1.3, 2.5, 6.0])
def test_overlap_that_made_the_steps_is_found_again(overlap):
    fit = fit_plus(measured("vgg16", PlusTerms(overlap), ON, (2, 4, 8, 16)), ON, free=["overlap"])
    assert fit.parameters[0].value == pytest.approx(overlap, rel=1e-4)
    assert fit.terms.overlap == fit.parameters[0].value
    assert max(map(abs, fit.errors)) < 1e-6


def test_three_terms_are_found_again_from_enough_points():
    on = Platform(ON.device, ON.link, 0.62, 0.4)
    points = measured("resnet50", PlusTerms(2.0, 500.0), on, (2, 4, 8, 32, 128), (4, 32))
    fit = fit_plus(points, ON, free=["overlap", "ppp_comm", "latency_us"])
    found = {parameter.name: parameter.value for parameter in fit.parameters}
    assert found == pytest.approx({"overlap": 2.0, "ppp_comm": 0.4, "latency_us": 500.0}, rel=1e-3)
    assert fit.platform.ppp_comm == found["ppp_comm"]


def test_two_terms_that_one_point_size_cannot_part_are_said_to_be():
    points = measured("vgg16", PlusTerms(1.0, 100.0), ON, (8, 8, 8))
    fit = fit_plus(points, ON, free=["ppp_comm", "latency_us"])
    assert [parameter.value for parameter in fit.parameters] == [None, None]
    assert all("not identifiable" in parameter.note for parameter in fit.parameters)


def test_as_many_points_as_parameters_tell_no_error():
    (parameter,) = fit_plus(measured("vgg16", PlusTerms(2.0), ON, (8,)), ON).parameters
    assert (parameter.low, parameter.high) == (None, None)
    assert "error estimate" in parameter.note


@pytest.mark.parametrize(
    ("workers", "free", "message"),
    [
        ((8,), ["overlap", "ppp_comm"], "2 parameters .* need as many steps of several workers, got 1"),
        ((1, 8), ["overlap"], "is fitted to steps of several workers, got a step of 1"),
        ((8,), ["colour"], "parameters colour: expected one or more of overlap, ppp_comm, latency_us"),
        ((8,), [], "parameters none"),
    ],
)
def test_fits_that_cannot_be(workers, free, message):
    with pytest.raises(FitError, match=message):
        fit_plus(measured("vgg16", PlusTerms(), ON, workers), ON, free=free)
