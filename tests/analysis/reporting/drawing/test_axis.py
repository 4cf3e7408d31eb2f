import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from scalecurve.reporting.drawing import axis, scales
from scalecurve.reporting.theme import PALETTE, style
from scalecurve.statistics.estimate import Estimate, Method


@given(st.lists(st.integers(1, 65536), min_size=1, max_size=64))
def test_few_worker_counts_are_labelled_and_all_of_them_are_real(counts: list[int]):
    kept = axis.thinned(counts)
    assert kept
    assert set(kept) <= set(counts)
    assert len(kept) <= axis.MOST_TICKS
    assert kept == sorted(set(kept))


def test_every_log_axis_says_so_once() -> None:
    axes = Figure().add_subplot()
    axis.log_axis(axes, "y", 1, 100)
    axis.linear_axis(axes, "x", 0, 10)
    axes.set_ylabel("Throughput")
    axes.set_xlabel("Epoch")
    for _ in range(2):
        axis.mark_logarithms(axes)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("Epoch", "Throughput (log scale)")


@pytest.mark.parametrize(
    ("low", "high", "label", "expected", "first"),
    [
        (1.1e-5, 1.4e-5, "Cost per epoch (USD)", "Cost per epoch (10⁻⁵ USD)", "1.1"),
        (2.1e10, 9e10, "Parameters", "Parameters (10¹⁰)", "2"),
        (0.02, 0.4, "Cost per epoch (USD)", "Cost per epoch (USD)", "0.02"),
        (1e-9, 1e-2, "Loss", "Loss", "10⁻⁹"),
    ],
)
def test_a_power_of_ten_stands_in_the_unit(low: float, high: float, label: str, expected: str, first: str) -> None:
    axes = Figure().add_subplot()
    axis.log_axis(axes, "y", low, high, axis.short)
    axes.set_ylabel(label)
    beside = axes.figure.add_subplot()
    axis.log_axis(beside, "y", low, high, axis.short)
    axis.factor_powers_of_ten([axes, beside])
    assert axes.get_ylabel() == expected
    assert beside.get_ylabel() == ""
    for panel in (axes, beside):
        assert panel.yaxis.get_major_formatter().seq[0] == first


def test_a_speed_up_is_no_power_of_ten() -> None:
    axes = Figure().add_subplot()
    axis.fixed_ticks(axes, "y", [1, 2], ["1×", "2×"])
    axes.set_ylabel("Speed-up")
    axis.factor_powers_of_ten([axes])
    assert axes.get_ylabel() == "Speed-up"


def test_the_label_of_a_category_is_whole() -> None:
    assert axis.folded("reduction-to-one-device") == "reduction-to-\none-device"
    assert axis.folded("") == ""


def test_powers_of_two_stay():
    assert set(axis.thinned(range(1, 17))) >= {1, 2, 4, 8, 16}


@given(st.floats(1e-12, 1e12), st.floats(1.01, 1e9))
def test_log_ticks_lie_inside_and_are_few(low: float, ratio: float):
    high = low * ratio
    ticks = axis.round_ticks(low, high)
    assert 1 <= len(ticks) <= 9
    assert all(low * (1 - 1e-9) <= tick <= high * (1 + 1e-9) for tick in ticks)


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9))
def test_linear_ticks_lie_inside_and_are_few(low: float, width: float):
    ticks = axis.linear_ticks(low, low + width)
    if width > 1e-6 * abs(low):
        assert len(ticks) <= 12
        assert all(low - width * 1e-6 <= tick <= low + width * (1 + 1e-6) for tick in ticks)


@pytest.mark.parametrize(("last", "ticks"), [(1, [0, 1]), (7, list(range(8))), (10, [0, 2, 4, 6, 8, 10])])
def test_epochs_are_whole(last: int, ticks: list[int]):
    assert axis.whole_ticks(last) == ticks


def test_series_are_told_apart_without_colour():
    looks = [style(index) for index in range(28)]
    assert len({look.color for look in looks[: len(PALETTE)]}) == len(PALETTE)
    assert len({(look.marker, str(look.line)) for look in looks}) == len(looks)


@pytest.mark.parametrize(
    ("value", "label"),
    [
        (0, "0"),
        (0.25, "0.25"),
        (100_000, "100,000"),
        (0.00025, "0.00025"),
        (1e6, "10⁶"),
        (2.5e7, "2.5×10⁷"),
        (5e-7, "5×10⁻⁷"),
        (1e-7, "10⁻⁷"),
        (-20, "-20"),
    ],
)
def test_a_tick_that_would_not_fit_is_a_power_of_ten(value: float, label: str):
    assert axis.short(value) == label


def estimate(value: float, low: float, high: float) -> Estimate:
    return Estimate(value, low, high, 0.95, Method.WELCH, 3)


def test_no_interval_stretches_an_axis_until_the_curve_lies_flat():
    heights, cut = scales.in_sight([estimate(1, 1, 1), estimate(0.5, 0.0001, 3000)])
    assert (min(heights), max(heights), cut) == (pytest.approx(0.5 / 3), 3, True)
    heights, cut = scales.in_sight([estimate(1, 1, 1), estimate(0.8, 0.7, 0.9)])
    assert (min(heights), max(heights), cut) == (0.7, 1, False)


def test_one_value_has_room_and_ticks_that_can_be_read() -> None:
    axes = Figure().add_axes((0, 0, 1, 1))
    axis.linear_axis(axes, "y", 0.1286, 0.1286, axis.short)
    low, high = axes.get_ylim()
    assert low < 0.1286 < high
    assert len({text.get_text() for text in axes.get_yticklabels()}) >= 3


def test_lines_stand_beside_each_other_whatever_the_scale() -> None:
    axes = Figure().add_axes((0, 0, 1, 1))
    axis.workers_axis(axes, [1, 2, 4])
    first, second = (axis.dodged(axes, 2, order, 2) for order in (0, 1))
    assert first < 2 < second
    assert first * second == pytest.approx(4)
    assert axis.dodged(axes, 2, 0, 1) == pytest.approx(2)
