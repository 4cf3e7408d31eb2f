"""A horizontal axis over the values of any field: numbers at their size, everything else side by side."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from scalecurve.reporting.drawing import axis
from scalecurve_api.model import canonical_json
from scalecurve_api.spec.experiment import AxisValue

LONGEST = 14  # letters of a tick
_LOG_FROM = 4.0
_AIR = 0.12


def value_axis(axes: Axes, values: Sequence[AxisValue]) -> dict[str, float]:
    """Where each value stands, by its ``canonical_json``; a log scale where the largest is several times the least."""
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    spelled = [value if isinstance(value, str) else canonical_json(value) for value in values]
    keys = [canonical_json(value) for value in values]
    if len(numbers) < len(values) or min(numbers) <= 0 or len(set(numbers)) < 2:
        axis.fixed_ticks(axes, "x", range(len(values)), [text[:LONGEST] for text in spelled])
        axis.category_limits(axes, len(values), least=2)
        return dict(zip(keys, map(float, range(len(values))), strict=True))
    low, high = float(min(numbers)), float(max(numbers))
    if high >= _LOG_FROM * low:
        axes.set_xscale("log")
        air = (high / low) ** _AIR
        axes.set_xlim(low / air, high * air)
    else:
        axes.set_xlim(low - (high - low) * _AIR, high + (high - low) * _AIR)
    step = -(-len(numbers) // axis.MOST_TICKS)
    axis.fixed_ticks(axes, "x", [float(number) for number in numbers[::step]], spelled[::step])
    axes.xaxis.set_minor_locator(NullLocator())
    return dict(zip(keys, map(float, numbers), strict=True))
