"""What each rank puts into a collective, element by element, and what every rank must get out of it.

Small whole numbers, which every element type and every order of summation holds exactly. Indices are arrays or numbers.
"""

from typing import Any

from scalecurve_api.features.collectives.kinds import Collective

UNTOUCHED = -1
"""What nothing puts in: a result that still has it was not written."""


def put_in(collective: Collective, index: Any, rank: int, world: int, share: int) -> Any:
    """Return the elements at ``index`` that ``rank`` sends; ``share`` is one rank's part of a message for all."""
    if collective in (Collective.all_reduce, Collective.reduce_scatter):
        return contribution(index, rank, world)
    if collective is Collective.all_gather:
        return marked(rank * share + index, rank)
    if collective is Collective.broadcast and rank != 0:
        return index * 0 + UNTOUCHED
    return marked(index, rank)


def got_out(collective: Collective, index: Any, rank: int, world: int, share: int) -> Any:
    """Return the elements at ``index`` that ``rank`` must have afterwards."""
    if collective is Collective.all_reduce:
        return total(index, world)
    if collective is Collective.reduce_scatter:
        return total(rank * share + index, world)
    if collective is Collective.all_gather:
        return marked(index, index // share)
    if collective is Collective.all_to_all:
        return marked(rank * share + index % share, index // share)
    return marked(index, 0 if collective is Collective.broadcast else (rank - 1) % world)


def contribution(index: Any, rank: int, world: int) -> Any:
    """Return a rank's elements at ``index``: a weight where the rank takes part, else 0."""
    return ((index + rank) % world < 1 + index % min(16, world)) * _weight(index)


def total(index: Any, world: int) -> Any:
    """Return their sum over all ranks: at most 16 of them take part, whatever the world size."""
    return (1 + index % min(16, world)) * _weight(index)


def marked(index: Any, rank: Any) -> Any:
    """Return elements that tell their origin: they differ at the next index, and on the next rank."""
    return (index + 7 * rank) % 251


def _weight(index: Any) -> Any:
    # At most 5 * 16 = 80: exact in bfloat16, in any order of summation.
    return 1 + index % 5
