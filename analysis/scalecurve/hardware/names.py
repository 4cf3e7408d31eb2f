"""Forgiving lookup of names: ``VGG-16``, ``h200`` and ``Inception-v3`` match regardless of case and punctuation."""

import re
from collections.abc import Iterable

from scalecurve_api.text import did_you_mean


def folded(name: str) -> str:
    """Only lowercase letters and digits."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def known_as(name_typed: str, names_known: Iterable[str]) -> str | None:
    """The matching name: an exact match, or the only one that differs in case and punctuation."""
    names = list(names_known)
    if name_typed in names:
        return name_typed
    alike = [name for name in names if folded(name) == folded(name_typed)] if folded(name_typed) else []
    return alike[0] if len(alike) == 1 else None


def unknown(kind: str, name: str, allowed: Iterable[str]) -> str:
    """One line for an unknown name, with the nearest known one."""
    names = list(allowed)
    near = did_you_mean(name, names)
    hint = f"; did you mean {near!r}?" if near else ""
    return f"{kind} {name!r} is unknown{hint} (known: {', '.join(names)})"
