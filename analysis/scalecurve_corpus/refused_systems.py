"""How many of the published systems themselves an acceptance test would refuse."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from scalecurve.statistics.estimate import Estimate, Method
from scalecurve_corpus.acceptance import refuses
from scalecurve_corpus.comparable import OwnPoint, comparable
from scalecurve_corpus.schema import Corpus, PublishedPoint
from scalecurve_corpus.standing import LEAST_POINTS, LEAST_SUBMITTERS, quantile


@dataclass(frozen=True)
class RefusedSystems:
    """Of ``judged`` systems with enough runs and enough others beside them, how many percentile ``share`` refuses."""

    share: float
    repetitions: int
    refused: int
    judged: int

    @property
    def sentence(self) -> str:
        """What to know before a machine is held against a percentile."""
        percent = 100 * self.share
        return (
            f"Of published systems {100 * self.refused / self.judged:.0f} % would be refused ({self.refused} of "
            f"{self.judged}), by p{percent:g} of the other submitters' and their own first {self.repetitions} runs: "
            f"{percent:g} % of normal machines are below it by definition"
        )


def refused_systems(corpus: Corpus, share: float, repetitions: int) -> RefusedSystems | None:
    """Hold every published system against the percentile of those of other submitters, as ``gate`` would.

    Args:
        corpus: Published points.
        share: The percentile as a share, such as 0.25.
        repetitions: How many of a system's runs are taken, the first ones; two or more.

    Returns:
        How many are refused; None where no system has so many runs and enough others beside it.
    """
    verdicts = [
        verdict
        for point in corpus.points
        if point.unit and len(point.rates) >= repetitions
        if (verdict := _is_refused(point, corpus, share, repetitions)) is not None
    ]
    return RefusedSystems(share, repetitions, sum(verdicts), len(verdicts)) if verdicts else None


def _is_refused(point: PublishedPoint, corpus: Corpus, share: float, repetitions: int) -> bool | None:
    others = [each for each in comparable(_own_point(point), corpus) if each.point.submitter != point.submitter]
    if len(others) < LEAST_POINTS or len({each.point.submitter for each in others}) < LEAST_SUBMITTERS:
        return None
    rates = [rate / point.workers for rate in point.rates[:repetitions]]
    return refuses(rates, quantile([each.per_device for each in others], share))


def _own_point(point: PublishedPoint) -> OwnPoint:
    rate = Estimate(median(point.rates) / point.workers, None, None, 0.95, Method.NONE, len(point.rates))
    return OwnPoint(
        "", point.system, point.workers, point.nodes, point.device, point.benchmark, point.precision,
        point.batch_per_device, {str(point.unit): rate}, point.parameters, point.sequence_length,
    )  # fmt: skip
