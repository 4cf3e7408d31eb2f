"""Combinations of axes without the excluded ones: counted without expanding, expanded without trying them all.

Both are searches over rules, hard in theory (rules can spell any SAT formula) and instant on what people write: values
excluded by themselves go first, axes that no rule ties together are counted apart and multiplied, and of what is left
the values that no rule names are counted as one.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import prod

from scalecurve_api.planning.axes import same_value
from scalecurve_api.spec.experiment import AxisValue

Rule = Mapping[str, AxisValue]
Axes = Mapping[str, Sequence[AxisValue]]

_SMALL = 4096  # below this number of combinations walking is faster than counting first
_WORK = 300_000  # rules tried in one search, a second or two; real exclusions need a few thousand


class EntangledRulesError(ValueError):
    """Rules that tie so many axes together that their combinations cannot be counted in reasonable time."""


class _Search:
    def __init__(self) -> None:
        self.left = _WORK

    def spend(self, work: int) -> None:
        self.left -= work
        if self.left < 0:
            raise EntangledRulesError("the exclusions tie too many axes together to be counted")


def distinct(values: Sequence[AxisValue]) -> list[AxisValue]:
    """Each value once, in order."""
    # True == 1 == 1.0 in Python; as axis values they are three.
    return list({(type(value), value): value for value in values}.values())


def narrowed(rules: Sequence[Rule], chosen: Rule) -> list[Rule]:
    """The rules that ``chosen`` does not contradict, without what it already satisfies; an empty one is broken."""
    return [
        {key: value for key, value in rule.items() if key not in chosen}
        for rule in rules
        if rule and all(key not in chosen or same_value(value, chosen[key]) for key, value in rule.items())
    ]


def count(axes: Axes, rules: Sequence[Rule], bound: int | None = None, search: _Search | None = None) -> int:
    """Number of combinations that no rule excludes; beyond ``bound`` it is only known to be larger.

    Raises:
        EntangledRulesError: when that takes too long to find out.
    """
    search = search or _Search()
    search.spend(1 + len(rules))
    rules = [rule for rule in rules if rule.keys() <= axes.keys()]
    if not all(rules):
        return 0
    alone = [rule for rule in rules if len(rule) == 1]
    axes = {name: [v for v in values if not _is_named(name, v, alone)] for name, values in axes.items()}
    tied = [
        rule
        for rule in rules
        if len(rule) > 1 and all(any(same_value(value, v) for v in axes[key]) for key, value in rule.items())
    ]
    total = 1
    for group in _groups(axes, tied):
        inside = {name: axes[name] for name in group}
        total *= _count_tied(inside, [rule for rule in tied if rule.keys() <= group], bound, search)
        if not total:
            break
    return total


def expand(axes: Axes, rules: Sequence[Rule]) -> Iterator[dict[str, AxisValue]]:
    """Every combination that no rule excludes, the last axis varying fastest.

    Raises:
        EntangledRulesError: when that takes too long to find out.
    """
    search = _Search()
    return _expand(axes, rules, search) if count(axes, rules, 0, search) else iter(())


def _expand(axes: Axes, rules: Sequence[Rule], search: _Search) -> Iterator[dict[str, AxisValue]]:
    if not all(rules):
        return
    if not axes:
        yield {}
        return
    name, *others = axes
    rest = {other: axes[other] for other in others}
    for value in axes[name]:
        left = narrowed(rules, {name: value})
        if left and prod(map(len, rest.values())) > _SMALL and not count(rest, left, 0, search):
            continue
        for combination in _expand(rest, left, search):
            yield {name: value, **combination}


def _count_tied(axes: Axes, rules: Sequence[Rule], bound: int | None, search: _Search) -> int:
    if not rules:
        return prod(map(len, axes.values()))
    mentions = Counter(key for rule in rules for key in rule)
    name = min(axes, key=lambda axis: (len(axes[axis]), -mentions[axis]))  # where it fails, it fails soonest
    rest = {other: values for other, values in axes.items() if other != name}
    named = [value for value in axes[name] if _is_named(name, value, rules)]
    total = 0
    if free := len(axes[name]) - len(named):
        total = free * count(rest, [rule for rule in rules if name not in rule], bound, search)
    for value in named:
        if bound is not None and total > bound:
            break
        total += count(rest, narrowed(rules, {name: value}), bound, search)
    return total


def _groups(axes: Axes, rules: Sequence[Rule]) -> list[set[str]]:
    """Axes that rules tie together, directly or through others."""
    groups: list[set[str]] = [{name} for name in axes]
    for rule in rules:
        tied = [group for group in groups if group & rule.keys()]
        groups = [group for group in groups if not group & rule.keys()] + [set().union(*tied)]
    return groups


def _is_named(name: str, value: AxisValue, rules: Sequence[Rule]) -> bool:
    return any(name in rule and same_value(rule[name], value) for rule in rules)
