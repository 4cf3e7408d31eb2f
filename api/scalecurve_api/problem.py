"""One thing wrong with an input: where, what was given, what is allowed, and the nearest right spelling."""

from __future__ import annotations

import json
from dataclasses import dataclass


class Nothing:
    """Stands for a field that was left out, which is not the word "nothing"."""

    def __str__(self) -> str:
        """As people read it."""
        return "nothing"


NOTHING = Nothing()


@dataclass(frozen=True)
class Problem:
    """An error for people; ``str`` is one line."""

    file: str
    line: int | None
    field: str
    given: object
    allowed: str
    suggestion: str | None = None

    def __str__(self) -> str:
        """``file:line: field: given X; allowed: Y (did you mean Z?)``."""
        where = self.file if self.line is None else f"{self.file}:{self.line}"
        hint = f" (did you mean {self.suggestion!r}?)" if self.suggestion else ""
        head = f"{where}: {self.field}: " if self.field else f"{where}: "
        return printable(f"{head}given {shorten(self.given)}; allowed: {self.allowed}{hint}")


def shorten(value: object, most: int = 120) -> str:
    """A value on one line, cut where it is long."""
    if value is NOTHING:
        return "nothing"
    try:
        text = value if isinstance(value, str) and " " in value else json.dumps(value, default=str, ensure_ascii=False)
    except (ValueError, RecursionError):  # a number of thousands of digits, a list within itself
        text = f"(a {type(value).__name__} that cannot be shown)"
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 3] + "..."


def printable(text: str) -> str:
    """``text`` with everything that would move a terminal's cursor, or cannot be encoded, spelled out."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )
