"""The mean of one number a repetition, on the scale it is given in: accuracies, epochs, seconds."""

import math
from collections.abc import Sequence

from scalecurve.statistics.estimate import LARGEST_FACTOR, Estimate, Method
from scalecurve.statistics.spread import student_quantile


def mean(values: Sequence[float], level: float = 0.95, *, least: float = -math.inf, most: float = math.inf) -> Estimate:
    """Student's t on the values, its ends moved into [``least``, ``most``], which no value can leave (0 and 1).

    One value gives no interval. Equal values give one of no width: so few tell no more of how far they may be apart.
    An interval of more than half of what lies between ``least`` and ``most``, or of a factor of two from ``least`` on
    without a ``most``, tells nothing: it is not known.
    Raises ValueError for no value, one that is not finite or outside, or a level outside (0, 1).
    """
    if not values or not 0 < level < 1:
        raise ValueError(f"a mean needs values and a level between 0 and 1, got {len(values)} and {level!r}")
    for index, value in enumerate(values):
        if not (math.isfinite(value) and least <= value <= most):
            raise ValueError(f"value[{index}] must be finite and lie in [{least:g}, {most:g}], got {value!r}")
    count = len(values)
    # About the first value: equal ones have no variance, not even that of rounding.
    centre = values[0] + math.fsum(value - values[0] for value in values) / count
    centre = min(max(centre, min(values)), max(values))
    if count == 1:
        return Estimate(centre, None, None, level, Method.NONE, 1)
    variance = math.fsum((value - centre) ** 2 for value in values) / (count - 1)
    half = student_quantile(count - 1, level) * math.sqrt(variance / count)
    low, high = max(least, centre - half), min(most, centre + half)
    wide = high - low > (most - least) / 2 if math.isfinite(most) else high - least > LARGEST_FACTOR * (low - least)
    if wide:
        return Estimate.not_known(centre, level, count)
    return Estimate(centre, low, high, level, Method.REPETITIONS, count)
