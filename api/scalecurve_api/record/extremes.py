"""Many step journals -> two that always fit, the slowest and the median rank of every step; and the step times."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from scalecurve_api.record import journal
from scalecurve_api.record.trial_record import StepTimes

if TYPE_CHECKING:
    import numpy as np

SLOWEST = -1  # stands for a rank in a mapping of journals: at each step the row of the rank that took longest
MEDIAN = -2  # likewise the row of the rank in the middle; of two in the middle, the faster

NAMES = {SLOWEST: "slowest", MEDIAN: "median"}


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
        key: journal.HEADER.pack(journal.MAGIC, key & 0xFFFFFFFF, journal.ROW.size) + _pick(tables, order[place])
        for key, place in ((SLOWEST, -1), (MEDIAN, (len(order) - 1) // 2))
    }


def _pick(tables: Sequence[np.ndarray], owners: np.ndarray) -> bytes:
    import numpy as np

    picked = np.empty(len(owners), dtype=tables[0].dtype)
    for owner in np.unique(owners):
        mine = owners == owner
        picked[mine] = tables[owner][mine]
    return bytes(picked.tobytes())


def slowest_step_times(journals: Mapping[int, bytes], windows: Collection[int]) -> StepTimes | None:
    """Times of the slowest rank over the steps of ``windows`` that every rank recorded; None where there are none."""
    if not journals:
        return None
    import numpy as np

    steps: np.ndarray | None = None
    slowest: np.ndarray | None = None
    for data in journals.values():
        rows = np.frombuffer(journal.body(data), dtype=np.dtype(journal.ROW_DTYPE))
        rows = rows[np.isin(rows["window"], list(windows))]
        if steps is None or slowest is None:
            steps, first = np.unique(rows["step"], return_index=True)
            slowest = rows["duration_ns"][first]
        else:
            steps, mine, others = np.intersect1d(steps, rows["step"], return_indices=True)
            slowest = np.maximum(slowest[mine], rows["duration_ns"][others])
    if slowest is None or not len(slowest):
        return None
    seconds = slowest / 1e9
    median, p95, p99 = (float(value) for value in np.quantile(seconds, [0.5, 0.95, 0.99]))
    return StepTimes(
        count=len(seconds), mean=float(seconds.mean()), median=median, p95=p95, p99=p99, maximum=float(seconds.max())
    )
