"""Which messages the all-reduce microbenchmark sends."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scalecurve_api.features.collectives.fields import Sizes
from scalecurve_worker.features.collectives.benchmark import Messages, message_sizes, row_of, whole_step

ELEMENTS = st.lists(st.integers(1, 10**9), min_size=1, max_size=40)


def test_sizes_by_a_factor_in_whole_elements_as_far_as_they_fit() -> None:
    sizes = Sizes(min_bytes=2, max_bytes=64, factor=3)
    assert message_sizes(sizes, 4, 20) == ([4, 16], [52])
    assert message_sizes(sizes, 8, 1000) == ([8, 16, 48], [])


@given(ELEMENTS, st.integers(1, 8))
def test_a_whole_step_sends_every_message_in_its_order(elements: list[int], granule: int) -> None:
    *alone, step = whole_step(elements, 4 * granule, 4)
    assert [each.sizes for each in alone] == [(size,) for size in sorted(set(step.sizes))]
    for count, size in zip(elements, step.sizes, strict=True):
        assert size % (4 * granule) == 0
        assert 0 <= size - 4 * count < 4 * granule


def test_a_step_of_several_messages_is_one_line() -> None:
    row = row_of(Messages((1000, 3000)), [2000, 1000, 4000], world=4, errors=0)
    assert (row.bytes, row.messages, row.time_us_median, row.algbw, row.busbw) == (4000, 2, 2.0, 2.0, 3.0)
