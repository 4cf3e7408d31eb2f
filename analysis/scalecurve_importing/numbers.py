"""Numbers and durations as tables have them, in the units that a name may state."""

import math
import re

from scalecurve_importing.reading import SourceError

SECONDS = {
    "s": 1.0,
    "sec": 1.0,
    "secs": 1.0,
    "second": 1.0,
    "seconds": 1.0,
    "ms": 1e-3,
    "msec": 1e-3,
    "milliseconds": 1e-3,
    "us": 1e-6,
    "usec": 1e-6,
    "microseconds": 1e-6,
    "min": 60.0,
    "mins": 60.0,
    "minutes": 60.0,
    "h": 3600.0,
    "hr": 3600.0,
    "hrs": 3600.0,
    "hour": 3600.0,
    "hours": 3600.0,
    "d": 86400.0,
    "day": 86400.0,
    "days": 86400.0,
}
WRITTEN = -1
CLOCKS = {"mm_ss": 2, "m_ss": 2, "min_s": 2, "hh_mm_ss": 3, "h_mm_ss": 3, "written": WRITTEN}
"""Parts between colons, the last in seconds; or each with its unit, as ``2d 3h``."""
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)\s*(?:,\s*)?", re.IGNORECASE)


def number(text: str, place: str, *, zero: bool = False) -> float:
    """Parse a finite positive number; raises SourceError with the place."""
    try:
        value = float(text.strip().rstrip("x×").strip())
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0 or (value == 0 and not zero):
        hint = (
            "; write thousands without a separator" if re.fullmatch(r"\d{1,3}(,\d{3})+(\.\d+)?", text.strip()) else ""
        )
        raise SourceError(f"{place}: got {text!r}, expected a positive number{hint}")
    return value


def whole(text: str, place: str) -> int:
    """Parse a positive whole number; raises SourceError with the place."""
    value = number(text, place)
    if value != int(value):
        raise SourceError(f"{place}: got {text!r}, expected a positive whole number")
    return int(value)


def duration(text: str) -> float | None:
    """Convert a text such as ``2d 3h`` or ``1 hour, 5 min`` to seconds; any other to None."""
    total, at = 0.0, 0
    text = text.strip()
    while match := _DURATION.match(text, at):
        if (scale := SECONDS.get(match[2].lower())) is None:
            return None
        total, at = total + float(match[1]) * scale, match.end()
    return total if at == len(text) and total > 0 else None
