"""Time and cost of an epoch and of the full training at each worker count; the cheapest and the fastest count.

Epoch time = samples of the data set / throughput; cost = time × workers × price of a worker's hour.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from scalecurve.bundle.open import Bundle
from scalecurve.curves.compute import believable, scaling
from scalecurve.curves.results import PointResult, ScalingResult, SeriesResult
from scalecurve.curves.tables import build, or_pending
from scalecurve.render.notebook import OneTable
from scalecurve.render.table import Cell, Column, Table
from scalecurve.statistics.estimate import Estimate
from scalecurve_api.spec.experiment import Cost
from scalecurve_api.text import count

DATASET_OPTION = "datasetSamples"
"""Key of ``TrialRecord.options`` under which a program says how many samples an epoch of its data set has."""
_NOTHING = "No time or cost of training"
_HOLDS_FOR = (
    "Time and cost are of throughput {}, and so are their intervals: no start, evaluation or checkpoint, and data "
    "loading only where timed steps wait for it."
)
LEAST_PRICE = 1e-9  # of a worker's hour; prices below this count as zero


@dataclass(frozen=True)
class PointCost:
    """Seconds and money of one point; money is None without a price, epochs without a data set's size.

    ``per_million`` is the cost of a million samples (or tokens): known whenever there is a price. ``target_cost`` is
    the cost of the training time to the target accuracy (``result.to_target_s``), where a run reached it.
    """

    result: PointResult
    epoch_s: Estimate | None = None
    total_s: Estimate | None = None
    per_million: Estimate | None = None
    epoch_cost: Estimate | None = None
    total_cost: Estimate | None = None
    target_cost: Estimate | None = None


@dataclass(frozen=True)
class SeriesCost:
    """Costs along one curve. ``as_cheap`` and ``as_fast`` are counts whose intervals overlap the best one's.

    ``front`` are the counts that no other count beats in both time and cost of the same work, ``target_front`` the same
    of the way to the target among counts whose every run reached it; by the values alone, empty without a price.
    """

    series: SeriesResult
    currency: str | None
    per_worker_hour: float | None
    dataset_samples: int | None
    epochs: int | None
    points: tuple[PointCost, ...]
    cheapest: int | None
    as_cheap: tuple[int, ...]
    fastest: int | None
    as_fast: tuple[int, ...]
    front: tuple[int, ...] = ()
    target_front: tuple[int, ...] = ()

    @property
    def sessions(self) -> int:
        """The fewest behind one of its points."""
        rates = [p.result.throughput for p in self.points if p.result.throughput]
        return min((rate.sessions for rate in rates), default=1)


@dataclass(frozen=True)
class CostReport(OneTable):
    """Costs of every curve of one or several bundles; ``price_notes`` are the date and source of the price."""

    scaling: ScalingResult
    series: tuple[SeriesCost, ...]
    price_notes: tuple[str, ...] = ()

    @property
    def known(self) -> bool:
        """Whether there is anything to show: a price or the size of an epoch."""
        return any(series.currency or series.dataset_samples for series in self.series)

    @property
    def empty_because(self) -> str:
        """Why no point has or will have a throughput to take costs from; empty if one has."""
        trained = self.scaling.curves().series
        if any(p.measured or p.counts.unfinished for series in trained for p in series.points):
            return ""
        if self.scaling.series and not trained:
            return f"{_NOTHING}: these runs train nothing, they only reduce; `scalecurve allreduce` shows their times."
        return f"{_NOTHING}: no trial is valid."

    def table(self) -> Table:
        currencies = sorted({series.currency for series in self.series if series.currency})
        money = currencies[0] if len(currencies) == 1 else "in each experiment's currency" if currencies else ""
        by_point = {id(p.result): (series, p) for series in self.series for p in series.points}
        columns = (
            Column("epoch_s", "Epoch", "number", "s", interval=True),
            Column("total_h", "Full training", "number", "h", interval=True),
            Column("cost_per_million", f"Million {_unit(self.series)}", "number", money, interval=True),
            Column("epoch_cost", "Epoch cost", "number", money, interval=True),
            Column("total_cost", "Training cost", "number", money, interval=True),
            Column("target_h", "Time to target", "number", "h", interval=True),
            Column("target_cost", "Cost to target", "number", money, interval=True),
            Column("best", "Best at"),
            Column("front", "Pareto-optimal", "flag"),
            Column("target_front", "Pareto-optimal to target", "flag"),
        )

        def row(_: SeriesResult, result: PointResult) -> list[Cell]:
            series, p = by_point[id(result)]
            choice = len(series.series.measured) > 1  # the only count is the best of nothing
            hours, target = (time.scaled(1 / 3600) if time else None for time in (p.total_s, result.to_target_s))
            compared = choice and target and series.target_front and not result.missed_target
            return [
                *or_pending(result, p.epoch_s, hours, p.per_million, p.epoch_cost, p.total_cost),
                *(target, p.target_cost),
                _remark(series, result.workers) if choice and result.measured else None,
                result.workers in series.front if choice and result.measured and series.front else None,
                result.workers in series.target_front if compared else None,
            ]

        reason = self.empty_because
        shown = replace(self.scaling, series=()) if reason else self.scaling.curves()
        return build(shown, "cost", "Time and cost", columns, row, [reason] if reason else _notes(self))


def cost(
    bundles: Sequence[Bundle],
    price: Cost | None = None,
    level: float = 0.95,
    *,
    price_notes: Sequence[str] = (),
    include_unproved: bool = False,
) -> CostReport:
    """Compute what every point costs, by the price that its experiment states.

    Args:
        bundles: What `open_bundles` returned; their labels differ.
        price: Replaces the experiments' own prices.
        level: Level of the intervals, 0.95 for 95 %.
        price_notes: Sentences on where `price` is from, for the notes of the table.
        include_unproved: Also use points that do not count (`scalecurve.curves.doubts`).

    Returns:
        Time and cost of every point, and the cheapest and the fastest worker count of every series.
    """
    counting = [believable(bundle, include_unproved) for bundle in bundles]
    return cost_of(scaling(counting, level), bundles, price, price_notes)


def cost_of(
    result: ScalingResult, bundles: Sequence[Bundle], price: Cost | None = None, price_notes: Sequence[str] = ()
) -> CostReport:
    """The same, from existing curves."""
    by_label = {bundle.label: bundle for bundle in bundles}
    series = tuple(_series_cost(curve, by_label[curve.bundle], price) for curve in result.series)
    if price is None and any(curve.currency and not by_label[curve.series.bundle].price for curve in series):
        price_notes = (
            *price_notes,
            "The price comes from the experiment, without date or source; --prices offers dated prices.",
        )
    return CostReport(result, series, tuple(price_notes))


def holds_for(sessions: Collection[int]) -> str:
    """What time and cost of an epoch or a training exclude, by the sessions of their curves; said once a table."""
    fewest = min(sessions, default=1)
    return _HOLDS_FOR.format("in one session" if fewest <= 1 else f"over {count(fewest, 'session')}")


def merged(price: Cost | None, stated: Cost | None) -> Cost | None:
    """The price, completed by the epochs and samples of the stated one."""
    if price is None or stated is None:
        return price or stated
    samples, epochs = price.dataset_samples or stated.dataset_samples, price.epochs or stated.epochs
    return price.model_copy(update={"dataset_samples": samples, "epochs": epochs})


def _unit(series: Sequence[SeriesCost]) -> str:
    units = {costs.series.sample_unit for costs in series if costs.series.measured}
    return units.pop() if len(units) == 1 else "samples"


def stated_price(bundle: Bundle) -> Cost | None:
    """The price of a bundle: its own, completed by what its experiment states, or the experiment's."""
    if bundle.experiment is not None:
        return merged(bundle.price, bundle.experiment.spec.cost)
    return merged(bundle.price, next((trial.spec.cost for trial in bundle.trials), None))


def _series_cost(series: SeriesResult, bundle: Bundle, override: Cost | None) -> SeriesCost:
    price = merged(override, stated_price(bundle))
    size = (price.dataset_samples if price else None) or _dataset_samples(bundle, series)
    epochs = price.epochs if price else None
    points = tuple(_point_cost(p, price, size, epochs) for p in series.points)
    cheapest, as_cheap = _best([(p.result.workers, p.per_million) for p in points])
    fastest, as_fast = _best([(p.result.workers, _seconds_per_sample(p)) for p in points])
    return SeriesCost(
        series=series,
        currency=price.currency if price and price.per_worker_hour >= LEAST_PRICE else None,
        per_worker_hour=price.per_worker_hour if price and price.per_worker_hour >= LEAST_PRICE else None,
        dataset_samples=size,
        epochs=epochs,
        points=points,
        cheapest=cheapest,
        as_cheap=as_cheap,
        fastest=fastest,
        as_fast=as_fast,
        front=pareto_front([(p.result.workers, _seconds_per_sample(p), p.per_million) for p in points]),
        target_front=pareto_front(
            [(p.result.workers, p.result.to_target_s, p.target_cost) for p in points if not p.result.missed_target]
        ),
    )


def _seconds_per_sample(p: PointCost) -> Estimate | None:
    return p.result.throughput.reciprocal() if p.result.throughput else None


def pareto_front(points: Sequence[tuple[int, Estimate | None, Estimate | None]]) -> tuple[int, ...]:
    """Of (worker count, time, money): the counts that no other beats in both, by the values alone."""
    complete = [(n, time.value, money.value) for n, time, money in points if time is not None and money is not None]
    return tuple(n for n, time, money in complete if not any(t < time and m < money for _, t, m in complete))


def _dataset_samples(bundle: Bundle, series: SeriesResult) -> int | None:
    """The data set size that the program recorded, if all trials of the series agree."""
    sizes = {
        trial.record.options.get(DATASET_OPTION)
        for trial in bundle.trials
        if trial.good and trial.record is not None and trial.spec.point.series == series.name
    }
    size = sizes.pop() if len(sizes) == 1 else None
    return size if isinstance(size, int) and not isinstance(size, bool) and size > 0 else None


def _point_cost(p: PointResult, price: Cost | None, size: int | None, epochs: int | None) -> PointCost:
    if p.throughput is None:
        return PointCost(p)
    per_sample = p.throughput.reciprocal()
    epoch_s = per_sample.scaled(size) if size else None
    total_s = epoch_s.scaled(epochs) if epoch_s and epochs else None
    if price is None or price.per_worker_hour < LEAST_PRICE:
        return PointCost(p, epoch_s, total_s)
    rate = price.per_worker_hour * p.workers / 3600
    return PointCost(
        result=p,
        epoch_s=epoch_s,
        total_s=total_s,
        per_million=per_sample.scaled(1e6 * rate),
        epoch_cost=epoch_s.scaled(rate) if epoch_s else None,
        total_cost=total_s.scaled(rate) if total_s else None,
        target_cost=p.to_target_s.scaled(rate) if p.to_target_s else None,
    )


def _best(values: Sequence[tuple[int, Estimate | None]]) -> tuple[int | None, tuple[int, ...]]:
    candidates = [(workers, value) for workers, value in values if value is not None]
    if not candidates:
        return None, ()
    best, _ = min(candidates, key=lambda pair: (pair[1].value, pair[0]))
    ends = [(n, v.ends or ((0.0, math.inf) if v.unknown else (v.value, v.value))) for n, v in candidates]
    high = next(end for n, (_, end) in ends if n == best)
    return best, tuple(n for n, (low, _) in ends if n != best and low <= high)


def _remark(series: SeriesCost, workers: int) -> str:
    remarks = []
    best_and_equal = (("cheapest", series.cheapest, series.as_cheap), ("fastest", series.fastest, series.as_fast))
    for label, best, equal in best_and_equal:
        if workers == best:
            remarks.append(label)
        elif workers in equal:
            remarks.append(f"{label}, within noise")
    return "; ".join(remarks)


def _notes(report: CostReport) -> list[str]:
    notes = []
    for series in report.series:
        size = f"{series.dataset_samples:,} {series.series.sample_unit} per epoch" if series.dataset_samples else None
        epochs = f"{series.epochs:,} epochs" if series.epochs else None
        notes.append(", ".join(part for part in (size, epochs) if part))
    notes = [f"Based on {note}." for note in dict.fromkeys(notes) if note]
    notes += [
        f"{series.series.name}: at {count(p.result.workers, 'worker')}, {p.result.missed_target} of "
        f"{p.result.counts.succeeded} runs missed the target; time to target uses the remaining runs and is excluded "
        "from comparisons."
        for series in report.series
        for p in series.points
        if p.result.missed_target
    ]
    if not all(series.dataset_samples for series in report.series):
        notes.append("Epoch size unknown: set cost.datasetSamples, or --dataset-samples beside a price.")
    if not all(series.currency for series in report.series):
        notes.append("No price: set cost.perWorkerHour in the experiment, or use --prices.")
    if report.known and any(p.result.throughput for series in report.series for p in series.points):
        notes.append(holds_for([series.sessions for series in report.series]))
    return [*notes, *report.price_notes]
