"""What features add to the first screen, the headlines and the methods of a report.

A feature registers its ``Contribution`` in its module of sections: one in ``scalecurve.reporting.features``, or that of
an entry point in the group ``scalecurve.sections``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from scalecurve.curves.results import SeriesResult
from scalecurve.reporting.findings import Analysis
from scalecurve.reporting.registry import load_report_sections
from scalecurve.statistics.estimate import Estimate
from scalecurve_api.spec.experiment import AxisValue

_CONTRIBUTIONS: list[Contribution] = []

Place = tuple[str, str]
"""Of a point: the labels of its bundle and its name."""


class AxisPoint(NamedTuple):
    """A value of an axis, with the values of the others in words, and what was reached there."""

    bundle: str
    rest: str
    workers: int
    value: AxisValue
    reached: Estimate


@dataclass(frozen=True)
class Ranking:
    """Which curve is best at a worker count, other than by time: the one of the highest value.

    ``ties`` counts, among the points of some curves, those that noise does not separate from the best.
    """

    values: Mapping[Place, float]
    ties: Callable[[Sequence[Place]], int]


class Contribution:
    """Results of a feature in sentences and points. What it does not override adds nothing."""

    def winners(self, analysis: Analysis, names: Mapping[tuple[str, str], str]) -> Sequence[str]:
        """Sentences on which of several curves is best; ``names`` are by (experiment, series)."""
        return ()

    def in_answer(self, analysis: Analysis, series: SeriesResult, few: bool) -> str:
        """The end of a curve's sentence on the first screen, short unless there are ``few``."""
        return ""

    def in_headline(self, analysis: Analysis, series: SeriesResult) -> str:
        """The end of a curve's headline."""
        return ""

    def headlines(self, analysis: Analysis) -> Iterable[str]:
        """Headlines after those of the curves."""
        return ()

    def methods(self, analysis: Analysis) -> Iterable[str]:
        """Sentences on how the numbers were obtained."""
        return ()

    def beside(self, analysis: Analysis) -> str:
        """How the curves stand beside those of others."""
        return ""

    def ranking(self, analysis: Analysis) -> Ranking | None:
        """What prices are compared by in place of time."""
        return None

    def along_axis(self, analysis: Analysis, axis: str) -> Sequence[AxisPoint]:
        """Shares, such as accuracies, that the first figure shows over an axis in place of throughput."""
        return ()

    def leads(self, analysis: Analysis) -> bool:
        """Whether a plot of the feature is the first figure where nothing scales."""
        return False

    def bandwidths(self, analysis: Analysis) -> Mapping[tuple[int, int], float]:
        """Highest bus bandwidth of the links alone in GB/s, by workers and nodes."""
        return {}


def contribute(contribution: Contribution) -> None:
    """Register a contribution."""
    _CONTRIBUTIONS.append(contribution)


def contributions() -> Iterator[Contribution]:
    """Those of every feature: ScaleCurve's, then those of installed packages, by the names of their modules."""
    load_report_sections()
    return iter(_CONTRIBUTIONS)
