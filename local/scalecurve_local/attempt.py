"""One attempt at a trial, known only by the files in its folder.

.work/<trial>/attempt-K/trial.json, order.json   the attempt was started
.work/<trial>/attempt-K/rank-*                   output of its ranks (``scalecurve_api.contract``)
.work/<trial>/attempt-K/exit.json                how its processes ended
.work/<trial>/attempt-K/result/                  its verdict: trial.json, tables, logs
"""

import itertools
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, TypeVar

from pydantic import ConfigDict, ValidationError

from scalecurve_api import contract
from scalecurve_api.files import UnsafePathError, Within
from scalecurve_api.model import Model, canonical_json
from scalecurve_api.record.rank import RankFailure, RankRecord
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_local import durable
from scalecurve_local.durable import storing
from scalecurve_local.errors import StorageError

ORDER_FILE = "order.json"
EXIT_FILE = "exit.json"
RESULT = "result"
LOGS = "logs"

Cause = Literal["ended", "deadline", "stopped", "engine-gone", "start-failed", "supervisor-lost"]
INTERRUPTIONS = ("stopped", "engine-gone")


_MAX_ORDER_BYTES, _MAX_REPORT_BYTES, MAX_RECORD_BYTES = 64 << 20, 1 << 20, 64 << 20
MAX_JOURNAL_BYTES = 1 << 30
"""Of one rank: 30 million steps."""


class DamagedFileError(StorageError):
    """A file of the engine or its carrier that is none."""

    def __init__(self, place: Within, problem: str) -> None:
        self.place, self.finding = place, f"{place}: is damaged ({problem})"
        super().__init__(f"{self.finding}; remove the folder {place.parent} and continue with --resume")


class CommandStatus(Model):
    """How one command ended: its exit code or its signal."""

    code: int | None = None
    signal: int | None = None


class ExitReport(Model):
    """How an attempt ended, once all its processes have."""

    cause: Cause
    message: str = ""
    statuses: list[CommandStatus | None] = []
    started_ns: int
    ended_ns: int
    strays: int = 0
    unkillable: list[int] = []
    killed: list[int] = []
    """Commands that outlived the grace after the trial's end, and so had a SIGKILL of the supervisor."""
    oom_kills: int | None = None


class StartReport(Model):
    """What a carrier notes of an attempt when it starts it; fields of its own beside these are its own matter."""

    model_config = ConfigDict(extra="ignore")

    id: str = ""
    """By which the carrier knows the attempt, also after a restart; older versions had none."""
    begun_ns: int
    devices: list[str]
    oversubscribed: bool
    paired: str | None = None
    forked: bool = False
    """Its ranks are processes without the workload's launcher."""


@dataclass(frozen=True)
class AttemptFolder:
    """The folder of one attempt."""

    folder: Within
    number: int

    @property
    def started(self) -> StartReport | None:
        """What was noted at its start; None if that was never written."""
        return _read_model(StartReport, self.folder / ORDER_FILE, _MAX_ORDER_BYTES)

    def note(self, paper: StartReport | ExitReport) -> None:
        """Write what a carrier says of its start or its end, durably."""
        name = ORDER_FILE if isinstance(paper, StartReport) else EXIT_FILE
        durable.write_file(self.folder / name, canonical_json(paper.wire()).encode())

    @property
    def exit(self) -> ExitReport | None:
        """How its processes ended; None while they run, or if nobody could tell."""
        return _read_model(ExitReport, self.folder / EXIT_FILE, _MAX_REPORT_BYTES)

    @property
    def result(self) -> TrialRecord | None:
        return _read_model(TrialRecord, self.folder / RESULT / contract.TRIAL_FILE, MAX_RECORD_BYTES)

    def rank_log(self, rank: int) -> Within:
        return self.folder / LOGS / f"rank-{rank}.log"

    def role_log(self, role: str) -> Within:
        return self.folder / LOGS / f"{role}.log"

    @property
    def launcher_log(self) -> Within:
        return self.folder / LOGS / "launcher.log"

    def ready(self, workers: int) -> list[int]:
        return [rank for rank in range(workers) if (self.folder / contract.ready_file(rank)).status()]

    def ranks(self, workers: int) -> tuple[dict[int, RankRecord], dict[int, str]]:
        """Records by rank, and the problems of those that cannot be parsed."""
        records: dict[int, RankRecord] = {}
        problems: dict[int, str] = {}
        for rank in range(workers):
            text = _left(self.folder / contract.rank_file(rank), MAX_RECORD_BYTES, rank, problems)
            try:
                records |= {rank: RankRecord.model_validate_json(text)} if text is not None else {}
            except ValidationError as error:
                first = error.errors(include_url=False)[0]
                where = ".".join(map(str, first["loc"])) or "the file"
                problems[rank] = f"{contract.rank_file(rank)} is not a rank record: {where}: {first['msg']}"
        return records, problems

    def journals(self, workers: int) -> tuple[dict[int, bytes], dict[int, str]]:
        """Step journals by rank, as far as they were written, and the problems of those that cannot be read."""
        journals: dict[int, bytes] = {}
        problems: dict[int, str] = {}
        for rank in range(workers):
            data = _left(self.folder / contract.journal_file(rank), MAX_JOURNAL_BYTES, rank, problems)
            journals |= {rank: data} if data is not None else {}
        return journals, problems

    def failures(self, workers: int) -> list[RankFailure]:
        """Failures that ranks reported, the earliest first."""
        failures: list[tuple[int, RankFailure]] = []
        for rank in range(workers):
            place = self.folder / contract.failure_file(rank)
            with suppress(OSError, ValidationError):
                failure, there = RankFailure.model_validate_json(place.read(_MAX_REPORT_BYTES)), place.status()
                failures.append((there.st_mtime_ns if there else 0, failure))
        return [failure for _, failure in sorted(failures, key=lambda item: item[0])]

    def complete(self, workers: int) -> bool:
        """Whether every rank wrote its final record: the run then counts, however its processes ended."""
        if not all((self.folder / contract.rank_file(rank)).status() for rank in range(workers)):
            return False
        return len(self.ranks(workers)[0]) == workers and not self.failures(workers)


ModelT = TypeVar("ModelT", bound=Model)
_NUMBERED = re.compile(r"(attempt|discarded)-([0-9]+)")


def attempts_in(folder: Within) -> tuple[list[AttemptFolder], int]:
    """The attempts of a trial that were not discarded, oldest first, and the highest number ever used."""
    with storing("read", folder):
        matches = [match for name in folder.entries() if (match := _NUMBERED.fullmatch(name))]
    numbered = sorted((int(match[2]), match[1] == "attempt", match[0]) for match in matches)
    kept = [AttemptFolder(folder / name, number) for number, counts, name in numbered if counts]
    return kept, max((number for number, _, _ in numbered), default=0)


def put_aside(work: Within) -> str | None:
    """Rename working state that is another user's and not to be written by this one; what was done, for the user.

    Called with its lock held, so nobody is at work there. The ledger keeps the numbers of the attempts in it.

    Raises:
        StorageError: when it cannot be renamed.
    """
    status = work.status()
    if status is None or os.access(work.path, os.R_OK | os.W_OK | os.X_OK):
        return None
    names = (f"{work.name}-of-{status.st_uid}{'-' * bool(n)}{n or ''}" for n in itertools.count())
    aside = next(place for name in names if (place := work.parent / name).status() is None)
    with storing("rename", work):
        work.rename(aside)
    return (
        f"{work}: is of user {status.st_uid}, and this one may not write to it: it was put aside as "
        f"{aside.name}, and the trials that it left unfinished are run again"
    )


def _read_model(model: type[ModelT], place: Within, limit: int) -> ModelT | None:
    """Read a file of the engine or its carrier. They write atomically, so one that cannot be parsed is damaged."""
    with storing("read", place):
        try:
            return model.model_validate_json(place.read(limit))
        except FileNotFoundError:
            return None
        except UnsafePathError as error:
            raise DamagedFileError(place, str(error.strerror)) from error
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"])) or "the file"
            raise DamagedFileError(place, f"{where}: {first['msg']}") from error


def _left(place: Within, limit: int, rank: int, problems: dict[int, str]) -> bytes | None:
    """What a rank left; None where it left nothing, or something that is noted as its problem."""
    with storing("read", place):
        try:
            return place.read(limit)
        except FileNotFoundError:
            return None
        except UnsafePathError as error:
            problems[rank] = f"{place.name} {error.strerror}"
            return None
