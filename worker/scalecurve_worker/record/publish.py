"""Gathers all ranks' records on rank 0 and sends them through its log: pods share no folder."""

import os
import struct
import sys
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from scalecurve_api.contract import ATTEMPT_ENV, BUDGET_ENV, RESULTS_ENV, TRIAL_FILE, journal_file, rank_file
from scalecurve_api.files import write_atomic
from scalecurve_api.model import canonical_json
from scalecurve_api.record.envelope import seal
from scalecurve_api.record.log_lines import frame
from scalecurve_api.record.rank import RankRecord
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_worker.process.failure import WorkloadError
from scalecurve_worker.rendezvous.communicator import Communicator

BUDGET = 4 << 20
"""Where no budget is given. Kubelets cut a log at 10 MiB by default, the record's base64 and the program's own
output included, and only what is behind the last cut can be read."""
_LENGTH = struct.Struct("<Q")


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


def _send(trial: TrialSpec, records: Iterable[tuple[RankRecord, bytes]]) -> None:
    ranks: dict[int, RankRecord] = {}
    journals: dict[int, bytes] = {}
    for record, steps in records:
        ranks[record.topology.rank] = record
        if steps:
            journals[record.topology.rank] = steps
    attempt = number(ATTEMPT_ENV, 1)
    _store(trial, attempt, ranks, journals)
    payload = seal(trial.name, attempt, ranks, journals, number(BUDGET_ENV, BUDGET))
    sys.stdout.flush()
    print_lines(frame(payload))


def print_lines(lines: Iterable[str]) -> None:
    """One write a line, past Python's buffers: a pipe takes each whole, between the lines of other processes."""
    for line in lines:
        data = f"{line}\n".encode()
        while data:
            data = data[os.write(1, data) :]


def number(name: str, default: int) -> int:
    """A count in an environment variable."""
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
    folder = Path(claim, f"{trial.name}-a{attempt}")
    files = {journal_file(rank): data for rank, data in journals.items()}
    files |= {rank_file(rank): _wire(record) for rank, record in ranks.items()}
    files[TRIAL_FILE] = canonical_json(trial.wire()).encode()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            write_atomic(folder / name, data)
    except OSError as error:
        # The record still goes through the log: a full claim costs no trial.
        print(f"scalecurve: {RESULTS_ENV}={claim}: cannot be written: {error.strerror}", file=sys.stderr, flush=True)


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


def _wire(record: RankRecord) -> bytes:
    return record.model_dump_json(by_alias=True, exclude_none=True).encode()
