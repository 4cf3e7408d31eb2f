"""MFU beside published MFU of models of about the same size, where no other system trained the same model.

Model FLOPs utilization divides the FLOPs that a model needs by what the devices could do, so models of about one size
can be set side by side. Comparable is the same device, parameters and sequence length within a factor of two, and no
other precision stated; the number of devices may differ, for it is what MFU is drawn over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scalecurve.statistics.estimate import Estimate
from scalecurve_api.text import count
from scalecurve_corpus.comparable import OwnPoint, same_precision
from scalecurve_corpus.schema import Corpus, PublishedPoint
from scalecurve_corpus.standing import LEAST_POINTS, LEAST_SUBMITTERS

SIZE_FACTOR = 2.0


@dataclass(frozen=True)
class UtilizationStanding:
    """A point's MFU beside the published ones of about its size; ``refused`` says why it is not judged."""

    own: OwnPoint
    mfu: Estimate
    others: tuple[PublishedPoint, ...]

    @property
    def shares(self) -> list[float]:
        """The published MFUs, smallest first."""
        return sorted(each.mfu for each in self.others if each.mfu is not None)

    @property
    def submitters(self) -> set[str]:
        return {each.submitter for each in self.others}

    @property
    def refused(self) -> str:
        """Empty with five figures of three submitters or more."""
        if len(self.others) >= LEAST_POINTS and len(self.submitters) >= LEAST_SUBMITTERS:
            return ""
        of = f"{count(len(self.others), 'figure')} of {count(len(self.submitters), 'submitter')}"
        return f"{of}; expected {LEAST_POINTS} of {LEAST_SUBMITTERS} or more"

    @property
    def sizes(self) -> str:
        """The fewest and the most devices of the published figures."""
        sizes = sorted({each.workers for each in self.others})
        return "–".join(map(str, dict.fromkeys((sizes[0], sizes[-1]))))


def utilization_standings(points: Sequence[OwnPoint], corpus: Corpus) -> tuple[UtilizationStanding, ...]:
    """Set the MFU of every point beside the published ones of about its size.

    Args:
        points: Measured points.
        corpus: Published points.

    Returns:
        One for each point with an MFU and something comparable.
    """
    published = [point for point in corpus.points if point.mfu is not None]
    found = []
    for own in points:
        others = tuple(point for point in published if _alike(own, point))
        if own.mfu is not None and others:
            found.append(UtilizationStanding(own, own.mfu, others))
    return tuple(found)


def _alike(measured: OwnPoint, point: PublishedPoint) -> bool:
    if measured.device != point.device or not measured.parameters or not point.parameters:
        return False
    if not same_precision(measured.precision, point.precision):
        return False
    return _close(measured.parameters, point.parameters) and _close(measured.sequence_length, point.sequence_length)


def _close(first: float | None, second: float | None) -> bool:
    """Whether two sizes are within the factor; one that is not stated rules nothing out."""
    if first is None or second is None:
        return True
    return 1 / SIZE_FACTOR <= first / second <= SIZE_FACTOR
