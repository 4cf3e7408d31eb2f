"""Short series labels: with many axes, only what differs from the first series."""

import re
from collections.abc import Iterable, Mapping, Sequence

MOST_AXES = 2
"""As many axes as a reader can follow along a line; names with more are shortened."""

_AXIS = re.compile(r'(?:^|(?<= ))([A-Za-z][\w.]*)=("(?:[^"\\]|\\.)*"|\S+)')


def shortened(names: Iterable[str]) -> tuple[dict[str, str], str]:
    """``(name -> what to show, a note of what is left out)``; the same names and "" where that would not help."""
    distinct = list(dict.fromkeys(names))
    axes = [dict[str, str](_AXIS.findall(name)) for name in distinct]
    usual = usual_values(axes)
    if not usual:
        return {name: name for name in distinct}, ""
    told = ", ".join(f"{axis}={value}" for axis, value in usual.items())
    return {name: _without(name, usual) for name in distinct}, f"Series names show only what differs from {told}."


def usual_values(axes: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """The first value of every axis, which need not be said; empty where names are short, or have not the same axes.

    Different names stay different without them: they differ in an axis, and at most one of them has its first value.
    """
    first = dict(axes[0]) if axes else {}
    alike = all(axis.keys() == first.keys() for axis in axes)
    return first if alike and len(axes) > 1 and len(first) > MOST_AXES else {}


def _without(name: str, usual: Mapping[str, str]) -> str:
    rest = _AXIS.sub(lambda match: "" if usual[match[1]] == match[2] else match[0], name)
    return " ".join(rest.split()) or "plain"
