"""pydantic's messages in the words of this project."""

from __future__ import annotations

import re
from collections.abc import Iterable

_WORDING = (
    (r"^Input should be ", ""),
    (r"^(?:String|List|Dictionary|Value) should have ", ""),
    (r"^String should match pattern '\^\[a-z0-9\].*", "lower-case letters, digits and inner dashes"),
    (r"^String should match pattern '\^\[1-9\]\[0-9\]\{0,4\}x.*", "nodes x workers a node, as 2x4"),
    (r"^String should match pattern '\^\[A-Za-z_\].*", "the name of an environment variable"),
    (r"^String should match pattern '\^\[A-Z\]\{3\}\$'", "three capital letters, as USD"),
    (r"^String should match pattern '\^\[\^\\x00\].*", "text without NUL characters"),
    (r"^String should match pattern '(.+)'$", r"text that matches \1"),
    (r"^a valid (\w+).*", r"a \1"),
    (r"\ba integer\b", "a whole number"),
    (r"\ba dictionary\b", "a mapping"),
    (r" after validation, not (\d+)$", r", and there are \1"),
)


def plain(message: str) -> str:
    """What is allowed, said after the word "allowed"."""
    for before, after in _WORDING:
        message = re.sub(before, after, message)
    return message


def few(values: Iterable[object], most: int = 6) -> str:
    """The values with commas between, the first ones where they are many."""
    texts = [str(value) for value in values]
    rest = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + rest
