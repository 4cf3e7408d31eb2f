"""Where a measured point stands among published ones: its share of their median, and its percentile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import median

from scalecurve.render import formatting
from scalecurve.statistics.estimate import Estimate, Method
from scalecurve.statistics.prior import Prior
from scalecurve_api.text import count
from scalecurve_corpus.comparable import Comparable, OwnPoint, comparable, nearest
from scalecurve_corpus.noise import LogInterval, another_machine, machine_prior
from scalecurve_corpus.schema import Corpus

LEAST_POINTS, LEAST_SUBMITTERS = 5, 3


@dataclass(frozen=True)
class PublishedStanding:
    """A measured point beside the published ones that are comparable; ``refused`` says why it is not judged."""

    own: OwnPoint
    unit: str
    others: tuple[Comparable, ...]
    refused: str = ""
    prior: Prior | None = None
    titles: Mapping[str, str] = field(default_factory=dict)
    near: tuple[Comparable, ...] = ()
    """Of a point that is not judged: the published ones that come nearest, with all that differs."""

    @property
    def why_not(self) -> str:
        """Why it is not judged, and what comes nearest."""
        if not self.near:
            return self.refused
        nearest = self.near[0]
        return (
            f"{self.refused}; nearest: {nearest.point.benchmark} on {nearest.point.workers} {nearest.point.device} of "
            f"{nearest.point.submitter} ({', '.join(nearest.differs)})"
        )

    @property
    def rate(self) -> Estimate:
        """One's own rate per device."""
        return self.own.per_device[self.unit]

    @property
    def submitters(self) -> set[str]:
        return {each.point.submitter for each in self.others}

    @property
    def median(self) -> float | None:
        """Of the published rates per device; None where the point is not judged."""
        return None if self.refused else median(each.per_device for each in self.others)

    @property
    def share(self) -> Estimate | None:
        """One's own rate as a share of that median."""
        return self.rate.scaled(1 / self.median) if self.median else None

    @property
    def slower(self) -> int:
        """How many of the published systems are slower."""
        return sum(each.per_device < self.rate.value for each in self.others)

    @property
    def percentile(self) -> Estimate | None:
        """The share of all such systems that are slower, with an interval; see ``percentile``."""
        if self.refused:
            return None
        return percentile(self.rate, [each.per_device for each in self.others])

    @cached_property
    def another(self) -> LogInterval | None:
        """Where a further system of this kind is expected, one value a submitter; None where not judged."""
        if self.refused or self.prior is None:
            return None
        by_submitter: dict[str, list[float]] = {}
        for each in self.others:
            by_submitter.setdefault(each.point.submitter, []).append(each.per_device)
        return another_machine([median(rates) for rates in by_submitter.values()], self.prior)

    @property
    def sentence(self) -> str:
        """The line of a report's first screen."""
        share = self.share
        if share is None:
            return f"{self.own.named}: {self.why_not}"
        sizes = sorted({each.point.workers for each in self.others})
        where = "" if sizes == [self.own.workers] else f", {' or '.join(map(str, sizes))} devices"
        rounds = " and ".join(sorted({self.titles.get(each.point.source, each.point.source) for each in self.others}))
        return (
            f"per {self.own.device} {formatting.percent(share.value, 0)} of the median of {len(self.others)} published "
            f"systems of {count(len(self.submitters), 'submitter')} ({self.own.model}, {rounds}, software of their "
            f"own{where}); {self.slower} of {len(self.others)} are slower"
        )


def percentile(rate: Estimate, others: Sequence[float], level: float = 0.95) -> Estimate:
    """Find the share of all systems of a kind that are slower than one's own.

    Of ``m`` systems of which ``r`` are slower the share is distributed as Beta(r + 1, m - r + 1), by order statistics
    (H. A. David and H. N. Nagaraja, Order Statistics, 3rd edition, section 2.5). The interval is that of the lower end
    of one's own rate to that of the higher end.

    Args:
        rate: One's own rate.
        others: The rates of the systems.
        level: Level of the interval.

    Returns:
        The share, from 0 to 1; the middle of its place among them.
    """
    from scipy.special import betaincinv

    low, high = (rate.value if end is None else end for end in (rate.low, rate.high))
    fewest, most = (sum(other < end for other in others) for end in (low, high))
    places = len(others) + 1
    return Estimate(
        (sum(other < rate.value for other in others) + 0.5) / places,
        float(betaincinv(fewest + 1, places - fewest, (1 - level) / 2)),
        float(betaincinv(most + 1, places - most, (1 + level) / 2)),
        level,
        Method.REPETITIONS,
        len(others),
    )


def standings(points: Sequence[OwnPoint], corpus: Corpus) -> tuple[PublishedStanding, ...]:
    """Set every point beside the published ones that are comparable.

    Args:
        points: Measured points.
        corpus: Published points.

    Returns:
        One for each point, refused where fewer than five systems of three submitters are comparable.
    """
    found = [_standing(point, corpus) for point in points]
    prior = spread_between_machines(corpus) if any(not standing.refused for standing in found) else None
    titles = {source.name: source.title.partition(",")[0] for source in corpus.sources}
    return tuple(replace(standing, prior=prior, titles=titles) for standing in found)


def spread_between_machines(corpus: Corpus) -> Prior | None:
    """Fit how far submitters of one kind of system differ; None of a corpus with too few.

    Args:
        corpus: Published points.

    Returns:
        The spread between machines of one kind, one value a submitter.
    """
    kinds: dict[tuple[object, ...], dict[str, list[float]]] = {}
    for point in corpus.points:
        if point.rates:
            kinds.setdefault(point.kind, {}).setdefault(point.submitter, []).append(median(point.rates))
    try:
        return machine_prior([[median(rates) for rates in kind.values()] for kind in kinds.values()])
    except ValueError:
        return None


def _standing(point: OwnPoint, corpus: Corpus) -> PublishedStanding:
    found = comparable(point, corpus)
    units = [unit for unit in point.per_device if any(each.point.unit == unit for each in found)]
    unit = units[0] if units else next(iter(point.per_device))
    others = tuple(each for each in found if each.point.unit == unit)
    submitters = len({each.point.submitter for each in others})
    if len(others) >= LEAST_POINTS and submitters >= LEAST_SUBMITTERS:
        return PublishedStanding(point, unit, others)
    refused = (
        f"{count(len(others), 'comparable system')} of {count(submitters, 'submitter')}; "
        f"expected {LEAST_POINTS} of {LEAST_SUBMITTERS} or more"
    )
    return PublishedStanding(point, unit, others, refused, near=nearest(point, corpus))


def quantile(rates: Sequence[float], share: float) -> float:
    """Read a percentile between the two rates beside it, as ``statistics.quantiles`` with ``method="inclusive"``."""
    ordered = sorted(rates)
    place = share * (len(ordered) - 1)
    below = min(int(place), len(ordered) - 2)
    return ordered[below] + (ordered[below + 1] - ordered[below]) * (place - below)
