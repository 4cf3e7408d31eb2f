import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalecurve_models.paleo.costs import Rates
from scalecurve_models.paleo.scaling import RING, SCHEMES, exchange_ms, tree_height
from tests.models.paleo.paleo_rules_cases import K80, TWENTY


def test_units_are_gib_for_memory_and_decimal_for_the_network():
    rates = Rates.of(K80, ppp=0.5)
    assert rates.byte_ms == pytest.approx(1e3 / (480 * 2**30) / 0.5)
    assert rates.flop_ms == pytest.approx(1e3 / 5600e9 / 0.5)
    assert exchange_ms(2_500_000_000, TWENTY, 2, SCHEMES["butterfly"]) == pytest.approx(1000)


@pytest.mark.parametrize(
    ("workers", "one_to_all", "tree", "butterfly"),
    [(1, 0, 0, 0), (2, 2, 2, 1), (5, 8, 6, 3), (8, 14, 6, 3), (129, 256, 16, 8)],
)
def test_schemes_by_hand(workers, one_to_all, tree, butterfly):
    crossings = [SCHEMES[name].crossings(workers) for name in ("one_to_all", "tree", "butterfly")]
    assert crossings == [one_to_all, tree, butterfly]


@given(st.integers(1, 2**40))
def test_tree_height_is_exact(workers):
    height = tree_height(workers)
    assert 2**height >= workers
    assert height == 0 or 2 ** (height - 1) < workers


@given(st.integers(2, 10**6))
def test_the_ring_never_sends_more_than_twice(workers):
    assert 1 <= RING.crossings(workers) < 2
