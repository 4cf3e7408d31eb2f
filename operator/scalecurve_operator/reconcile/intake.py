"""How records are read: a few at a time, so that their payloads fit the operator's memory, and judged apart from it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from scalecurve_operator.reconcile.judge_process import Judges

SMALL_BYTES = 1 << 20
"""Up to this size a record is read beside others; larger ones one after the other"""
_SMALL_AT_ONCE = 8
_LEAST_LARGE_BYTES = 16 << 20


class PayloadBudget:
    """Bounds the memory for the payloads of records that are being read, judged and stored; ``judges`` take them."""

    def __init__(self, judges: Judges | None = None) -> None:
        self.judges = judges or Judges()
        self._small, self._large = asyncio.Semaphore(_SMALL_AT_ONCE), asyncio.Semaphore(1)

    @asynccontextmanager
    async def place(self, size: int, record_bytes: int) -> AsyncIterator[int]:
        """Wait for a place for a record of ``size`` bytes, and yield the most bytes that it may have.

        ``record_bytes`` is the budget that workers are told; rank records may exceed it.
        """
        if size <= SMALL_BYTES:
            async with self._small:
                yield SMALL_BYTES
        else:
            async with self._large:
                yield max(_LEAST_LARGE_BYTES, 2 * record_bytes)
