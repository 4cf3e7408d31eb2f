"""When are repetitions enough? The rule by hand, and its coverage when it is used after every repetition."""

import math
import random

import pytest
from scipy.special import stdtrit

from scalecurve_api.planning.precision import LEAST, Sessions, enough, student95

NARROW = [[1.0, 1.0001, 0.9999, 1.0002, 1.0]]
WIDE = [[1.0, 1.1, 0.9, 1.2, 1.0]]


def test_a_narrow_interval_is_enough_and_a_wide_one_is_not() -> None:
    stop = enough(NARROW, [[value * 2 for value in NARROW[0]]], 0.01, 12)
    assert stop.enough
    assert (stop.half_width or 1) < 0.001
    more = enough(WIDE, NARROW, 0.01, 12)
    assert not more.enough
    assert "requested are 1 %" in more.why


def test_few_repetitions_are_never_enough_however_equal() -> None:
    assert not enough([[1.0] * (LEAST - 1)], [[1.0] * (LEAST - 1)], 0.01, 12).enough
    assert not enough([[1.0] * LEAST], [[1.0] * (LEAST - 1)], 0.01, 12).enough
    assert enough([[1.0] * LEAST], [[1.0] * LEAST], 0.01, 12).enough


def test_the_limit_ends_it_and_is_given_as_the_reason() -> None:
    stop = enough([WIDE[0] * 2], NARROW, 0.01, 10)
    assert stop.enough
    assert "most repetitions allowed, 10" in stop.why
    assert enough([[1.0]], [[1.0]], 0.01, 1).why.startswith("its interval is not known")


def test_sessions_are_the_unit_where_there_are_several() -> None:
    quiet = [[1.0, 1.0001, 0.9999], [1.02, 1.0201, 1.0199]]
    shared = enough(quiet, [[value * 0.5 for value in session] for session in quiet], 0.01, 12)
    assert shared.enough  # what sessions share cancels
    assert not enough(quiet, [[0.5] * 3, [0.5] * 3], 0.01, 12).enough


def test_a_baseline_is_judged_by_its_throughput() -> None:
    assert enough(NARROW, NARROW, 0.01, 12).half_width == pytest.approx(2.7764 * 0.000114 / math.sqrt(5), rel=0.01)


@pytest.mark.parametrize(("target", "most"), [(0.0, 12), (math.nan, 12), (0.01, 0)])
def test_bad_targets(target: float, most: int) -> None:
    with pytest.raises(ValueError, match="positive target"):
        enough(NARROW, NARROW, target, most)


def test_bad_times() -> None:
    with pytest.raises(ValueError, match="seconds per sample, got nan"):
        enough([[math.nan]], NARROW, 0.01, 12)


def test_quantiles_are_never_too_small() -> None:
    for degrees in (1, 1.5, 2, 3.7, 9, 14, 28, 29, 40, 100, 1000):
        exact = float(stdtrit(degrees, 0.975))
        assert exact - 1e-3 <= student95(degrees) <= float(stdtrit(math.floor(degrees), 0.975)) + 0.05


@pytest.mark.parametrize("target", [0.004, 0.006, 0.009])
def test_coverage_under_stopping(target: float) -> None:
    draw = random.Random(7)
    held = 0
    for _ in range(800):
        point: Sessions = [[]]
        baseline: Sessions = [[]]
        while not (stop := enough(point, baseline, target, 12)).enough:
            for side in (point, baseline):
                side[0].append(math.exp(draw.gauss(0, 0.005)))  # type: ignore[attr-defined]
        gap = sum(map(math.log, point[0])) / len(point[0]) - sum(map(math.log, baseline[0])) / len(baseline[0])
        held += stop.half_width is not None and abs(gap) <= stop.half_width
    assert 0.925 <= held / 800 <= 0.98
