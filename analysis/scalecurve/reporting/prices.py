"""Time and money of the same work at each worker count: what the first screen says of costs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from scalecurve.curves.cost import PointCost, SeriesCost
from scalecurve.render import formatting
from scalecurve.reporting.contributions import Place, Ranking
from scalecurve.statistics.estimate import Estimate
from scalecurve_api.spec.scaling import Mode
from scalecurve_api.text import count

MOST_COUNTS = 6
SIDE_BY_SIDE = 2
"""As many curves have columns of their own; of more, each count has its fastest."""
MOST_EXPERIMENTS = 3
MILLION = 1_000_000
CHEAPEST, FASTEST = "cheapest", "fastest"


@dataclass(frozen=True)
class CountPrice:
    """Of one curve at one count.

    ``remark`` is ``cheapest``, ``fastest`` or both; ``tied`` counts the curves that may be as good within noise.
    """

    series: str
    time: str
    money: str
    remark: str
    tied: int = 0


@dataclass(frozen=True)
class PriceList:
    """``work`` is what all prices are of, as ``epoch``; ``rows`` have a cell for each of ``series``.

    ``rate`` is the price of a worker-hour, where all curves have the same; ``assumed``, what the table presupposes.

    Where ``best_of`` curves are too many for columns of their own, an experiment has one, of its best curve at each
    count: the fastest, or the most accurate where all were trained to accuracy. ``series`` names the experiments then,
    and is empty for a single one.
    """

    work: str
    series: tuple[str, ...]
    rows: tuple[tuple[int, tuple[CountPrice | None, ...]], ...]
    priced: bool
    best_of: int = 0
    rate: str = ""
    by_accuracy: bool = False
    assumed: str = ""


@dataclass(frozen=True)
class _Entry:
    """A point that counts, with the seconds and the money of the work."""

    series: str
    costs: SeriesCost
    workers: int
    point: str
    time: Estimate
    money: Estimate | None
    rank: float | None
    """Highest of the best curve, where something other than time decides."""

    @property
    def bundle(self) -> str:
        return self.costs.series.bundle

    @property
    def place(self) -> Place:
        return self.bundle, self.point


def price_list(
    series: Sequence[SeriesCost], names: Mapping[tuple[str, str], str], ranking: Ranking | None = None
) -> PriceList:
    """Every count, or some of many; ``names`` are by (experiment, series)."""
    ranking = ranking or Ranking({}, len)
    measured = [costs for costs in series if any(p.result.measured for p in costs.points)]
    work = _work(measured)
    entries = [entry for costs in measured for entry in _entries(costs, names, work, ranking)]
    many = len(measured) > SIDE_BY_SIDE
    bundles = list(dict.fromkeys(costs.series.bundle for costs in measured))[:MOST_EXPERIMENTS]
    if many:
        own = {bundle: [entry for entry in entries if entry.bundle == bundle] for bundle in bundles}
        columns = {bundle: _best_at_each(group) for bundle, group in own.items()}
    else:
        columns = {names[c.series.bundle, c.series.name]: list(_entries(c, names, work, ranking)) for c in measured}
    cells = {
        (name, entry.workers): _cell(entry, column, own[name] if many else (), ranking)
        for name, column in columns.items()
        for entry in column
    }
    counts = _choose_counts([entry for column in columns.values() for entry in column])
    rows = [(workers, tuple(cells.get((name, workers)) for name in columns)) for workers in counts]
    priced = any(costs.currency for costs in measured)
    shown = tuple(columns) if not many or len(bundles) > 1 else ()
    best_of = len(measured) if many else 0
    by_accuracy = many and all(entry.rank is not None for entry in entries)
    return PriceList(
        work, shown, tuple(rows), priced, best_of, _rate(measured), by_accuracy, _epoch_assumption(measured, work)
    )


def _rate(series: Sequence[SeriesCost]) -> str:
    rates = {(costs.per_worker_hour, costs.currency) for costs in series}
    ((price, currency),) = rates if len(rates) == 1 else ((None, None),)
    return f"{formatting.number(price, 3)} {currency} per worker-hour" if price is not None else ""


def _epoch_assumption(series: Sequence[SeriesCost], work: str) -> str:
    """Larger batches may need more epochs; nothing here says how many."""
    grows = any(costs.series.mode is Mode.weak and len(costs.series.measured) > 1 for costs in series)
    return "Weak scaling: the same epochs, at batches that grow with the workers." if grows and "epochs" in work else ""


def _cell(entry: _Entry, column: Sequence[_Entry], others: Sequence[_Entry], ranking: Ranking) -> CountPrice:
    """With ``others``, the entry is the best of them at its count."""
    money = f"{formatting.number(entry.money.value, 3)} {entry.costs.currency}" if entry.money else ""
    time = formatting.seconds(entry.time.value, max(e.time.value for e in column))
    remark = _remarks(column).get(entry.workers, "") if others else _remark(entry)
    return CountPrice(entry.series, time, money, remark, _count_ties(entry, others, ranking))


def _work(series: Sequence[SeriesCost]) -> str:
    epochs = {costs.epochs for costs in series}
    if all(costs.dataset_samples and costs.epochs for costs in series) and len(epochs) == 1:
        return f"training of {count(epochs.pop() or 0, 'epoch')}"
    if series and all(costs.dataset_samples for costs in series):
        return "epoch"
    units = {costs.series.sample_unit for costs in series}
    return f"million {units.pop() if len(units) == 1 else 'samples'}"


def _entries(
    costs: SeriesCost,
    names: Mapping[tuple[str, str], str],
    work: str,
    ranking: Ranking,
) -> Iterator[_Entry]:
    for p in costs.points:
        time, money = _time_and_money(p, work)
        if p.result.measured and not p.result.doubts and time:
            name = names[costs.series.bundle, costs.series.name]
            point = p.result.point.name
            rank = ranking.values.get((costs.series.bundle, point))
            yield _Entry(name, costs, p.result.workers, point, time, money if costs.currency else None, rank)


def _time_and_money(p: PointCost, work: str) -> tuple[Estimate | None, Estimate | None]:
    if work.startswith("training"):
        return p.total_s, p.total_cost
    if work == "epoch":
        return p.epoch_s, p.epoch_cost
    rate = p.result.throughput
    return rate.reciprocal().scaled(MILLION) if rate else None, p.per_million


def _best_at_each(entries: Sequence[_Entry]) -> list[_Entry]:
    """The highest rank at each count where all have one, as the most accurate, else the fastest."""
    counts = sorted({entry.workers for entry in entries})
    ranked = all(entry.rank is not None for entry in entries)

    def position(entry: _Entry) -> float:
        return -entry.rank if ranked and entry.rank is not None else entry.time.value

    return [min((e for e in entries if e.workers == workers), key=position) for workers in counts]


def _count_ties(best: _Entry, entries: Sequence[_Entry], ranking: Ranking) -> int:
    """The other curves at this count that are not separable from the best, or whose interval overlaps its."""
    if entries and all(entry.rank is not None for entry in entries):
        return ranking.ties([e.place for e in entries if e.workers == best.workers])
    high = best.time.high
    others = [e.time for e in entries if e.workers == best.workers and e is not best]
    return sum(high is None or time.low is None or time.low <= high for time in others)


def _remarks(shown: Sequence[_Entry]) -> dict[int, str]:
    """Which counts are cheapest and fastest, each with its best curve."""
    if len(shown) < 2:
        return {}
    fastest = min(shown, key=lambda e: e.time.value).workers
    paid = [(e.money.value, e.workers) for e in shown if e.money]
    cheapest = min(paid)[1] if len(paid) == len(shown) else None
    if cheapest == fastest:
        return {fastest: f"{CHEAPEST}, {FASTEST}"}
    return {fastest: FASTEST} | ({cheapest: CHEAPEST} if cheapest is not None else {})


def _remark(entry: _Entry) -> str:
    """Along its own curve."""
    costs = entry.costs
    if len(costs.series.measured) < 2:
        return ""
    best = ((CHEAPEST, costs.cheapest if costs.currency else None), (FASTEST, costs.fastest))
    return ", ".join(word for word, workers in best if workers == entry.workers)


def _choose_counts(shown: Sequence[_Entry]) -> list[int]:
    """The counts to show: the ends, the best ones, and as many of the largest others as there is room for."""
    counts = sorted({entry.workers for entry in shown})
    if len(counts) <= MOST_COUNTS:
        return counts
    best = {w for entry in shown for w in (entry.costs.cheapest, entry.costs.fastest) if w is not None}
    ends = {counts[0], counts[-1], *sorted(best & set(counts))[: MOST_COUNTS - 2]}
    room = MOST_COUNTS - len(ends)
    return sorted({*ends, *([w for w in counts if w not in ends][-room:] if room > 0 else ())})
