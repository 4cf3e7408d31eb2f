"""Names as people type them: ``VGG-16``, ``h200`` and ``Inception-v3`` are the names they look like."""

import re
from collections.abc import Iterable

from scalecurve_api.text import did_you_mean


def folded(name: str) -> str:
    """Small letters and digits alone."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def known_as(name_typed: str, names_known: Iterable[str]) -> str | None:
    """The one of ``known`` that is meant: spelt so, or alike but for case and what is no letter or digit."""
    names = list(names_known)
    if name_typed in names:
        return name_typed
    alike = [name for name in names if folded(name) == folded(name_typed)] if folded(name_typed) else []
    return alike[0] if len(alike) == 1 else None


def unknown(kind: str, name: str, allowed: Iterable[str]) -> str:
    """One line for a name that is none of ``known``, with the nearest of them."""
    names = list(allowed)
    near = did_you_mean(name, names)
    hint = f"; did you mean {near!r}?" if near else ""
    return f"{kind} {name!r} is unknown{hint} (known: {', '.join(names)})"
