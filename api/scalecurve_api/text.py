"""Words for people: numbers with their nouns, lists, suggestions, and pydantic's messages."""

import re
from collections.abc import Iterable
from difflib import get_close_matches

_WORDING = (
    (r"^Input should be ", ""),
    (r"^Value error, ", ""),
    (r"^(?:String|List|Dictionary|Value) should have ", ""),
    (r"^String should match pattern '\^\[a-z0-9\].*", "lower-case letters, digits and inner dashes"),
    (r"^String should match pattern '\^\[1-9\]\[0-9\]\{0,4\}x.*", "nodes x workers per node, such as 2x4"),
    (r"^String should match pattern '\^\[A-Za-z_\].*", "the name of an environment variable"),
    (r"^String should match pattern '\^\[a-zA-Z_\].*", "letters, digits and underscores"),
    (r"^String should match pattern '\^\[A-Z\]\{3\}\$'", "three capital letters, such as USD"),
    (r"^String should match pattern '\^\[\^\\x00\].*", "text without NUL characters"),
    (r"^String should match pattern '(.+)'$", r"text that matches \1"),
    (r"^a valid (\w+).*", r"a \1"),
    (r"^(True|False)$", lambda match: match[1].lower()),
    (r"\ba integer\b", "a whole number"),
    (r"\ba dictionary\b", "a mapping"),
    (r"<\w+\.\w+: ('[^']*')>", r"\1"),
    (r"\bgreater than or equal to\b", "at least"),
    (r"\bless than or equal to\b", "at most"),
    (r"\bgreater than\b", "more than"),
    (r" after validation, not (\d+)$", r", not \1"),
)


def plain(message: str) -> str:
    """Turn a message of pydantic into what follows the word "expected"."""
    for before, after in _WORDING:
        message = re.sub(before, after, message)
    return message


def few(values: Iterable[object], most: int = 6) -> str:
    """The values with commas between, the first ones where they are many."""
    texts = [str(value) for value in values]
    rest = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + rest


def did_you_mean(word: str, allowed: Iterable[str]) -> str | None:
    """The allowed word that ``word`` is most likely a misspelling of, or None; numbers are not misspelled."""
    if word[:1].isdigit():
        return None
    by_lower = {name.lower(): name for name in allowed}
    near = get_close_matches(word.lower(), list(by_lower), n=1, cutoff=0.65)
    return by_lower[near[0]] if near else None


def plural(number: int, noun: str, many: str = "") -> str:
    """Return the noun for a number, without the number: ``worker``, ``workers``; ``many`` if it takes no s."""
    return noun if number == 1 else many or f"{noun}s"


def count(number: int, noun: str, many: str = "") -> str:
    """Return a number and its noun: ``1 worker``, ``8 workers``, ``0 processes``."""
    return f"{number} {plural(number, noun, many)}"


def listed(numbers: Iterable[int], noun: str) -> str:
    """Return numbers and their noun: ``1 worker``, ``2, 4 workers``."""
    texts = [str(number) for number in numbers]
    return f"{few(texts)} {noun if texts == ['1'] else f'{noun}s'}"


def spell_value(value: object) -> str:
    """A value as it is written in YAML: ``true``, not ``True``."""
    return str(value).lower() if isinstance(value, bool) else str(value)
