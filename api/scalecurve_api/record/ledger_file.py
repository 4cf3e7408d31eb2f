"""Write ``ledger.jsonl``: for whoever holds the lock of the bundle. Every entry is on disk before a call returns."""

import errno
import os
import socket
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from scalecurve_api import files
from scalecurve_api.record.ledger import LEDGER_FILE, MAX_LEDGER_BYTES, Entry, Event, plan_digest, read_ledger
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.release import release
from scalecurve_api.spec.trial import TrialSpec

REMOVED = "its record was removed from the bundle after it had ended"


class LedgerFile:
    """The ledger of one bundle, as it is and with what is appended to it."""

    def __init__(self, bundle: Path) -> None:
        """Read it, and cut off a last line that a kill left unfinished.

        Raises:
            OSError: when it cannot be read, or is a link.
        """
        self._place = files.Within(bundle) / LEDGER_FILE
        data = b"" if self._place.status() is None else self._place.read(MAX_LEDGER_BYTES)
        self.ledger = read_ledger(data)
        self._size = data.rfind(b"\n") + 1
        if self._size < len(data):
            self._write(b"")

    def append(self, entry: Entry) -> None:
        """Add a line.

        Raises:
            OSError: when it cannot be written; the file is then as it was.
        """
        line = self.ledger.line(entry, datetime.now(UTC).isoformat(timespec="microseconds"))
        self._write(line)
        self.ledger.add(line)

    def begin(self, experiment: bytes, trials: Iterable[TrialSpec], records: Mapping[str, bytes]) -> None:
        """Note experiment.yaml where it is new or has changed, and adopt the records of a bundle without a ledger.

        ``trials`` are those of one session; ``records`` holds the bytes of ``trial.json`` by trial.
        """
        digest, empty = _sha256(experiment), not self.ledger.lines
        noted = self.ledger.of(Event.experiment, Event.points)
        if not noted or noted[-1].sha256 != digest:
            self.append(Entry(event=Event.experiment, sha256=digest, plan=plan_digest(trials)))
        if empty and records:
            self.append(Entry(event=Event.adopted, records={name: _sha256(data) for name, data in records.items()}))

    def points(
        self, experiment: bytes, trials: Iterable[TrialSpec], workers: Sequence[int], layouts: Sequence[str]
    ) -> None:
        """Note experiment.yaml with further points, before it is written; ``workers`` and ``layouts`` were there."""
        entry = Entry(event=Event.points, sha256=_sha256(experiment), plan=plan_digest(trials))
        self.append(entry.model_copy(update={"workers": list(workers), "layouts": list(layouts)}))

    def imported(self, records: Mapping[str, bytes], sources: Mapping[str, str]) -> None:
        """Note records that were made from files, which ``sources`` has by name with their sha256."""
        digests = {name: _sha256(data) for name, data in records.items()}
        self.append(Entry(event=Event.imported, records=digests, sources=dict(sources), version=release()))

    def predicted(self, files: Mapping[str, bytes]) -> None:
        """Note predictions, by the name of their file."""
        digests = {name: _sha256(data) for name, data in files.items()}
        self.append(Entry(event=Event.predicted, predictions=digests, version=release()))

    def session(self, number: int, paired: str | None = None) -> None:
        """Session ``number``, from 1, is begun or resumed on this machine; see ``TrialRecord.paired``."""
        begun = any(entry.session == number for entry in self.ledger.of(Event.session))
        event = Event.resumed if begun else Event.session
        host = socket.gethostname()
        self.append(Entry(event=event, session=number, paired=paired, host=host, version=release()))

    def attempts(self, trial: str) -> int:
        """The highest number of an attempt that was ever begun."""
        return max((entry.attempt or 0 for entry in self.ledger.by_trial.get(trial, ())), default=0)

    def started(self, trial: str, attempt: int) -> None:
        """An attempt is about to be made; every earlier one that is still open was thrown away."""
        for number in sorted(self._open(trial)):
            self.discarded(trial, number, "interrupted before its run was complete")
        self.append(Entry(event=Event.started, trial=trial, attempt=attempt))

    def start_of(self, trial: str, attempt: int) -> str | None:
        """The digest of the line that began an attempt, which its record names."""
        starts = self.ledger.of(Event.started, trial=trial)
        return next((entry.digest for entry in reversed(starts) if entry.attempt == attempt), None)

    def ended(self, record: TrialRecord, stored: bytes, event: Event = Event.ended) -> None:
        """A result exists, as ``stored`` in ``trial.json``; noted once, however often it is looked at."""
        trial, digest = record.trial.name, _sha256(stored)
        known = self.ledger.of(event, trial=trial)
        if any(entry.attempt == record.attempt and entry.sha256 == digest for entry in known):
            return
        self.append(
            Entry(
                event=event,
                trial=trial,
                attempt=record.attempt,
                phase=record.phase,
                reason=record.reason,
                throughput=record.summary.throughput if record.summary else None,
                sha256=digest,
            )
        )

    def discarded(self, trial: str, attempt: int, why: str) -> None:
        """An attempt is thrown away."""
        self.append(Entry(event=Event.discarded, trial=trial, attempt=attempt, why=why))

    def gone(self, trial: str) -> None:
        """A trial that had ended has no record any more: somebody removed it."""
        if (there := self.ledger.standing().get(trial)) is not None:
            self.discarded(trial, there[0], REMOVED)

    def _open(self, trial: str) -> set[int]:
        numbers = {entry.attempt or 0 for entry in self.ledger.of(Event.started, trial=trial)}
        return numbers - {entry.attempt or 0 for entry in self.ledger.of(Event.ended, Event.discarded, trial=trial)}

    def _write(self, data: bytes) -> None:
        descriptor = self._place.descriptor(os.O_WRONLY | os.O_CREAT)
        try:
            os.ftruncate(descriptor, self._size)
            os.lseek(descriptor, 0, os.SEEK_END)
            if os.write(descriptor, data) < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._place))
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, self._size)
            raise
        finally:
            os.close(descriptor)
        with self._place.parent.opened() as folder:
            os.fsync(folder)
        self._size += len(data)


def _sha256(data: bytes) -> str:
    return sha256(data).hexdigest()
