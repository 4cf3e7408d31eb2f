"""Find the numbers on a page that look measured: a number with a unit of time, rate, size or share. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tools.claims.marks import unmarked

_NUMBER = r"[~±+−-]?\d[\d,]*(?:\.\d+)?"
_UNIT = (
    r"%|x(?![\w-])|times\b|(?:ns|µs|us|ms|s|h|min|seconds?|minutes?|hours?)\b|[kMGT]i?B(?:/s)?\b"
    r"|(?:samples|images|tokens|steps|FLOP|[GT]FLOPS?)/s\b|(?:samples|images|tokens) a second\b|USD\b|W\b|J\b"
)
_MEASURED = re.compile(rf"(?<![\w./-]){_NUMBER}(?:\s?(?:–|-|to)\s?{_NUMBER})?\s?(?:{_UNIT})")
_LINK = re.compile(r"\]\([^)]*\)|<[^>]*>|https?://\S+")


@dataclass(frozen=True)
class Number:
    """A number with its unit, where it stands, and the line around it."""

    text: str
    line: int
    context: str


def unbound(page: str, stated: Sequence[str]) -> Iterator[Number]:
    """Measured-looking numbers outside claims, code and links that no ``stated`` text covers."""
    text = _LINK.sub(lambda each: "]" + "\n" * each[0].count("\n"), unmarked(page))
    covered = [span for each in stated for span in _places(text, each)]
    lines = text.splitlines()
    for match in _MEASURED.finditer(text):
        if not any(first <= match.start() and match.end() <= last for first, last in covered):
            line = text.count("\n", 0, match.start())
            yield Number(" ".join(match[0].split()), line + 1, lines[line].strip())


def _places(text: str, words: str) -> list[tuple[int, int]]:
    pattern = r"\s+".join(map(re.escape, words.split()))
    return [match.span() for match in re.finditer(pattern, text)]
