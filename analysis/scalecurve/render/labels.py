"""Short series labels: with many axes, only what differs from the first series."""

import re
from collections.abc import Iterable, Mapping, Sequence

MOST_AXES = 2  # as many axes as a reader can follow along a line; names with more are shortened

_AXIS = re.compile(r'(?:^|(?<= ))([A-Za-z][\w.]*)=("(?:[^"\\]|\\.)*"|\S+)')


def shortened(names: Iterable[str]) -> tuple[dict[str, str], str]:
    """``(name -> what to show, a note of what is omitted)``; the same names and "" where that would not help."""
    distinct = list(dict.fromkeys(names))
    axes = [dict[str, str](_AXIS.findall(name)) for name in distinct]
    usual = usual_values(axes)
    if not usual:
        return {name: name for name in distinct}, ""
    told = ", ".join(f"{axis}={value}" for axis, value in usual.items())
    without = {
        name: _AXIS.sub(lambda match: "" if usual[match[1]] == match[2] else match[0], name) for name in distinct
    }
    shown = {name: " ".join(rest.split()) or "plain" for name, rest in without.items()}
    return shown, f"Series names show only what differs from {told}."


def brief(names: Sequence[str], modes: Sequence[str]) -> dict[str, str]:
    """name -> the least that tells the series apart: no mode that all share, no usual values, no folder of an axis.

    ``modes`` are those of the names, in their order.
    """
    short, _ = shortened(names)
    terse = drop_folders(short.values())
    shown = {name: terse[short[name]] for name in names}
    if len(set(modes)) > 1:
        return shown
    mode = modes[0] if modes else ""
    return {name: text.removeprefix(mode).strip() or text for name, text in shown.items()}


def drop_folders(names: Iterable[str]) -> dict[str, str]:
    """name -> the name with ``updates=…`` for ``parameterServer.updates=…``, where that is clear among these names.

    ``optimizer.name=…`` becomes ``optimizer=…``.
    """
    names = list(names)
    tails = {axis: axis.removesuffix(".name").rpartition(".")[2] for name in names for axis, _ in _AXIS.findall(name)}
    clear = {axis: tail for axis, tail in tails.items() if list(tails.values()).count(tail) == 1}
    return {name: _AXIS.sub(lambda match: f"{clear.get(match[1], match[1])}={match[2]}", name) for name in names}


def usual_values(axes: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """The first value of every axis, which need not be said; empty where names are short, or have not the same axes.

    Different names stay different without them: they differ in an axis, and at most one of them has its first value.
    """
    first = dict(axes[0]) if axes else {}
    alike = all(axis.keys() == first.keys() for axis in axes)
    return first if alike and len(axes) > 1 and len(first) > MOST_AXES else {}
