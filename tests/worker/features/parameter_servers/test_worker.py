from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scalecurve_worker.features.parameter_servers.worker import shares


@given(elements=st.integers(0, 10_000), servers=st.integers(1, 300))
def test_shares_cover_everything_once_and_evenly(elements: int, servers: int) -> None:
    cuts = shares(elements, servers)
    assert [begin for begin, _ in cuts] == [0, *(end for _, end in cuts[:-1])]
    assert cuts[-1][1] == elements
    sizes = {end - begin for begin, end in cuts}
    assert max(sizes) - min(sizes) <= 1
