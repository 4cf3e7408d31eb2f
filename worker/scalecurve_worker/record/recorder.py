"""Writes a rank's files: the journal as it runs, everything else atomically."""

import os
from collections.abc import Iterable
from pathlib import Path

from scalecurve_api.contract import failure_file, journal_file, rank_file, ready_file
from scalecurve_api.files import write_atomic
from scalecurve_api.model import Model
from scalecurve_api.record.journal import StepRow, pack_row, write_header
from scalecurve_api.record.rank import RankRecord, RankTopology


class Recorder:
    """The rank's files in one folder; a recorder without a folder writes nothing."""

    def __init__(self, folder: Path | None, rank: int) -> None:
        self._folder = folder
        self._rank = rank
        self._journal = None
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            for name in (rank_file(rank), ready_file(rank), failure_file(rank)):
                (folder / name).unlink(missing_ok=True)
            self._journal = (folder / journal_file(rank)).open("wb")
            write_header(self._journal, rank)
            self._journal.flush()

    def ready(self, topology: RankTopology) -> None:
        self._write(ready_file(self._rank), topology)

    def append(self, rows: Iterable[StepRow]) -> None:
        """Hand finished steps to the kernel: they then outlive this process, however it ends."""
        if self._journal is not None:
            self._journal.write(b"".join(map(pack_row, rows)))
            self._journal.flush()

    def finish(self, record: RankRecord) -> None:
        self.close()
        self._write(rank_file(self._rank), record)

    def close(self) -> None:
        if self._journal is not None:
            os.fsync(self._journal.fileno())
            self._journal.close()
            self._journal = None

    def _write(self, name: str, value: Model) -> None:
        if self._folder is not None:
            write_atomic(self._folder / name, value.model_dump_json(by_alias=True, exclude_none=True))
