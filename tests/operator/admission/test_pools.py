"""Who may run trials now: the rule."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scalecurve_operator.admission import pools
from scalecurve_operator.admission.pools import PoolEntry
from scalecurve_operator.cache.cached_objects import Key

ENTRIES = st.lists(
    st.builds(
        PoolEntry,
        st.integers(0, 30).map(lambda number: Key("ns", f"e{number:02}")),
        st.sampled_from(["2026-11-21T10:00:00Z", "2026-11-21T10:00:01Z", "2026-11-21T10:00:02Z"]),
        st.booleans(),
        st.booleans(),
        st.booleans(),
    ),
    max_size=12,
    unique_by=lambda entry: entry.key,
)


@given(ENTRIES, st.integers(1, 5))
def test_places_are_given_first_come_first_served(entries: list[PoolEntry], slots: int) -> None:
    allowed = pools.admitted(entries, slots)
    inside = {e.key for e in entries if e.busy or (e.admitted and e.active)}
    kept = {e.key for e in entries if e.active and (e.busy or e.admitted)}
    waiting = sorted((e for e in entries if e.active and not (e.busy or e.admitted)), key=lambda e: (e.created, e.key))
    assert kept <= allowed <= {e.key for e in entries if e.active}, "nobody is put out, and nobody in who does not want"
    assert len(inside | allowed) <= max(slots, len(inside)), "no more than there are places, but for who is in already"
    let_in = [e.key in allowed for e in waiting]
    assert let_in == sorted(let_in, reverse=True), "nobody overtakes"
    assert all(let_in) or len(inside | allowed) >= slots, "nobody waits while there is room"
    assert pools.admitted(entries[::-1], slots) == allowed
    for before, entry in enumerate(e for e in waiting if e.key not in allowed):
        assert pools.waiting(entries, allowed).index(entry.key) == before


@given(ENTRIES, st.integers(1, 5))
def test_a_suspended_one_without_jobs_takes_no_place(entries: list[PoolEntry], slots: int) -> None:
    idle = PoolEntry(Key("ns", "suspended"), "2026-11-21T09:00:00Z", True, False, False)
    assert pools.admitted([idle, *entries], slots) == pools.admitted(entries, slots)
