"""A model is called the best only where the errors at left-out points tell it from every other one."""

import pytest

from scalecurve_models.fitting.separability import leading, not_separable, separable


@pytest.mark.parametrize(
    ("worse", "better", "expected"),
    [
        ([0.05, 0.06, 0.05], [0.01, 0.01, 0.02], True),
        ([0.02, 0.001], [0.001, 0.02], False),
        ([0.011, 0.012, 0.010], [0.011, 0.010, 0.012], False),
        ([0.03, 0.0, 0.0], [0.0, 0.0, 0.0], False),
        ([-0.05, 0.06], [0.01, -0.01], True),
        ([0.05], [0.01], False),
        ([0.004, 0.005], [0.001, 0.002], False),
    ],
)
def test_models_are_separable_by_more_than_one_standard_error(worse, better, expected):
    assert separable(worse, better) is expected


def test_the_leading_models_are_the_least_and_what_it_is_not_told_from():
    errors = {
        "linear": {2: 0.10, 4: 0.20, 8: 0.30},
        "amdahl": {2: 0.010, 4: -0.012, 8: 0.011},
        "ring": {2: 0.012, 4: 0.010, 8: 0.0105},
        "usl": {2: None, 4: 0.0, 8: 0.0},
        "paleo": {1: 0.3, 2: 0.5, 4: 0.4, 8: 0.3},
        "none": {},
    }
    assert leading(list(errors), errors.__getitem__) == ("amdahl", "ring")
    assert leading(["linear", "amdahl"], errors.__getitem__) == ("amdahl",)
    assert leading(["usl", "none"], errors.__getitem__) == ()
    assert not_separable(["amdahl", "ring"]) == "not separable: amdahl, ring"
