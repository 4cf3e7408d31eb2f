import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalecurve_api.planning.combinations import EntangledRulesError, count, distinct, expand, narrowed

NAMES = "abcde"
VALUES: st.SearchStrategy[Any] = st.sampled_from([0, 1, 2, True, False, "1", "x", 1.5])


@st.composite
def searches(draw: st.DrawFn) -> tuple[dict[str, list[Any]], list[dict[str, Any]]]:
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=5))
    axes = {name: distinct(draw(st.lists(VALUES, min_size=1, max_size=4))) for name in names}
    if not names:
        return axes, []
    rule = st.dictionaries(st.sampled_from(names), VALUES, min_size=1, max_size=4)
    return axes, draw(st.lists(rule, max_size=12))


def by_force(axes: dict[str, list[Any]], rules: list[dict[str, Any]]) -> list[dict[str, Any]]:
    def same(a: object, b: object) -> bool:
        return a == b and isinstance(a, bool) == isinstance(b, bool)

    whole = (dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values()))
    return [c for c in whole if not any(all(same(rule[key], c[key]) for key in rule) for rule in rules)]


@settings(max_examples=150)
@given(searches())
def test_counting_and_expanding_agree_with_trying_everything(search: tuple[Any, Any]) -> None:
    axes, rules = search
    expected = by_force(axes, rules)
    assert [[*map(repr, c.items())] for c in expand(axes, rules)] == [[*map(repr, c.items())] for c in expected]
    assert count(axes, rules) == len(expected)


@given(searches(), st.integers(0, 20))
def test_a_bounded_count_is_exact_up_to_its_bound(search: tuple[Any, Any], bound: int) -> None:
    axes, rules = search
    exact, bounded = count(axes, rules), count(axes, rules, bound)
    assert bounded == exact if exact <= bound else bounded > bound


def test_values_of_different_types_are_different_values() -> None:
    assert distinct([1, True, 1.0, "1", 1, True]) == [1, True, 1.0, "1"]


def test_an_empty_rule_left_over_means_broken() -> None:
    assert narrowed([{"a": 1}, {"a": 2}, {"a": 1, "b": 3}], {"a": 1}) == [{}, {"b": 3}]
    assert count({"b": [3]}, [{}]) == 0
    assert list(expand({"b": [3]}, [{}])) == []


# What would be counted one by one takes longer than any test's timeout.
TEN = {f"axis{i}": list(range(10)) for i in range(12)}


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ([], 10**12),
        ([{"axis0": 1}, {"axis11": 2}], 9**2 * 10**10),
        ([{f"axis{i}": 0, f"axis{i + 1}": 0} for i in range(0, 12, 2)], 99**6),
        ([{name: 0 for name in TEN}], 10**12 - 1),
        ([{f"axis{i}": j, f"axis{i + 1}": k} for i in range(0, 12, 2) for j in range(9) for k in range(9)], 19**6),
        ([{name: value} for name in TEN for value in range(1, 10)], 1),
        # One axis has nothing left, and the others are tied in pairs: seen to take for ever when counted in order.
        ([{f"axis{i}": j, f"axis{i + 1}": j} for i in range(0, 10, 2) for j in range(10)]
         + [{"axis11": j} for j in range(10)], 0),
    ],
)  # fmt: skip
def test_counting_a_million_million_is_instant(rules: list[dict[str, int]], expected: int) -> None:
    assert count(TEN, rules) == expected


def test_rules_too_entangled_to_count_are_given_up_soon() -> None:
    # Twelve pigeons in eleven holes, the textbook case that every such search is slow on.
    holes = {f"axis{i}": list(range(11)) for i in range(12)}
    rules = [{one: hole, two: hole} for one, two in itertools.combinations(holes, 2) for hole in range(11)]
    with pytest.raises(EntangledRulesError, match="too many axes together"):
        count(holes, rules)


def test_expanding_few_of_a_million_million_is_quick() -> None:
    rules = [{name: value} for name in TEN for value in range(1, 10)]
    assert list(expand(TEN, rules)) == [dict.fromkeys(TEN, 0)]


def test_expanding_does_not_walk_into_dead_ends() -> None:
    # The last two axes leave nothing together, whatever comes before them.
    rules = [{"axis10": j, "axis11": k} for j in range(10) for k in range(10)]
    assert list(expand(TEN, rules)) == []
