"""Number formatting: no locale, rarely an exponent, no more digits than are significant."""

import math

from scalecurve.statistics.estimate import Estimate

MISSING = "–"
PENDING_MARK = "?"
_DIGITS = 4
_WIDE = 3.0
"""Where an end is so many times the value, the ends have no decimals in common: each gets two digits of its own."""


def number(value: float, digits: int = _DIGITS) -> str:
    """``value`` with about ``digits`` significant digits, as 12,345 or 0.01234."""
    if not math.isfinite(value):
        return MISSING
    if value == round(value) and abs(value) < 1e15:
        return f"{round(value):,}"
    return _format_fixed_point(value, _decimals(value, digits))


def count(value: int) -> str:
    """An integer with thousands separators."""
    return f"{value:,}"


def percent(value: float, decimals: int = 1) -> str:
    """A share as a percentage: 0.912 -> 91.2 %."""
    return f"{_format_fixed_point(value * 100, decimals)} %"


def stated_percent(share: float) -> str:
    """A percentage that somebody set, with the digits that it was set with: 0.05 -> 5 %, 0.975 -> 97.5 %."""
    return f"{share * 100:g} %"


def interval(estimate: Estimate, as_percent: bool = False) -> str:
    """``1.82 (1.75–1.89)`` or ``91.2 % (88.0–94.4)``: as many decimals as the width of the interval earns.

    ``1.82 (not known: 2 repetitions)``, with the reason, where the data cannot carry an interval.
    """
    if estimate.unknown:
        why = f": {estimate.reason}" if estimate.reason else ""
        return f"{percent(estimate.value) if as_percent else number(estimate.value)} (not known{why})"
    factor, unit = (100, " %") if as_percent else (1, "")
    if estimate.low is None or estimate.high is None or estimate.low == estimate.high:
        return percent(estimate.value) if as_percent else number(estimate.value)
    ends = [end * factor for end in (estimate.value, estimate.low, estimate.high)]
    if estimate.low > 0 and 0 < estimate.value * _WIDE < estimate.high:
        value, low, high = (number(end, 2) for end in ends)
    else:
        decimals = _interval_decimals(ends[0], (estimate.high - estimate.low) * factor)
        decimals = min(2, max(1, decimals)) if as_percent else decimals
        value, low, high = (_format_fixed_point(end, decimals) for end in ends)
    return f"{value}{unit} ({_range(low, high)})"


def parted(estimate: Estimate, as_percent: bool) -> tuple[str, str]:
    """(value, interval) apart: ``1.82`` and ``1.75–1.89``; the second is empty where there is no interval."""
    value, _, rest = interval(estimate, as_percent).partition(" (")
    return value, rest.removesuffix(")")


def label_interval(text: str) -> str:
    """The second of ``parted`` where nothing beside it says what is not known."""
    return f"interval {text}" if text.startswith("not known") else text


def seconds(value: float, largest: float | None = None) -> str:
    """A duration in the unit that suits it, or the ``largest`` of its column: 12.3 ms, 4.56 s, 7.8 min, 9.1 h."""
    size = abs(value if largest is None else largest)
    for limit, factor, unit in ((1e-3, 1e6, "µs"), (1, 1e3, "ms"), (120, 1, "s"), (7200, 1 / 60, "min")):
        if size < limit:
            return f"{number(value * factor, 3)} {unit}"
    return f"{number(value / 3600, 3)} h"


def size(bytes_: int) -> str:
    """A message size in powers of 1024: 8 B, 64 KiB, 1 GiB."""
    value: float = bytes_
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{number(value, 4)} {unit}"
        value /= 1024
    return f"{number(value, 4)} GiB"


def _range(low: str, high: str) -> str:
    return f"{low} to {high}" if low.startswith("-") else f"{low}–{high}"


def _decimals(value: float, digits: int) -> int:
    if value == 0:
        return 0
    return max(0, min(12, digits - 1 - math.floor(math.log10(abs(value)))))


def _interval_decimals(value: float, width: float) -> int:
    """Two digits of a half width that begins with 1 to 3, else one; three digits of the value at least, six at most.

    The rule that the Particle Data Group rounds by (Review of Particle Physics, Introduction, 5.3), simplified.
    """
    half = width / 2
    leading = 10 ** (math.log10(half) % 1) if half > 0 else 1
    wanted = _decimals(half, 2 if leading < 3.55 else 1)
    if abs(value) <= half:
        return max(wanted, _decimals(value, 2)) if value else wanted
    return max(min(wanted, _decimals(value, 6)), _decimals(value, 3))


def _format_fixed_point(value: float, decimals: int) -> str:
    text = f"{value:,.{decimals}f}"
    return text.removeprefix("-") if float(text.replace(",", "")) == 0 else text
