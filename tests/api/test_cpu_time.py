from __future__ import annotations

import pytest

from scalecurve_api.record.cpu_time import cpu_time

STAT = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 100 20 30 999 999 50 60 5 0 0\ncpu1 1 2 3 4 5 6 7 8 0 0\nintr 12\n"


def test_waiting_and_interrupts_are_not_busy_and_steal_is_apart() -> None:
    assert cpu_time(STAT, [0], 100) == pytest.approx((1.5, 0.05))
    assert cpu_time(STAT, [0, 1], 100) == pytest.approx((1.56, 0.13))


def test_a_core_that_is_not_listed() -> None:
    assert cpu_time(STAT, [7], 100) is None
    assert cpu_time("", [], 100) is None
