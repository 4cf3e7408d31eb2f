"""What ranks put into a collective makes what every rank must get, by a simulation of the collective itself."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scalecurve_api.features.collectives.kinds import Collective
from scalecurve_worker.features.collectives.results import UNTOUCHED, contribution, got_out, put_in, total


@given(st.integers(0, 10**12), st.integers(1, 200))
def test_contributions_of_all_ranks_make_the_total(index: int, world: int) -> None:
    found = sum(contribution(index, rank, world) for rank in range(world))
    assert found == total(index, world)
    assert 0 < found <= 80


@given(st.sampled_from(Collective), st.integers(2, 9), st.integers(1, 40))
def test_what_is_put_in_is_what_must_come_out(kind: Collective, world: int, share: int) -> None:
    count = share * world
    sent = [
        put_in(kind, np.arange(kind.sent(count, world)), rank, world, share) * np.ones(1, dtype=int)
        for rank in range(world)
    ]
    for rank, received in enumerate(carried_out(kind, sent, share)):
        right = got_out(kind, np.arange(kind.received(count, world)), rank, world, share)
        np.testing.assert_array_equal(received, right)
        assert (right != UNTOUCHED).all()
        assert right.max() <= 256, "exact in bfloat16"


@given(st.sampled_from([Collective.all_gather, Collective.all_to_all, Collective.send_recv]), st.integers(2, 9))
def test_a_share_of_another_rank_is_noticed(kind: Collective, world: int) -> None:
    share = 5
    count = share * world
    sent = [put_in(kind, np.arange(kind.sent(count, world)), rank, world, share) for rank in range(world)]
    received = carried_out(kind, [*sent[1:], sent[0]], share)[0]
    assert (received != got_out(kind, np.arange(kind.received(count, world)), 0, world, share)).any()


def carried_out(kind: Collective, sent: list[np.ndarray], share: int) -> list[np.ndarray]:
    world = len(sent)
    parts = {rank: slice(rank * share, (rank + 1) * share) for rank in range(world)}
    if kind is Collective.all_reduce:
        return [np.sum(sent, axis=0)] * world
    if kind is Collective.reduce_scatter:
        return [np.sum(sent, axis=0)[parts[rank]] for rank in range(world)]
    if kind is Collective.all_gather:
        return [np.concatenate(sent)] * world
    if kind is Collective.all_to_all:
        return [np.concatenate([sent[other][parts[rank]] for other in range(world)]) for rank in range(world)]
    if kind is Collective.broadcast:
        return [sent[0]] * world
    return [sent[rank - 1] for rank in range(world)]
