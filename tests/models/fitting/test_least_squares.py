import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalecurve_models.fitting.least_squares import FitError, nonnegative, positive_array, require_points


def test_known_parameters_come_back_with_intervals_that_hold_them():
    rng = np.random.default_rng(3)
    design = rng.uniform(0.1, 1, (60, 2))
    fit = nonnegative(design, design @ [2.0, 0.5] + 0.01 * rng.standard_normal(60), ("a", "b"))
    a, b = fit.parameters(("s", ""))
    assert (a.low, a.high) < (2.01, 2.1)
    assert a.low <= 2.0 <= a.high
    assert b.low <= 0.5 <= b.high
    assert a.unit == "s"


def test_intervals_keep_their_coverage():
    rng = np.random.default_rng(0)
    design = np.stack([np.ones(12), np.arange(12.0)], axis=1)
    covered = 0
    for _ in range(400):
        fit = nonnegative(design, design @ [3.0, 1.0] + 0.3 * rng.standard_normal(12), ("a", "b"))
        a, _ = fit.parameters(("", ""))
        covered += a.low <= 3.0 <= a.high
    assert 0.92 <= covered / 400 <= 0.98


def test_columns_that_vary_together_are_said_aloud():
    w = np.array([1.0, 2, 4, 8])
    fit = nonnegative(np.stack([np.ones(4), w, 2 * w], axis=1), 1 + w, ("a", "b", "c"))
    a, b, c = fit.parameters(("", "", ""))
    assert a.value == pytest.approx(1)
    assert b.value is None
    assert b.note == "not identifiable: in these points it varies only together with c"
    assert c.note.endswith("with b")


def test_a_parameter_without_any_trace_is_said_aloud():
    fit = nonnegative(np.array([[1.0, 0.0], [2.0, 0.0]]), np.array([1.0, 2.0]), ("a", "b"))
    assert fit.parameters(("", ""))[1].note == "not identifiable: no point depends on it"


def test_fewer_points_than_parameters_leave_none_identified():
    fit = nonnegative(np.array([[1.0, 2.0]]), np.array([3.0]), ("a", "b"))
    assert all(parameter.value is None for parameter in fit.parameters(("", "")))


def test_as_many_points_as_parameters_have_no_interval():
    fit = nonnegative(np.array([[1.0, 0.0], [1.0, 1.0]]), np.array([1.0, 3.0]), ("a", "b"))
    assert [p.low for p in fit.parameters(("", ""))] == [None, None]
    assert "no error estimate" in fit.parameters(("", ""))[0].note


def test_a_parameter_that_would_be_negative_stays_at_its_bound():
    x = np.arange(1.0, 9)
    fit = nonnegative(np.stack([np.ones(8), x], axis=1), 10 - 0.1 * x, ("a", "b"))
    b = fit.parameters(("", ""))[1]
    assert (b.value, b.low, b.high) == (0.0, 0.0, 0.0)
    assert b.note == "at its bound of 0; these points pull it below"


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=5))
def test_only_finite_positive_numbers_pass(values):
    if all(1e-100 <= value <= 1e100 for value in values):
        assert positive_array("m", "values", values).tolist() == values
    else:
        with pytest.raises(
            FitError, match=r"^m: values must be (finite positive numbers|between .*), got \S+ as number \d+$"
        ):
            positive_array("m", "values", values)


def test_refusals_name_both_numbers():
    with pytest.raises(FitError, match=r"^usl: 2 parameters need at least 2 points, got 1$"):
        require_points("usl", 1, 2)
    with pytest.raises(FitError, match="must be finite positive numbers: could not convert"):
        positive_array("m", "values", ["a"])
    with pytest.raises(FitError, match="flat list"):
        positive_array("m", "values", [[1.0]])
