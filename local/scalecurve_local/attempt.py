"""One attempt at a trial as its folder shows it: nothing is known of an attempt that its files do not say.

.work/<trial>/attempt-K/trial.json, order.json   it was begun
.work/<trial>/attempt-K/rank-*                   what its ranks wrote (``scalecurve_api.contract``)
.work/<trial>/attempt-K/exit.json                its processes have ended, and how
.work/<trial>/attempt-K/result/                  it was judged and kept: trial.json, tables, logs
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import ValidationError

from scalecurve_api import contract
from scalecurve_api.model import Model
from scalecurve_api.record.rank import RankFailure, RankRecord
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_local.durable import storing
from scalecurve_local.errors import StorageError

ORDER_FILE = "order.json"
EXIT_FILE = "exit.json"
RESULT = "result"
LOGS = "logs"
LAUNCHER_LOG = "launcher.log"

Cause = Literal["ended", "deadline", "stopped", "engine-gone", "start-failed", "supervisor-lost"]
INTERRUPTIONS = ("stopped", "engine-gone")


class CommandStatus(Model):
    """How one command ended: with a code, or by a signal."""

    code: int | None = None
    signal: int | None = None


class ExitReport(Model):
    """What the supervisor wrote at the end of a trial's processes."""

    cause: Cause
    message: str = ""
    statuses: list[CommandStatus | None] = []
    started_ns: int
    ended_ns: int
    strays: int = 0
    unkillable: list[int] = []
    oom_kills: int | None = None


class Command(Model):
    """One process that the supervisor starts itself."""

    argv: list[str]
    env: dict[str, str] = {}
    log: str


class Order(Model):
    """What the supervisor is asked to do; environment beyond a command's own is its own, and never on disk."""

    commands: list[Command]
    cwd: str
    deadline_seconds: float
    grace_seconds: float
    exit_file: str
    temporary: str
    oom_counters: list[str]
    begun_ns: int
    devices: list[str]
    oversubscribed: bool


@dataclass(frozen=True)
class Attempt:
    """The folder of one attempt."""

    folder: Path
    number: int

    @property
    def order(self) -> Order | None:
        """What was asked of its supervisor; None where that was never written whole."""
        return _own(Order, self.folder / ORDER_FILE)

    @property
    def exit(self) -> ExitReport | None:
        """How its processes ended; None while they run, or when nobody was left to write it."""
        return _own(ExitReport, self.folder / EXIT_FILE)

    @property
    def result(self) -> TrialRecord | None:
        """The record it was judged into, once that is kept."""
        return _own(TrialRecord, self.folder / RESULT / contract.TRIAL_FILE)

    def rank_log(self, rank: int) -> Path:
        """Where a rank's output goes."""
        return self.folder / LOGS / f"rank-{rank}.log"

    def role_log(self, role: str) -> Path:
        """Where the output of a process goes that is no worker."""
        return self.folder / LOGS / f"{role}.log"

    @property
    def launcher_log(self) -> Path:
        """Where the launcher's own output goes."""
        return self.folder / LOGS / LAUNCHER_LOG

    def ready(self, workers: int) -> list[int]:
        """Ranks that joined their world, by the files they wrote."""
        return [rank for rank in range(workers) if (self.folder / contract.ready_file(rank)).exists()]

    def ranks(self, workers: int) -> tuple[dict[int, RankRecord], dict[int, str]]:
        """Rank records by rank, and what is wrong with those that are there and are none."""
        found: dict[int, RankRecord] = {}
        wrong: dict[int, str] = {}
        for rank in range(workers):
            path = self.folder / contract.rank_file(rank)
            with storing("read", path), suppress(FileNotFoundError):
                text = path.read_bytes()
                try:
                    found[rank] = RankRecord.model_validate_json(text)
                except ValidationError as error:
                    first = error.errors(include_url=False)[0]
                    where = ".".join(map(str, first["loc"])) or "the file"
                    wrong[rank] = f"{path.name} is no rank record: {where}: {first['msg']}"
        return found, wrong

    def journals(self, workers: int) -> dict[int, bytes]:
        """Step journals by rank, as far as they were written."""
        found: dict[int, bytes] = {}
        for rank in range(workers):
            path = self.folder / contract.journal_file(rank)
            with storing("read", path), suppress(FileNotFoundError):
                found[rank] = path.read_bytes()
        return found

    def failures(self, workers: int) -> list[RankFailure]:
        """What failing ranks could still say, the first to say it first."""
        said: list[tuple[int, RankFailure]] = []
        for rank in range(workers):
            path = self.folder / contract.failure_file(rank)
            failure = _said(path)
            if failure is not None:
                said.append((path.stat().st_mtime_ns, failure))
        return [failure for _, failure in sorted(said, key=lambda item: item[0])]

    def whole(self, workers: int) -> bool:
        """Whether every rank wrote its final record: then the run is complete, however its processes ended."""
        if not all((self.folder / contract.rank_file(rank)).exists() for rank in range(workers)):
            return False
        found, _ = self.ranks(workers)
        return len(found) == workers and not self.failures(workers)


ModelT = TypeVar("ModelT", bound=Model)
_NUMBERED = re.compile(r"(attempt|discarded)-([0-9]+)")


def attempts_in(folder: Path) -> tuple[list[Attempt], int]:
    """The attempts of a trial that still count, oldest first, and the highest number ever used."""
    numbered: list[tuple[int, bool, Path]] = []
    for entry in _entries(folder):
        match = _NUMBERED.fullmatch(entry.name)
        if match:
            numbered.append((int(match[2]), match[1] == "attempt", entry))
    numbered.sort()
    kept = [Attempt(path, number) for number, counts, path in numbered if counts]
    return kept, max((number for number, _, _ in numbered), default=0)


def _entries(folder: Path) -> Iterator[Path]:
    with storing("read", folder):
        if folder.is_dir():
            yield from folder.iterdir()


def _own(model: type[ModelT], path: Path) -> ModelT | None:
    """A file the engine or its supervisor wrote: whole or absent, so one that cannot be read is damage."""
    with storing("read", path):
        if not path.exists():
            return None
        text = path.read_bytes()
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise StorageError(
            f"{path}: is damaged ({where}: {first['msg']}); remove the folder {path.parent} and continue with --resume"
        ) from error


def _said(path: Path) -> RankFailure | None:
    """What a rank wrote of its failure, if it can be understood."""
    try:
        return RankFailure.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None
