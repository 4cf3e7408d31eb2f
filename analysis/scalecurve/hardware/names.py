"""Names as people type them: ``VGG-16``, ``h200`` and ``Inception-v3`` are the names they look like."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable


def folded(name: str) -> str:
    """Small letters and digits alone."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def known_as(given: str, known: Iterable[str]) -> str | None:
    """The one of ``known`` that is meant: spelt so, or alike but for case and what is no letter or digit."""
    names = list(known)
    if given in names:
        return given
    alike = [name for name in names if folded(name) == folded(given)] if folded(given) else []
    return alike[0] if len(alike) == 1 else None


def unknown(what: str, given: str, known: Iterable[str]) -> str:
    """One line for a name that is none of ``known``, with the nearest of them."""
    names = list(known)
    small = {name.lower(): name for name in names}
    near = difflib.get_close_matches(given.lower(), list(small), n=1)
    hint = f"; did you mean {small[near[0]]!r}?" if near else ""
    return f"{what} {given!r} is not known{hint}; known are {', '.join(names)}"
