"""Tests of predictions on curves with their ends hidden: no source helps itself, and widenings hold as they say."""

from dataclasses import replace

import pytest

from benchmarks.prediction.backtest import Case, Evidence, Hindcast, cases_of, pooled, widenings_of
from scalecurve_models.laws.corpus import PublishedSeries, corpus
from scalecurve_models.laws.extrapolation import FIRST_BOUNDARY, INSIDE_NODE, LEAST_COUNTS, OVER_NODES
from scalecurve_models.laws.normal_form import CurvePoint


def sample():
    kept = {
        source: [each for each in corpus() if each.source == source][:3] for source in ("tf2017", "nvidia", "lambda")
    }
    return [each for series in kept.values() for each in series]


def test_published_curves_are_clean():
    for series in corpus():
        workers = [point.workers for point in series.points]
        assert workers == sorted(set(workers))
        assert len(workers) >= LEAST_COUNTS
        assert all(point.nodes <= point.workers for point in series.points)


def test_a_source_does_not_help_to_predict_itself():
    """Whatever a publisher's curves are, what is used for them is the same."""
    curves = sample()
    steeper = [
        replace(each, points=tuple(replace(p, throughput=p.throughput / p.workers**0.3) for p in each.points))
        if each.source == "tf2017"
        else each
        for each in curves
    ]
    used = [pooled(Evidence(each), cases_of(each), "tf2017") for each in (curves, steeper)]
    assert used[0] == used[1]
    assert pooled(Evidence(curves), cases_of(curves)).normal_form != pooled(Evidence(steeper), ()).normal_form


def outcomes(stretches, ratio=2):
    series = PublishedSeries("a", "a", ())
    seen = tuple(CurvePoint(n, 10.0 * n, 1) for n in (1, 2, 4))
    return [Hindcast(Case(series, seen, CurvePoint(4 * ratio, s, 1)), 1.0, 0.5, 2.0) for s in stretches]


def of_kind(widenings, kind):
    return [each for each in widenings if each.kind == kind]


def test_the_widening_is_the_quantile_of_the_stretches():
    # The truth is 2^s, so s half-widths away.
    rows = outcomes([2 ** (i / 100) for i in range(1, 100)])
    (widening,) = of_kind(widenings_of(rows), INSIDE_NODE)
    assert (widening.ratio, widening.cases) == (2.0, 99)
    assert widening.factor == pytest.approx(0.95, abs=0.011)
    assert sum(each.widened(widening.factor).holds for each in rows) / len(rows) >= 0.94


def test_a_kind_with_few_cases_takes_those_of_all_kinds_and_is_not_narrowed():
    widenings = widenings_of(outcomes([1.1] * 30))
    (inside,), (over,) = (of_kind(widenings, kind) for kind in (INSIDE_NODE, OVER_NODES))
    assert inside.factor < 1 == over.factor
    assert over.cases == 30
    assert of_kind(widenings, FIRST_BOUNDARY) == []


def test_few_cases_of_all_kinds_vouch_for_nothing():
    assert widenings_of(outcomes([1.01] * 19)) == ()
    assert {each.ratio for each in widenings_of(outcomes([1.01] * 30) + outcomes([1.5] * 4, 4))} == {2.0}


def test_a_farther_count_is_never_widened_less():
    near, far = of_kind(widenings_of(outcomes([1.9] * 30) + outcomes([1.1] * 30, 4)), INSIDE_NODE)
    assert near.factor == far.factor


def test_a_bundle_of_cuts_never_shows_the_hidden_count():
    for case in cases_of(sample()):
        assert max(point.workers for point in case.seen) < case.target.workers
        assert len(case.seen) >= LEAST_COUNTS
