"""One thing wrong with an input: where, what was given, what is allowed, and the nearest valid spelling."""

import json
from dataclasses import dataclass

Path = tuple[str | int, ...]


NOTHING = object()  # stands for a field that was left out, which is not the word "nothing"


@dataclass(frozen=True)
class Problem:
    """A validation error; ``str`` is one line. ``path`` is empty where the input as a whole is wrong."""

    path: Path
    given: object
    allowed: str
    suggestion: str | None = None
    file: str = ""
    line: int | None = None

    @property
    def field(self) -> str:
        return spell(self.path)

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        hint = f" (did you mean {self.suggestion!r}?)" if self.suggestion else ""
        head = "".join(f"{part}: " for part in (place, self.field) if part)
        return printable(f"{head}given {shorten(self.given)}; allowed: {self.allowed}{hint}")


def spell(path: Path) -> str:
    """A field path as people write it: ``spec.scaling.workers[2]``."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            plain = part and part.isprintable() and " " not in part
            text += ("." if text else "") + (part if plain else json.dumps(part))
    return text


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
