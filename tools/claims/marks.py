"""Marks on a page: `<!-- claim: ID -->1.76x<!-- /claim -->` encloses what `claims.toml` computes. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_MARK = re.compile(r"<!-- claim: ([^ ]*) -->(.*?)<!-- /claim -->", re.DOTALL)
_EDGE = re.compile(r"<!-- /?claim\b")
_CODE = re.compile(r"```.*?```|^(?: {4}|\t)[^\n]*$|`[^`\n]*`", re.DOTALL | re.MULTILINE)
_SPAN = re.compile(r"`[^`\n]*`")
"""Code within a line; a mark in it is only shown."""
_SPAN_OR_MARK = re.compile(f"{_SPAN.pattern}|{_MARK.pattern}", re.DOTALL)


@dataclass(frozen=True)
class ClaimMark:
    """What stands on a page as a claim."""

    id: str
    text: str
    line: int


class BrokenMark(ValueError):
    """A mark that does not end, or holds another one."""


def marks(page: str) -> list[ClaimMark]:
    """The marks of a page, in order.

    Raises:
        BrokenMark: for a mark without its other end.
    """
    page = _without_shown(page)
    found = [ClaimMark(each[1], each[2], page.count("\n", 0, each.start()) + 1) for each in _MARK.finditer(page)]
    rest = _MARK.sub(lambda each: "\n" * each[0].count("\n"), page)
    if edge := _EDGE.search(rest):
        line = rest.count("\n", 0, edge.start())
        raise BrokenMark(f"line {line + 1}: a claim without its other end: {rest.splitlines()[line].strip()}")
    for mark in found:
        if _EDGE.search(mark.text):
            raise BrokenMark(f"line {mark.line}: claim {mark.id} holds another one")
    return found


def differs(text: str, expected: str) -> bool:
    """Whether they differ in more than where their lines break."""
    return words(text) != words(expected)


def words(text: str) -> list[str]:
    """Its words, also of lines of a quotation."""
    return re.sub(r"\n> ?", "\n", text).split()


def replaced(page: str, texts: Mapping[str, str]) -> str:
    """The page with the text of every claim that is known; one that only breaks its lines otherwise stays."""

    def put(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0]  # code
        expected = texts.get(match[1], match[2])
        block = "\n" if match[2].startswith("\n") else ""  # a block stands between lines of its own
        text = f"{block}{expected}{block}"
        return f"<!-- claim: {match[1]} -->{text if differs(match[2], expected) else match[2]}<!-- /claim -->"

    return _SPAN_OR_MARK.sub(put, page)


def unmarked(page: str) -> str:
    """The page's prose and tables without marks and without code, line for line."""
    text = _MARK.sub(lambda each: "\n" * each[0].count("\n"), _without_shown(page))
    return _CODE.sub(lambda each: "\n" * each[0].count("\n"), text)


def _without_shown(page: str) -> str:
    return _SPAN.sub(lambda each: "" if "<!-- claim: " in each[0] else each[0], page)
