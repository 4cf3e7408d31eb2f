"""JSON that anybody may have written: what the standard parser accepts and nothing behind it can hold is refused."""

import math
from typing import Any

from pydantic_core import from_json

_MAX_DEPTH = 32
_INT64 = 1 << 63


def parse(data: bytes) -> Any:
    """The value, nested at most 32 deep, with integers of 64 bits, finite numbers, and text that is Unicode.

    Raises:
        ValueError: for anything else.
    """
    value = from_json(data, allow_inf_nan=False)
    level = [value]
    for _ in range(_MAX_DEPTH):
        deeper: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                deeper.extend(item.values())
            elif isinstance(item, list):
                deeper.extend(item)
            elif isinstance(item, int) and not -_INT64 <= item < _INT64:
                raise ValueError("an integer exceeds 64 bits")
            elif isinstance(item, float) and not math.isfinite(item):
                raise ValueError("a number is not finite")
        if not deeper:
            return value
        level = deeper
    raise ValueError(f"nested deeper than {_MAX_DEPTH}")
