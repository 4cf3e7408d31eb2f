"""Predictions at counts that were not measured: exact curves come back, boundaries and far counts are refused."""

import numpy as np
import pytest

from scalecurve_models.laws.extrapolation import PREDICTED, RANGE, REFUSED, extrapolate, merged
from scalecurve_models.laws.normal_form import CurvePoint, predict_mixture


def curve(counts, loss, nodes=None):
    """Samples/s of 100 per worker, where a worker's time grows by ``loss``(N)."""
    return [CurvePoint(n, 100 * n / (1 + loss(n)), nodes(n) if nodes else None) for n in counts]


def test_a_curve_of_the_normal_form_is_continued():
    points = curve((1, 2, 4, 8, 16), lambda n: 0.02 * np.log2(n))
    at = extrapolate(points, 32)
    assert at.status == PREDICTED
    assert at.throughput == pytest.approx(100 * 32 / 1.1, rel=0.01)
    assert at.low < 100 * 32 / 1.1 < at.high


def test_the_step_between_nodes_is_no_trend():
    points = curve((1, 2, 4, 8, 16, 32), lambda n: 0.01 * (n > 1) + 0.2 * (n > 8), lambda n: max(1, n // 8))
    assert extrapolate(points, 64).throughput == pytest.approx(100 * 64 / 1.21, rel=0.02)


def test_several_nodes_from_one_are_a_range_with_the_reason():
    at = extrapolate(curve((1, 2, 4, 8), lambda n: 0.01 * n, lambda n: 1), 16)
    assert (at.status, at.throughput) == (RANGE, None)
    assert "only one node was measured" in at.reason
    assert at.low < 1600 < at.high  # a range, and no prediction


def test_the_size_of_nodes_decides_where_the_boundary_is():
    points = curve((1, 2, 4), lambda n: 0.01 * n, lambda n: 1)
    assert extrapolate(points, 8).status == PREDICTED
    assert extrapolate(points, 8, workers_per_node=4).status == RANGE
    assert extrapolate(points, 8, nodes=2).status == RANGE


def test_without_nodes_the_assumed_boundary_is_named():
    reason = extrapolate(curve((1, 2, 4, 8), lambda n: 0.01 * n), 16).reason
    assert "8 workers per node are assumed" in reason


@pytest.mark.parametrize("counts", [(1,), (1, 2)])
def test_two_counts_are_too_few(counts):
    at = extrapolate(curve(counts, lambda n: 0.01 * n), 4)
    assert at.status == REFUSED
    assert "at least 3" in at.reason


def test_far_beyond_what_published_curves_test_is_refused():
    at = extrapolate(curve((1, 2, 4), lambda n: 0.01 * n), 4096, workers_per_node=10_000)
    assert at.status == REFUSED
    assert "1,024 times" in at.reason


def test_fewer_workers_than_were_measured_are_refused():
    at = extrapolate(curve((8, 16, 32), lambda n: 0.01 * n, lambda n: n // 8), 2)
    assert (at.status, at.throughput) == (REFUSED, None)
    assert "smallest measured count, 8" in at.reason


def test_between_measured_counts_is_predicted():
    points = curve((1, 2, 4, 8), lambda n: 0.02 * np.log2(n), lambda n: 1)
    assert extrapolate(points, 3).throughput == pytest.approx(300 / (1 + 0.02 * np.log2(3)), rel=0.01)


def test_what_the_points_leave_open_is_a_range_and_no_prediction():
    rates = {1: 100.0, 2: 110.0, 4: 260.0, 8: 240.0}
    at = extrapolate([CurvePoint(n, rate, n) for n, rate in rates.items()], 16)
    assert (at.status, at.throughput) == (RANGE, None)
    assert "measure a count that is nearer" in at.reason
    assert at.high / at.low > 1.5


def test_a_curve_may_leave_its_form_and_the_farther_the_more():
    points = curve((8, 16, 32, 64, 128), lambda n: 0.0, lambda n: n // 8)
    widths = [np.log(at.high / at.low) for at in (extrapolate(points, n) for n in (256, 512))]
    assert 0.005 < widths[0] < widths[1]


def test_repetitions_of_a_count_are_one_point():
    points = [CurvePoint(2, 100.0), CurvePoint(1, 60.0), CurvePoint(2, 300.0)]
    assert merged(points) == (CurvePoint(1, 60.0), CurvePoint(2, pytest.approx(150.0)))


def test_draws_have_the_quantiles_of_the_interval():
    at = extrapolate(curve((1, 2, 4), lambda n: 0.02 * np.log2(n)), 8)
    draws = at.draws(200_000, np.random.default_rng(1))
    assert np.quantile(draws, [0.025, 0.5, 0.975]) == pytest.approx([at.low, at.throughput, at.high], rel=0.01)


def test_more_points_of_one_form_make_its_interval_narrower():
    def loss(n):
        return 0.03 * np.log2(n)

    few = predict_mixture(curve((1, 2, 4), loss), 64, None)
    more = predict_mixture(curve((1, 2, 4, 8, 16, 32), loss), 64, None)
    width = [mixture.quantile(0.975) / mixture.quantile(0.025) for mixture in (few, more)]
    assert width[1] < width[0]
