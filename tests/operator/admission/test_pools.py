"""Who may run trials now: the rule."""

from __future__ import annotations

from collections import Counter, defaultdict

from hypothesis import given
from hypothesis import strategies as st

from scalecurve_operator import admission
from scalecurve_operator.admission import PoolEntry
from scalecurve_operator.cache.cached_objects import Key

ENTRIES = st.lists(
    st.builds(
        PoolEntry,
        st.builds(Key, st.sampled_from(["ns", "other", "third"]), st.integers(0, 9).map(lambda number: f"e{number}")),
        st.sampled_from(["2026-11-21T10:00:00Z", "2026-11-21T10:00:01Z", "2026-11-21T10:00:02Z"]),
        st.booleans(),
        st.booleans(),
        st.booleans(),
    ),
    max_size=12,
    unique_by=lambda entry: entry.key,
)


TURNS = st.dictionaries(st.sampled_from(["ns", "other", "third"]), st.floats(0, 3))


@given(ENTRIES, st.integers(1, 5), TURNS)
def test_places_are_given_in_turns(entries: list[PoolEntry], slots: int, turns: dict[str, float]) -> None:
    allowed = admission.admitted(entries, slots, turns)
    inside = {e.key for e in entries if e.busy or (e.admitted and e.active)}
    kept = {e.key for e in entries if e.active and (e.busy or e.admitted)}
    waiting = sorted((e for e in entries if e.active and not (e.busy or e.admitted)), key=lambda e: (e.created, e.key))
    assert kept <= allowed <= {e.key for e in entries if e.active}, "nobody is put out, and nobody in who does not want"
    assert len(inside | allowed) <= max(slots, len(inside)), "no more than there are places, but for who is in already"
    for namespace in ("ns", "other", "third"):
        let_in = [e.key in allowed for e in waiting if e.key.namespace == namespace]
        assert let_in == sorted(let_in, reverse=True), "nobody overtakes in its own namespace"
    assert all(e.key in allowed for e in waiting) or len(inside | allowed) >= slots, "nobody waits while there is room"
    assert admission.admitted(entries[::-1], slots, turns) == allowed
    places = Counter(key.namespace for key in inside | allowed)
    for entry in (e for e in waiting if e.key not in allowed):
        new = {e.key.namespace for e in waiting if e.key in allowed}
        assert all(places[other] <= places[entry.key.namespace] + 1 for other in new), (
            "no namespace takes more than its share"
        )


@given(ENTRIES, st.integers(1, 5), TURNS)
def test_a_suspended_one_without_jobs_takes_no_place(
    entries: list[PoolEntry], slots: int, turns: dict[str, float]
) -> None:
    idle = PoolEntry(Key("ns", "suspended"), "2026-11-21T09:00:00Z", True, False, False)
    assert admission.admitted([idle, *entries], slots, turns) == admission.admitted(entries, slots, turns)


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 30)), min_size=1, max_size=30),
    st.integers(1, 3),
)
def test_an_experiment_waits_for_one_of_each_other_namespace_in_each_turn_of_its_own(
    arrivals: list[tuple[str, int]], slots: int
) -> None:
    """One ends at each tick. The bound is of its own namespace's queue, not of the others'."""
    comes = {Key(namespace, f"e{index:02}"): tick for index, (namespace, tick) in enumerate(arrivals)}
    turns: dict[str, float] = defaultdict(float)
    holders: list[Key] = []
    before: dict[Key, int] = {}
    waited: Counter[Key] = Counter()
    for tick in range(100):
        for key in (key for key, when in comes.items() if when == tick):
            before[key] = sum(key.namespace == other.namespace for other in before.keys() - set(holders)) + len(holders)
        del holders[:1]
        entries = [PoolEntry(key, f"{comes[key]:03}", key in holders, True, False) for key in before]
        for key in sorted(admission.admitted(entries, slots, turns) - set(holders)):
            turns[key.namespace] = tick + 1
            holders.append(key)
        before = {key: count for key, count in before.items() if key not in holders}
        waited.update(before.keys())
    assert not before, "everyone had a turn"
    for key, ticks in waited.items():
        own = sum(other.namespace == key.namespace for other in comes)
        assert ticks <= 3 * own + slots


@given(ENTRIES, st.integers(1, 5), TURNS)
def test_one_whose_jobs_all_wait_in_a_queue_takes_no_place(
    entries: list[PoolEntry], slots: int, turns: dict[str, float]
) -> None:
    queued = PoolEntry(Key("ns", "queued"), "2026-11-21T09:00:00Z", True, True, True, queued=True)
    allowed = admission.admitted([queued, *entries], slots, turns)
    assert allowed == admission.admitted(entries, slots, turns) | {queued.key}, "and may go on when it is released"
