"""The first screen: how it scales, why it bends, what it costs, and whether the numbers can be believed."""

from dataclasses import dataclass, replace
from typing import Any

from scalecurve.curves.losses import StepShares, losses
from scalecurve.curves.missing import MissingCurve
from scalecurve.curves.results import PointResult, SeriesResult
from scalecurve.render import formatting
from scalecurve.render.labels import brief
from scalecurve.reporting.belief import Belief, belief
from scalecurve.reporting.contributions import contributions
from scalecurve.reporting.findings import Analysis
from scalecurve.reporting.prices import PriceList, price_list
from scalecurve_api.text import count, plural

MOST_SERIES = 4
FEW_SERIES = 2
MARKS = "●■▲◆"
"""As ``theme.MARKERS`` draws them; the sentences are the legend of the figure."""


@dataclass(frozen=True)
class SeriesSentence:
    """What a curve came to, and the mark that its points have in the figure: a letter, and the number of a color."""

    text: str
    mark: str = ""
    color: int = 0


@dataclass(frozen=True)
class Answer:
    """Everything on the first screen but the curve; ``beside`` says how it stands among published systems."""

    curves: tuple[SeriesSentence, ...]
    scales: bool
    losses: tuple[StepShares, ...]
    prices: PriceList
    belief: Belief
    more_series: int = 0
    beside: str = ""
    missing: tuple[MissingCurve, ...] = ()
    winners: tuple[str, ...] = ()
    """Of curves that differ in more than their worker count: the best, or that none is."""

    @property
    def sentences(self) -> tuple[str, ...]:
        return tuple(curve.text for curve in self.curves)

    def mark_of(self, bar: StepShares) -> SeriesSentence:
        """The mark of the curve that a bar is of."""
        return next((curve for curve in self.curves if curve.text.startswith(f"{bar.series}: ")), SeriesSentence(""))

    @property
    def kinds(self) -> dict[str, str]:
        """The terms of all bars, with a label that holds for each."""
        terms = sorted((term for bar in self.losses for term in bar.terms), key=lambda term: term.share)
        return {kind: label for kind, label in ((term.kind, term.label.partition(",")[0]) for term in terms)}

    def plain(self) -> dict[str, Any]:
        """What JSON is made of; shares have full precision."""
        return {
            "winners": self.winners,
            "sentences": self.sentences,
            "missing": [{"why": m.why, "remedy": m.remedy, "fill": m.fill} for m in self.missing],
            "beside": self.beside,
            "losses": [
                {
                    "series": bar.series,
                    "workers": bar.workers,
                    "against": bar.against,
                    "terms": [{"kind": t.kind, "label": t.label, "share": t.share} for t in bar.terms],
                    "refused": bar.refused,
                }
                for bar in self.losses
            ],
            "belief": {"word": self.belief.word, "facts": self.belief.facts, "cautions": self.belief.cautions},
        }


def answer(analysis: Analysis) -> Answer:
    """The answer of a report; where there are many series, of the first ones."""
    curves = analysis.curves.series
    short = brief([series.name for series in curves], [series.mode.value for series in curves])
    several = len(analysis.bundles) > 1
    names = {
        (series.bundle, series.name): f"{series.bundle}, {short[series.name]}" if several else short[series.name]
        for series in curves
    }
    shown = curves[:MOST_SERIES]
    bars = [(series, losses(series)) for series in shown]
    few = len(shown) <= FEW_SERIES
    from_features = tuple(contributions())
    ranking = next(filter(None, (each.ranking(analysis) for each in from_features)), None)
    return Answer(
        curves=tuple(
            SeriesSentence(
                f"{names[series.bundle, series.name]}: {_rate(series, few)}"
                + "".join(each.in_answer(analysis, series, few) for each in from_features),
                MARKS[index] if len(shown) > 1 else "",
                index,
            )
            for index, series in enumerate(shown)
        ),
        scales=scales(analysis),
        losses=tuple(
            replace(bar, series=names[series.bundle, series.name]) for series, bar in bars if bar and len(bar.terms) > 1
        ),
        prices=price_list(analysis.costs.series, names, ranking),
        belief=belief(analysis),
        more_series=len(curves) - len(shown),
        beside=next(filter(None, (each.beside(analysis) for each in from_features)), ""),
        missing=analysis.missing,
        winners=tuple(winner for each in from_features for winner in each.winners(analysis, names)),
    )


def scales(analysis: Analysis) -> bool:
    """Whether any curve has two worker counts to compare."""
    return any(len({p.workers for p in series.measured}) > 1 for series in analysis.curves.series)


def _rate(series: SeriesResult, few: bool) -> str:
    """A plain sentence on the largest count, short among many; the headline in the section below has the rest."""
    counting = [point for point in series.measured if not point.doubts]
    last = max(counting, key=lambda point: point.workers, default=None)
    if last is None or last.throughput is None:
        unproved = "measured, but not proved: no point counts" if series.measured else "no valid trials"
        return unproved if series.points else "nothing planned"
    rate = f"{formatting.number(last.throughput.value)} {series.sample_unit}/s"
    if last.workers == series.baseline or last.speedup is None or last.efficiency is None:
        return f"{rate} on {count(last.workers, 'worker')}"
    times, low_high = formatting.parted(last.speedup, as_percent=False)
    between = f" ({formatting.label_interval(low_high)})" if low_high else ""
    if not few:
        efficient = formatting.percent(last.efficiency.value)
        return f"{times}× on {count(last.workers, 'worker')}{between}, {efficient} efficient"
    return (
        f"{count(last.workers, 'worker')} {plural(last.workers, 'is', 'are')} {times}× as fast{between} as "
        f"{series.baseline}, {formatting.percent(last.efficiency.value)} efficient: {rate}"
    )


def point_in_words(series: SeriesResult, point: PointResult) -> str:
    """A point in one line, as its mark says when a reader points at it."""
    parts = [count(point.workers, "worker")]
    if point.throughput:
        parts.append(f"{formatting.interval(point.throughput)} {series.sample_unit}/s")
    if point.efficiency and point.workers != series.baseline:
        parts.append(f"efficiency {formatting.interval(point.efficiency, as_percent=True)}")
    return ", ".join(parts)


def place_of(series: SeriesResult, point: PointResult) -> tuple[str, str, int, str]:
    """The point among all of a report: experiment, series, worker count, layout."""
    return series.bundle, series.name, point.workers, point.point.layout
