import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalecurve_models.fitting.least_squares import FitError
from scalecurve_models.networks import shipped
from scalecurve_models.paleo.calibration import MeasuredStep
from scalecurve_models.paleo.costs import costs_of
from scalecurve_models.paleo.plus import PlusTerms, fit_plus, overlapped, with_plus
from scalecurve_models.paleo.scaling import Platform, predict_step
from scalecurve_models.paleo.terms import PaleoError
from tests.models.paleo.paleo_calibration_cases import ON


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
