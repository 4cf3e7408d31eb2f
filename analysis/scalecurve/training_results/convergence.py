"""When a validation curve has converged, by a rule instead of by eye.

The curve is smoothed by the mean of the last ``WIDTH`` evaluations. Its maximum counts as reached at the first epoch
from which on the smoothed curve stays within ``TOLERANCE`` of its own maximum. Where that is one of the last ``WIDTH``
epochs nothing was seen of it staying there, and the run has not settled. A run that falls again later settles late or
not at all, and neither epoch nor value depends on how it got there.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH = 3
TOLERANCE = 0.005


@dataclass(frozen=True)
class Settled:
    """``index`` is that of the evaluation at which a run came to its smoothed ``maximum``."""

    index: int
    maximum: float


def settled(accuracies: Sequence[float], width: int = WIDTH, tolerance: float = TOLERANCE) -> Settled | None:
    """Where a run converged by the rule above; None if it did not, or is shorter than two widths.

    Raises ValueError for a width below 1, a negative tolerance, or accuracies that are not finite.
    """
    if width < 1 or tolerance < 0 or not all(map(math.isfinite, accuracies)):
        raise ValueError(
            f"expected width >= 1, tolerance >= 0 and finite accuracies, got width {width}, tolerance {tolerance}"
        )
    if len(accuracies) <= 2 * width:
        return None
    smooth = smoothed(accuracies, width)
    maximum = max(smooth)
    after_last_miss = max((index + 1 for index, value in enumerate(smooth) if value < maximum - tolerance), default=0)
    index = after_last_miss + width - 1
    return Settled(index, maximum) if index < len(accuracies) - width else None


def smoothed(values: Sequence[float], width: int) -> list[float]:
    """Means of ``width`` values in a row, by the last of them: ``width - 1`` fewer than values."""
    return [math.fsum(values[end - width : end]) / width for end in range(width, len(values) + 1)]
