"""Intervals keep their coverage on points of known truth."""

import math
from dataclasses import replace

import numpy as np
import pytest

from scalecurve.statistics.estimate import RepetitionTotals
from scalecurve.statistics.intervals import difference, efficiency, ratio, throughput
from scalecurve.statistics.spread import THREE_SESSIONS_LIMIT, Spread, larger, pooled
from tests.analysis.points_by_hand import point_of
from tests.analysis.synthetic_points import SyntheticPoint

DRAWS = 2000
FIVE = (50,) * 5
EQUAL = (FIVE,) * 3
UNEQUAL = (FIVE, (50, 30, 20, 60), (80, 50, 20, 50, 40, 60))
UNLIKE = (FIVE, (50,) * 2, (50,) * 3)


def right(found, truth, least, most):
    """Whether ``least`` or more say nothing wrong, and ``most`` or less hold the truth: few would, were all wide."""
    found = list(found)
    covered, unknown = (sum(each.covers(truth) for each in found), sum(each.unknown for each in found))
    return least <= (covered + unknown) / len(found) and covered / len(found) <= most


class TestCoverage:
    @pytest.mark.parametrize("inflation", [1, 3, 10])
    @pytest.mark.parametrize(
        ("point_windows", "baseline_windows", "rho", "between"),
        [
            (EQUAL, EQUAL, 0.0, 0.0),
            (EQUAL, EQUAL, 0.6, 0.005),
            (EQUAL, EQUAL, 0.95, 0.05),
            ((FIVE,) * 5, (FIVE,) * 5, 0.6, 0.005),
            ((FIVE,) * 5, EQUAL, 0.6, 0.005),
            (UNEQUAL, UNEQUAL, 0.6, 0.005),
            (UNEQUAL, UNEQUAL, 0.95, 0.05),
            (UNLIKE, EQUAL, 0.6, 0.005),
        ],
    )
    def test_efficiency_is_covered_in_93_to_97_percent(self, point_windows, baseline_windows, rho, between, inflation):
        baseline = SyntheticPoint(windows=baseline_windows, autocorrelation=rho, repetition_cv=between)
        point = SyntheticPoint(
            windows=point_windows,
            step_s=0.12,
            samples_per_step=4 * 256.0,
            autocorrelation=rho,
            step_cv=0.1 * inflation**0.5,
            repetition_cv=between * inflation**0.5,
        )
        truth = point.throughput / baseline.throughput / 4
        pairs = zip(point.draws(DRAWS, seed=11), baseline.draws(DRAWS, seed=12), strict=True)
        assert right((efficiency(at_four, at_one, 4, 1) for at_four, at_one in pairs), truth, 0.93, 0.97)

    @pytest.mark.parametrize(("at_four", "at_one"), [(2, 2), (2, 3), (3, 2)])
    @pytest.mark.parametrize("inflation", [1, 10])
    def test_two_repetitions_cover_in_the_wider_band_that_is_documented(self, at_four, at_one, inflation):
        baseline = SyntheticPoint(windows=(FIVE,) * at_one)
        noisier = {"step_cv": 0.1 * inflation**0.5, "repetition_cv": 0.01 * inflation**0.5}
        point = replace(baseline, windows=(FIVE,) * at_four, **noisier)
        pairs = zip(point.draws(DRAWS, seed=13), baseline.draws(DRAWS, seed=14), strict=True)
        assert right((ratio(first, second) for first, second in pairs), 1.0, 0.905, 0.985)

    @pytest.mark.parametrize("repetitions", [2, 3, 5])
    def test_throughput_is_covered(self, repetitions):
        point = SyntheticPoint(windows=(FIVE,) * repetitions, autocorrelation=0.95)
        assert right(map(throughput, point.draws(DRAWS, seed=21)), point.throughput, 0.93, 0.97)

    def test_one_run_covers_its_own_throughput_when_windows_outlast_the_autocorrelation(self):
        point = SyntheticPoint(windows=(FIVE,), repetition_cv=0.0)
        covered = sum(throughput(draw).covers(point.throughput) for draw in point.draws(DRAWS, seed=31))
        assert 0.93 <= covered / DRAWS <= 0.97

    def test_exposed_communication_is_covered_though_trials_differ(self):
        full, bare = (SyntheticPoint(repetition_cv=0.0, step_s=s, samples_per_step=1.0) for s in (0.12, 0.1))
        common = np.exp(np.random.default_rng(41).normal(0, 0.05, (DRAWS, 3)))
        covered, widths = 0, []
        for with_comm, without, factors in zip(full.draws(DRAWS, 42), bare.draws(DRAWS, 43), common, strict=True):
            both = [
                [RepetitionTotals.of(r.samples, np.multiply(r.wall_s, f)) for r, f in zip(p, factors, strict=True)]
                for p in (with_comm, without)
            ]
            paired = difference(both[0], both[1], paired=True)
            covered += paired.covers(0.02)
            widths.append([each.half_width or math.inf for each in (paired, difference(both[0], both[1]))])
        assert 0.93 <= covered / DRAWS <= 0.97
        assert np.median([p for p, _ in widths]) < np.median([u for _, u in widths])

    def test_the_level_is_the_coverage(self):
        point, draws = SyntheticPoint(), 1000
        covered = sum(throughput(draw, level=0.8).covers(point.throughput) for draw in point.draws(draws, seed=51))
        assert 0.76 <= covered / draws <= 0.84


class TestTwoRepetitions:
    @pytest.mark.parametrize("points", [3, 5])
    def test_the_noise_of_the_curve_covers_as_much_with_half_the_width(self, points):
        rng, curves, alone = np.random.default_rng(16), [], []
        for _ in range(DRAWS):
            curve = [point_of(*walls) for walls in np.exp(0.01 * rng.standard_normal((points, 2)))]
            noise = pooled(curve)
            curves.append((throughput(curve[-1], noise=noise), efficiency(curve[-1], curve[0], 1, 1, noise=noise)))
            alone.append(efficiency(curve[-1], curve[0], 1, 1))
        rates, ratios = zip(*curves, strict=True)
        assert right(rates, 100, 0.93, 0.97)
        assert right(ratios, 1, 0.93, 0.97)
        widths = [np.median([each.half_width or math.inf for each in found]) for found in (ratios, alone)]
        assert widths[0] < 0.6 * widths[1]


class TestThreeSessions:
    @pytest.mark.parametrize("share", [0.0, 0.1, 0.2, 0.3, 0.5, 1.0])
    def test_93_percent_whatever_sessions_add(self, share):
        """``share`` of the variance of a session's mean is its repetitions'; it is known well."""
        rng, draws = np.random.default_rng(15), 10_000
        means, repetitions = rng.chisquare(2, draws) / 2, share * rng.chisquare(48, draws) / 48
        covered = 0
        for of_means, of_repetitions, error in zip(means, repetitions, rng.standard_normal(draws), strict=True):
            spread = larger(0.95, 3, Spread(of_means, 2), Spread(of_repetitions, 48))
            covered += spread is not None and abs(error) <= spread.half_width(0.95)
        assert 0.93 <= covered / draws <= 0.976

    def test_session_means_give_way_below_a_share_of_the_repetitions(self):
        repetitions = Spread(1.0, 48)
        for variance, kept in ((1.01 * THREE_SESSIONS_LIMIT, True), (0.99 * THREE_SESSIONS_LIMIT, False)):
            means = Spread(variance, 2)
            assert larger(0.95, 3, means, repetitions) is (means if kept else repetitions)
            assert larger(0.95, 4, means, repetitions) is repetitions
