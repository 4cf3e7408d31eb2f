import pytest

from scalecurve.hardware.devices import find_device
from scalecurve_models.paleo.costs import Rates, costs_of, update_ms
from tests.models.paleo.paleo_rules_cases import K80, network


def test_no_operation_is_shorter_than_a_cycle():
    tiny = network({"name": "d", "type": "dropout", "parents": ["in"]}, shape=(1, 1, 1))
    rates = Rates.of(K80)
    compute, move = costs_of(tiny).forward.layer_times(1, rates)
    assert compute[1] == 1 / 560 / 1e3
    assert move[1] == 2 / 560 / 1e3
    assert update_ms(0, K80) == pytest.approx(3 / 560 / 1e3)


def test_lower_precision_takes_the_other_peak_and_half_the_bytes():
    h200 = find_device("H200")
    full, half = Rates.of(h200), Rates.of(h200, precision="bf16")
    assert half.flop_ms == pytest.approx(full.flop_ms * 66_900 / 989_400)
    assert (full.value_bytes, half.value_bytes) == (4, 2)
