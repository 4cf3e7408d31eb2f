"""The price list of the first screen: every count, and of many curves the fastest at each."""

from dataclasses import replace

from scalecurve.curves.cost import PointCost, SeriesCost
from scalecurve.curves.results import SeriesResult
from scalecurve.reporting.prices import PriceList, price_list
from scalecurve_api.spec.scaling import Mode
from tests.analysis.reporting.test_answer import curve, point


def costs(series: SeriesResult, *, currency: str | None = "USD", size: int | None = 6400) -> SeriesCost:
    """At 3.6 USD per worker-hour: a thousandth per second."""
    points = []
    for p in series.points:
        assert p.throughput
        epoch = p.throughput.reciprocal().scaled(size) if size else None
        rate = 0.001 * p.workers
        points.append(
            PointCost(
                p,
                epoch,
                per_million=p.throughput.reciprocal().scaled(1e6 * rate) if currency else None,
                epoch_cost=epoch.scaled(rate) if epoch and currency else None,
            )
        )
    counts = [p.result.workers for p in points]
    rate = 3.6 if currency else None
    return SeriesCost(series, currency, rate, size, None, tuple(points), counts[0], (), counts[-1], ())


def listed(*series: SeriesCost) -> PriceList:
    return price_list(series, {(s.series.bundle, s.series.name): s.series.name for s in series})


def named(series: SeriesResult, name: str) -> SeriesResult:
    return replace(series, name=name)


ONE, TWO, FOUR = point(1, 0.1), point(2, 0.11), point(4, 0.12)


def test_each_count_of_two_curves_stands_beside_the_other() -> None:
    prices = listed(costs(named(curve(ONE, TWO, FOUR), "a")), costs(named(curve(ONE, FOUR), "b")))
    assert prices.series == ("a", "b")
    assert [workers for workers, _ in prices.rows] == [1, 2, 4]
    first, second, last = (cells for _, cells in prices.rows)
    assert first[0] is not None
    assert (first[0].time, first[0].money, first[0].remark) == ("10 s", "0.0100 USD", "cheapest")
    assert second[1] is None
    assert last[0] is not None
    assert (last[0].time, last[0].remark) == ("3 s", "fastest")


def test_of_many_curves_each_count_has_its_fastest() -> None:
    slow, fast = curve(ONE, FOUR), curve(point(1, 0.05), point(4, 0.2))
    prices = listed(*(costs(named(series, name)) for series, name in ((slow, "a"), (fast, "b"), (slow, "c"))))
    assert prices.best_of == 3
    assert prices.series == ()
    assert [(workers, cells[0].series, cells[0].tied) for workers, cells in prices.rows if cells[0]] == [
        (1, "b", 0),
        (4, "a", 1),
    ]


def test_without_a_price_there_are_times_alone() -> None:
    prices = listed(costs(curve(ONE, TWO), currency=None, size=None))
    assert prices.work == "million samples"
    assert not prices.priced
    assert prices.rate == ""
    spelled = [(cells[0].time, cells[0].money) for _, cells in prices.rows if cells[0]]
    assert spelled == [("26.0 min", ""), ("14.3 min", "")]


def test_a_long_curve_shows_its_ends_and_its_best() -> None:
    prices = listed(costs(curve(*(point(2**k, 0.1 * 1.1**k) for k in range(9)))))
    counts = [workers for workers, _ in prices.rows]
    assert len(counts) == 6
    assert counts[0] == 1
    assert counts[-1] == 256


def test_nothing_measured_has_no_prices() -> None:
    assert listed().rows == ()


def test_curves_of_different_experiments_are_not_compared() -> None:
    other = replace(curve(point(1, 0.001), point(4, 0.001)), bundle="other")
    prices = listed(costs(named(curve(ONE, FOUR), "a")), costs(named(curve(TWO, FOUR), "b")), costs(named(other, "c")))
    assert prices.series == ("b", "other")
    named_at_four = [cell.series for cell in prices.rows[-1][1] if cell]
    assert named_at_four == ["a", "c"]


def test_the_price_of_an_hour_is_stated_where_it_is_one() -> None:
    one, other = costs(curve(ONE, TWO)), replace(costs(named(curve(ONE, TWO), "b")), per_worker_hour=2.0)
    assert listed(one).rate.startswith("3.60 USD")
    assert listed(one, other).rate == ""


def test_weak_scaling_to_a_number_of_epochs_assumes_that_these_suffice() -> None:
    def trained(mode: Mode) -> SeriesCost:
        series = costs(replace(curve(ONE, TWO), mode=mode))
        points = tuple(replace(p, total_s=p.epoch_s) for p in series.points)
        return replace(series, epochs=90, points=points)

    assert listed(trained(Mode.weak)).assumed
    assert listed(trained(Mode.strong)).assumed == ""
    assert listed(costs(replace(curve(ONE, TWO), mode=Mode.weak))).assumed == ""
