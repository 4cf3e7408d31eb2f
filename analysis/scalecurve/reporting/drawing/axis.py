"""Axes with few, meaningful ticks: worker counts on log2, round numbers on log10, message sizes."""

import math
import re
import textwrap
from collections.abc import Callable, Collection, Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

from scalecurve.render import formatting
from scalecurve.reporting.drawing.views import form

MOST_TICKS = 9
_LOGARITHM = " (log scale)"
_DODGE, _DODGES = 0.018, 0.08  # of the panel's width, between neighbors and between all lines
_ONE_VALUE = 1e-3  # of the larger end: a difference that ticks of seven characters do not show
_FITS = 7  # characters of a tick's label that the margin has room for
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def workers_axis(axes: Axes, counts: Sequence[int], label: bool = True) -> None:
    """log2 over worker counts, ticks at counts that were measured."""
    counts = sorted(set(counts))
    axes.set_xscale("log", base=2)
    octaves = math.log2(counts[-1] / counts[0])
    axes.set_xlim(counts[0] / 2 ** (0.3 + octaves * 0.03), counts[-1] * 2 ** (0.35 + octaves * 0.11))
    fixed_ticks(axes, "x", thinned(counts), [str(count) for count in thinned(counts)])
    if label:
        axes.set_xlabel("Workers")


def batch_axis(axes: Axes, batches: Sequence[int]) -> None:
    """log2 over global batches in ascending order, ticks at those that were measured."""
    axes.set_xscale("log", base=2)
    axes.set_xlim(batches[0] / 1.3, batches[-1] * 1.3)
    ticks = thinned(batches)
    fixed_ticks(axes, "x", ticks, [f"{tick:,}" for tick in ticks])
    axes.set_xlabel("Global batch")


def epoch_axis(axes: Axes, last: int, air: float = 1.03) -> None:
    """Epochs from 0, ticks at whole ones."""
    axes.set_xlim(0, last * air)
    ticks = whole_ticks(last)
    fixed_ticks(axes, "x", ticks, [f"{tick:,.0f}" for tick in ticks])
    axes.set_xlabel("Epoch")


def message_axis(axes: Axes, sizes: Collection[int]) -> None:
    """log2 over message sizes in bytes."""
    counts = sorted(set(sizes))
    axes.set_xscale("log", base=2)
    axes.set_xlim(counts[0] / 2**0.6, counts[-1] * 2**0.6)
    ticks = thinned(counts, 6)
    fixed_ticks(axes, "x", ticks, [formatting.size(tick) for tick in ticks])
    axes.set_xlabel("Message")


def percent(share: float) -> str:
    """A fraction as a percentage tick."""
    return f"{short(share * 100)} %"


def thinned(counts: Sequence[int], most: int = MOST_TICKS) -> list[int]:
    """At most ``most`` of the counts, none closer than a quarter of an octave: the ends and what stands apart."""
    apart = 0.25
    while True:
        kept: list[int] = []
        for count in sorted(counts, key=lambda c: (c & (c - 1) != 0, c)):
            if all(abs(math.log2(count / other)) >= apart for other in kept):
                kept.append(count)
        if len(kept) <= most:
            return sorted(kept)
        apart *= 1.5


def log_axis(
    axes: Axes, which: str, low: float, high: float, spell: Callable[[float], str] = formatting.number
) -> None:
    """A log axis over [low, high] with about five round ticks and a small margin; linear in figures of that form."""
    if which == "y" and form().linear:
        linear_axis(axes, which, 0, high * 1.06, spell)
        return
    air = max((high / low) ** 0.06, 1.04)
    low, high = low / air, high * air
    getattr(axes, f"set_{which}scale")("log")
    getattr(axes, f"set_{which}lim")(low, high)
    ticks = round_ticks(low, high)
    fixed_ticks(axes, which, ticks, [spell(tick) for tick in ticks])


def mark_logarithms(axes: Axes) -> None:
    """Say of every labelled log axis that it is one."""
    for which in "xy":
        label = getattr(axes, f"get_{which}label")()
        if label and getattr(axes, f"get_{which}scale")() == "log" and not label.endswith(_LOGARITHM):
            getattr(axes, f"set_{which}label")(f"{label}{_LOGARITHM}")


def factor_powers_of_ten(panels: Sequence[Axes]) -> None:
    """Name a power of ten once, in the unit of a vertical axis, where ticks with it do not fit beside the axis.

    A panel without a label has the axis of the labelled one before it.
    """
    power = 0
    for axes in panels:
        label, formatter = axes.get_ylabel(), axes.yaxis.get_major_formatter()
        if not (isinstance(formatter, FixedFormatter) and any("×10" in tick for tick in formatter.seq)):
            continue
        places = [float(tick) for tick in axes.yaxis.get_majorticklocs()]
        if label:
            power = math.floor(math.log10(min(tick for tick in places if tick > 0)) + 1e-9)
        ticks = [short(tick / 10.0**power) for tick in places]
        if max(map(len, ticks)) <= _FITS:
            fixed_ticks(axes, "y", places, ticks)
            unit = re.search(r"\(([^()]*)\)$", label)
            factor = f"{_power_of_ten(power)} {unit[1]}" if unit else _power_of_ten(power)
            axes.set_ylabel(label and f"{label[: unit.start()] if unit else label + ' '}({factor})")


def round_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Three to ``most`` round numbers within [low, high]: 1, 2, 5 of each decade, or fewer or more of them."""
    for steps in ((1, 2, 5), (1, 3), (1,), (1, 1.5, 2, 3, 4, 5, 6, 8)):
        ticks = _decades(low, high, steps)
        if 3 <= len(ticks) <= most:
            return ticks
    if high > low * 1e3:
        ticks = _decades(low, high, (1,))
        return ticks[:: -(-len(ticks) // most)]
    return [tick for tick in linear_ticks(low, high, most - 1) if tick > 0]


def linear_ticks(low: float, high: float, target: int = 6) -> list[float]:
    """Multiples of 1, 2, 2.5 or 5 times a power of ten within [low, high]."""
    if not high > low:
        return [low]
    rough = (high - low) / target
    power = 10 ** math.floor(math.log10(rough))
    step = next(power * k for k in (1, 2, 2.5, 5, 10) if power * k >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [k * step for k in range(first, last + 1)]


def linear_axis(
    axes: Axes, which: str, low: float, high: float, spell: Callable[[float], str] = formatting.number
) -> None:
    """A linear axis with about five round ticks, and some room where all values are one."""
    if high - low <= abs(high) * _ONE_VALUE:
        low, high = low - abs(low) * 0.05, (high + abs(high) * 0.05) or 1.0
    getattr(axes, f"set_{which}lim")(low, high)
    ticks = linear_ticks(low, high)
    fixed_ticks(axes, which, ticks, [spell(tick) for tick in ticks])


def whole_ticks(last: int) -> list[float]:
    """Whole numbers from 0 to ``last``, at most eight of them."""
    step = next(k * 10**power for power in range(10) for k in (1, 2, 5) if last / (k * 10**power) <= 8)
    return [float(tick) for tick in range(0, last + 1, step)]


def folded(label: str, most: int = 14) -> str:
    """A category's whole label, in lines of ``most`` characters, broken at hyphens too."""
    return "\n".join(textwrap.wrap(label, most)) or label


def category_limits(axes: Axes, count: int, least: int = 4) -> None:
    """Limits around ``count`` places at 0, 1, 2, ..., centered if there are few."""
    air = 0.6 + max(0, least - count) / 2
    axes.set_xlim(-air, count - 1 + air)


def dodged(axes: Axes, x: float, order: int, count: int) -> float:
    """Where the line of this order, among so many, stands at ``x``: beside the others, in an axis with its limits."""
    shift = (order - (count - 1) / 2) * min(_DODGE, _DODGES / count)
    to_share = axes.transScale + axes.transLimits
    share, height = to_share.transform((x, 1.0))
    return float(to_share.inverted().transform((share + shift, height))[0])


def short(value: float) -> str:
    """A tick label: no extra digits, and a power of ten if it would not fit next to the axis."""
    text = f"{float(f'{value:.6g}'):,.12f}".rstrip("0").rstrip(".")
    if value == 0 or (len(text) <= _FITS and float(text.replace(",", ""))):
        return text
    mantissa, power = f"{value:.5e}".split("e")
    mantissa = mantissa.rstrip("0").rstrip(".")
    raised = _power_of_ten(int(power))
    return raised if mantissa == "1" else f"{mantissa}×{raised}"


def _power_of_ten(power: int) -> str:
    return f"10{str(power).translate(_RAISED)}"


def _decades(low: float, high: float, steps: Sequence[float]) -> list[float]:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    ticks = [step * 10.0**power for power in range(first, last + 1) for step in steps]
    return [tick for tick in ticks if low <= tick <= high]


def fixed_ticks(axes: Axes, which: str, ticks: Sequence[float], labels: Sequence[str]) -> None:
    """Exactly these ticks, none between them."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(FixedLocator(list(ticks)))
    axis.set_major_formatter(FixedFormatter(list(labels)))
    axis.set_minor_locator(NullLocator())
