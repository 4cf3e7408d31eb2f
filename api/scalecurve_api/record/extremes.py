"""Many step journals -> two that always fit: the slowest and the median rank of every step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from scalecurve_api.record import journal

if TYPE_CHECKING:
    import numpy as np

SLOWEST = -1
"""Stands for a rank in a mapping of journals: at each step the row of the rank that took longest."""

MEDIAN = -2
"""Likewise the row of the rank in the middle; of two in the middle, the faster."""

NAMES = {SLOWEST: "slowest", MEDIAN: "median"}
_RANK_FIELD = 0xFFFFFFFF


def extremes(journals: Mapping[int, bytes]) -> dict[int, bytes]:
    """Over the steps that every journal has: one journal under ``SLOWEST`` and one under ``MEDIAN``.

    Ranks that end a step together are told apart by their number, so that the result depends on the rows alone.
    Empty where no step is in every journal.

    Raises:
        JournalError: when a journal is foreign.
    """
    if not journals:
        return {}
    import numpy as np

    tables: list[np.ndarray] = []
    common: np.ndarray | None = None
    for rank in sorted(journals):
        journal.read_rank(journals[rank], f"journal of rank {rank}")
        rows = np.frombuffer(journal.body(journals[rank]), dtype=np.dtype(journal.ROW_DTYPE))
        steps, first = np.unique(rows["step"], return_index=True)
        tables.append(rows[first])
        common = steps if common is None else np.intersect1d(common, steps, assume_unique=True)
    if common is None or not len(common):
        return {}
    tables = [rows if len(rows) == len(common) else rows[np.isin(rows["step"], common)] for rows in tables]
    order = np.argsort(np.stack([rows["duration_ns"] for rows in tables]), axis=0, kind="stable")
    return {
        key: _header(key) + _pick(tables, order[place])
        for key, place in ((SLOWEST, -1), (MEDIAN, (len(order) - 1) // 2))
    }


def _header(key: int) -> bytes:
    return journal.HEADER.pack(journal.MAGIC, key & _RANK_FIELD, journal.ROW.size)


def _pick(tables: Sequence[np.ndarray], owners: np.ndarray) -> bytes:
    import numpy as np

    picked = np.empty(len(owners), dtype=tables[0].dtype)
    for owner in np.unique(owners):
        mine = owners == owner
        picked[mine] = tables[owner][mine]
    return bytes(picked.tobytes())
