"""Writes a rank's files, and sends those of all ranks through rank 0's log where pods share no folder."""

import gzip
import os
import struct
import sys
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from scalecurve_api.contract import (
    ATTEMPT_ENV,
    BUDGET_ENV,
    PODS_ENV,
    RESULTS_ENV,
    TRIAL_FILE,
    failure_file,
    journal_file,
    rank_file,
    ready_file,
    trace_file,
)
from scalecurve_api.files import Within, write_atomic
from scalecurve_api.model import Model, canonical_json
from scalecurve_api.record.envelope import seal
from scalecurve_api.record.journal import StepRow, pack_row, write_header
from scalecurve_api.record.log_lines import frame
from scalecurve_api.record.rank import RankRecord, RankTopology
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_worker.process.failure import WorkloadError
from scalecurve_worker.process.trial_spec import out_folder
from scalecurve_worker.rendezvous.communicator import Communicator

# Where no budget is set. Kubelets cut a log at 10 MiB by default, the record's base64 and the program's own output
# included, and only what is behind the last cut can be read.
BUDGET = 4 << 20
_LENGTH = struct.Struct("<Q")


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
            write_atomic(self._folder / name, _wire(value))


def publish(trial: TrialSpec, records: Sequence[RankRecord], out: Path | None, communicator: Communicator) -> None:
    """Gather records and journals of all ranks; rank 0 prints them, and stores them where there is a claim.

    ``records`` are those that this process keeps: one, or one for each worker that it drives.
    """
    gathered = communicator.gather(_pack([(record, _steps(record, out)) for record in records]))
    if gathered:
        _send(trial, [pair for data in gathered for pair in _unpack(data)])
    # Nobody prints, or ends, before the record is out.
    communicator.barrier()


def _steps(record: RankRecord, out: Path | None) -> bytes:
    journal = out / journal_file(record.topology.rank) if out else None
    return journal.read_bytes() if journal and journal.exists() else b""


def _send(trial: TrialSpec, records: Sequence[tuple[RankRecord, bytes]]) -> None:
    ranks = {record.topology.rank: record for record, _ in records}
    journals = {record.topology.rank: steps for record, steps in records if steps}
    attempt = number(ATTEMPT_ENV, 1)
    _store(trial, attempt, ranks, journals)
    payload = seal(trial.name, attempt, ranks, journals, number(BUDGET_ENV, BUDGET))
    sys.stdout.flush()
    print_lines(frame(payload))


def print_lines(lines: Iterable[str]) -> None:
    """Write each line at once, past Python's buffers: a pipe takes each whole, between the lines of other processes."""
    for line in lines:
        data = f"{line}\n".encode()
        while data:
            data = data[os.write(1, data) :]


def number(name: str, default: int) -> int:
    """Read a count from an environment variable.

    Raises:
        WorkloadError: the value is not a whole number.
    """
    text = os.environ.get(name, "").strip()
    if not text:
        return default
    if not text.isdigit():
        raise WorkloadError(f"{name}={text!r}: expected a whole number")
    return int(text)


def _store(trial: TrialSpec, attempt: int, ranks: dict[int, RankRecord], journals: dict[int, bytes]) -> None:
    claim = os.environ.get(RESULTS_ENV, "").strip()
    if not claim:
        return
    folder = Within(Path(claim)) / f"{trial.name}-a{attempt}"
    files = {journal_file(rank): data for rank, data in journals.items()}
    files |= {rank_file(rank): _wire(record) for rank, record in ranks.items()}
    files[TRIAL_FILE] = canonical_json(trial.wire()).encode()
    try:
        folder.make()
        for name, data in files.items():
            (folder / name).write(data)
    except OSError as error:
        # The record still goes through the log: a full claim costs no trial.
        print(f"scalecurve: {RESULTS_ENV}={claim}: cannot be written: {error.strerror}", file=sys.stderr, flush=True)


def keep_trace(file: Path, trial: str, rank: int) -> bool:
    """Compress a rank's trace to where its engine takes it from, a pod's to its claim; whether it could."""
    claim = os.environ.get(RESULTS_ENV, "").strip()
    out = None if os.environ.get(PODS_ENV) else out_folder()
    folder = Within(Path(claim)) / f"{trial}-a{number(ATTEMPT_ENV, 1)}" if claim else Within(out) if out else None
    if folder is None:
        return False
    try:
        folder.make()
        (folder / trace_file(rank)).write(gzip.compress(file.read_bytes(), compresslevel=5, mtime=0))
    except OSError as error:
        print(f"scalecurve: {trace_file(rank)}: cannot be written: {error.strerror}", file=sys.stderr, flush=True)
        return False
    return True


def _pack(records: Sequence[tuple[RankRecord, bytes]]) -> bytes:
    parts = [part for record, steps in records for part in (_wire(record), steps)]
    return zlib.compress(b"".join(_LENGTH.pack(len(part)) + part for part in parts), 1)


def _unpack(data: bytes) -> list[tuple[RankRecord, bytes]]:
    packed, at = zlib.decompress(data), 0
    parts: list[bytes] = []
    while at < len(packed):
        begin = at + _LENGTH.size
        at = begin + _LENGTH.unpack_from(packed, at)[0]
        parts.append(packed[begin:at])
    return [(RankRecord.model_validate_json(wire), steps) for wire, steps in zip(parts[::2], parts[1::2], strict=True)]


def _wire(value: Model) -> bytes:
    return value.model_dump_json(by_alias=True, exclude_none=True).encode()
