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
_DIGITS = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?")
_LINK = re.compile(r"\]\([^)]*\)|<[^>]*>|https?://\S+")


@dataclass(frozen=True)
class Number:
    """A number with its unit, where it stands, and the line around it."""

    text: str
    line: int
    context: str
    start: int
    """Its place in the page's prose, as `places` counts."""
    end: int
    column: str = ""
    """Heading of its column, in a table."""
    sections: tuple[str, ...] = ()
    """The headings above it, outermost first."""


def measured(page: str) -> Iterator[Number]:
    """Measured-looking numbers outside claims, code and links."""
    text = prose(page)
    lines, written = text.splitlines(), page.splitlines()
    headings = _headings(lines, written)
    for match in _MEASURED.finditer(text):
        line = text.count("\n", 0, match.start())
        before = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
        column = _column(lines, line, before.count("|"))
        words = " ".join(match[0].split())
        yield Number(words, line + 1, lines[line].strip(), *match.span(), column, headings[line])


def unbound(page: str, stated: Sequence[str]) -> Iterator[Number]:
    """Measured-looking numbers that no ``stated`` text covers."""
    covered = places(page, stated)
    return (number for number in measured(page) if not within(number, covered))


def prose(page: str) -> str:
    """The page without claims, code and the targets of links, line for line."""
    return _LINK.sub(lambda each: "]" + "\n" * each[0].count("\n"), unmarked(page))


def places(page: str, texts: Sequence[str]) -> list[tuple[int, int]]:
    """Where words stand in the page's prose, however their lines break."""
    text = prose(page)
    patterns = [r"\s+".join(map(re.escape, each.split())) for each in texts]
    return [match.span() for pattern in patterns for match in re.finditer(pattern, text)]


def within(number: Number, spans: Sequence[tuple[int, int]]) -> bool:
    """Whether one of the spans covers the number."""
    return any(first <= number.start and number.end <= last for first, last in spans)


def repeats(words: str, text: str) -> bool:
    """Whether every number of the words stands in the text, with these digits or as what rounds to them."""
    known = [float(each.replace(",", "")) for each in _DIGITS.findall(text)]
    return all(any(_rounds(value, each) for value in known) for each in _DIGITS.findall(words))


def _rounds(value: float, written: str) -> bool:
    decimals = len(written.partition(".")[2])
    return abs(value - float(written.replace(",", ""))) <= 0.5000001 * 10.0**-decimals


def _headings(lines: Sequence[str], written: Sequence[str]) -> list[tuple[str, ...]]:
    """For every line the headings above it; code in a heading is read from the page as ``written``."""
    above: list[tuple[int, str]] = []
    found = []
    for number, line in enumerate(lines):
        if match := re.match("(#{1,6}) ", line):
            level = len(match[1])
            above = [each for each in above if each[0] < level] + [(level, written[number][level:].strip())]
        found.append(tuple(heading for _, heading in above))
    return found


def _column(lines: Sequence[str], line: int, bars: int) -> str:
    if not lines[line].startswith("|"):
        return ""
    while line and lines[line - 1].startswith("|"):
        line -= 1
    cells = lines[line].split("|")
    return cells[bars].strip() if bars < len(cells) else ""
