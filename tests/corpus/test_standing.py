"""Where a point stands: share of the median, percentile with its interval, refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import kstest

from scalecurve.statistics.estimate import Estimate, Method
from scalecurve_corpus.standing import percentile, spread_between_machines, standings
from scalecurve_corpus.tables import comparable_table, points_table, sources_table, standing_table
from tests.corpus.published import SOURCE, corpus, kind, own, published

FIVE = kind([960.0, 980.0, 1000.0, 1020.0, 1040.0])


def test_a_point_among_five_systems():
    (standing,) = standings([own(990.0, half=5.0)], corpus(*FIVE))
    assert not standing.refused
    assert standing.median == 1000
    assert standing.share is not None
    assert standing.share.value == pytest.approx(0.99)
    assert standing.slower == 2
    assert standing.percentile is not None
    assert standing.percentile.value == pytest.approx(2.5 / 6)
    assert all(part in standing.sentence for part in ("99 %", "5 published", "5 submitters"))
    assert "A Round" in standing.sentence
    assert standing.sentence.split("; ")[-1].startswith("2 of 5")


@pytest.mark.parametrize(
    "points",
    [FIVE[:4], [published("A", (rate,), system=f"box{at}") for at, rate in enumerate([1.0, 2, 3, 4, 5, 6])]],
    ids=["four systems", "one submitter"],
)
def test_too_few_to_judge_by_are_refused(points):
    (standing,) = standings([own()], corpus(*points))
    assert "expected 5" in standing.refused
    assert (standing.median, standing.share, standing.percentile, standing.another) == (None, None, None, None)


def test_a_refusal_says_what_is_nearest():
    (standing,) = standings([own(device="L40S")], corpus(*FIVE))
    assert "expected 5" in standing.refused
    assert "8 H100 of " in standing.why_not
    assert [each.differs[0] for each in standing.near] == ["your device is L40S"] * 3


def test_precisions_are_kinds_of_their_own():
    """One submitter's fp8 and another's bf16 on the same devices are no spread between machines of one kind."""
    points = [
        published(name, (level * (1 + 0.002 * size * sign),), precision=precision, workers=8 * size, batch=2048 * size)
        for size in (1, 2, 3)
        for precision, level, names in (("bf16", 1000.0, "ABC"), ("fp8", 1500.0, "DEF"))
        for name, sign in zip(names, (-1, 0, 1), strict=True)
    ]
    prior = spread_between_machines(corpus(*points))
    assert prior is not None
    assert math.sqrt(prior.variance) < 0.01


def test_one_s_own_noise_widens_the_percentile():
    rates = [960.0, 980.0, 1000.0, 1020.0, 1040.0]
    quiet, noisy = (
        percentile(Estimate(1000.0, 1000 - h, 1000 + h, 0.95, Method.REPETITIONS, 3), rates) for h in (0, 30)
    )
    assert quiet.low is not None
    assert quiet.high is not None
    assert noisy.low is not None
    assert noisy.high is not None
    assert noisy.low < quiet.low < quiet.value < quiet.high < noisy.high


def test_the_percentile_of_a_system_like_the_others_is_uniform():
    """1,000 systems of a kind of 12: its place among the 11 others says nothing beforehand."""
    draw = np.random.default_rng(5)
    places = []
    held = 0
    for _ in range(1000):
        values = np.exp(draw.normal(0, 0.01, 12))
        truth = float((values[0] > np.exp(draw.normal(0, 0.01, 4000))).mean())
        found = percentile(Estimate(values[0], None, None, 0.95, Method.NONE, 1), list(values[1:]))
        places.append(found.value + draw.uniform(-0.5, 0.5) / 12)
        held += found.covers(truth)
    assert kstest(places, "uniform").pvalue > 0.01
    assert held >= 930


def test_the_spread_between_machines_is_that_of_submitters():
    draw = np.random.default_rng(2)
    kinds = [
        published(f"S{submitter}", (1000 * float(np.exp(draw.normal(0, 0.014))),), benchmark=f"model{model}")
        for model in range(60)
        for submitter in range(6)
    ]
    prior = spread_between_machines(corpus(*kinds))
    assert prior is not None
    assert prior.variance**0.5 == pytest.approx(0.014, rel=0.1)
    assert spread_between_machines(corpus(*FIVE)) is None


def test_another_system_is_expected_around_the_median():
    draw = np.random.default_rng(2)
    others = [
        point
        for model in range(10)
        for point in kind(list(1000 * np.exp(draw.normal(0, 0.02, 4))), benchmark=f"model{model}")
    ]
    (standing,) = standings([own()], corpus(*FIVE, *others))
    assert standing.another is not None
    low, high = standing.another.ends
    assert 880 < low < 960
    assert 1040 < high < 1130


def test_tables_say_what_is_compared_and_where_it_is_from():
    judged, refused = standings([own(990.0), own(device="L40S")], corpus(*FIVE))
    table = standing_table([judged, refused], [SOURCE])
    assert [row[table_column(table, "verdict")] is None for row in table.rows] == [True, False]
    assert any("Apache-2.0" in note for note in table.notes)
    beside = comparable_table([judged, judged, refused])
    assert [row[0] for row in beside.rows] == ["S4", "S3", "S2", "S1", "S0"]
    assert points_table(FIVE).rows[0][table_column(points_table(FIVE), "per_device")] == 960
    listed = sources_table(corpus(*FIVE, published(unit=None)))
    assert [listed.rows[0][table_column(listed, name)] for name in ("points", "proved", "runs")] == [6, 5, 6]


def test_a_run_far_from_the_others_is_said():
    steady, unsteady = published("A", [1000, 1010, 1020]), published("B", [1000, 1000, 960, 1000])
    assert (steady.is_unsteady, unsteady.is_unsteady) == (False, True)
    assert unsteady.farthest == pytest.approx(0.04)
    assert published("C", [1000]).farthest is None
    assert published("D", [1000, 1040], unit=None).figures == ()
    (standing,) = standings([own(990.0)], corpus(*FIVE, unsteady))
    assert [bool("4.0" in " ".join(each.differs)) for each in standing.others].count(True) == 1


def table_column(table, name: str) -> int:
    return next(at for at, column in enumerate(table.columns) if column.name == name)
