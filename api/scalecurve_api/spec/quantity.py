"""Exact arithmetic on Kubernetes quantities: an experiment states them for one worker, a pod carries several."""

import re
from decimal import Decimal

# apimachinery's resource.Quantity: a signed number, then a binary suffix, a decimal suffix or an exponent.
_SPELLED = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,2})?)([KMGTPE]i|[numkMGTPE]?)")
_SCALES = {suffix: Decimal(10) ** (3 * power) for power, suffix in enumerate(("n", "u", "m", "", *"kMGTPE"), -3)}
_SCALES |= {f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", 1)}


def value(quantity: int | float | str) -> Decimal:
    """The value of a quantity.

    Raises:
        ValueError: for what is no quantity.
    """
    number, suffix = _split(quantity)
    return number * _SCALES[suffix]


def times(quantity: int | float | str, count: int) -> str:
    """``count`` times a quantity, with its suffix: ``500m`` four times is ``2000m``.

    Raises:
        ValueError: for what is no quantity.
    """
    number, suffix = _split(quantity)
    text = f"{number * count:f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text) + suffix


def _split(quantity: int | float | str) -> tuple[Decimal, str]:
    match = _SPELLED.fullmatch(str(quantity).strip())
    if match is None:
        raise ValueError(f"{quantity!r}: expected a Kubernetes quantity, such as 2, 500m or 4Gi")
    return Decimal(match[1]), match[2]
