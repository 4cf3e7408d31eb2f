"""One attempt at a trial, known only by the files in its folder.

.work/<trial>/attempt-K/trial.json, order.json   the attempt was started
.work/<trial>/attempt-K/rank-*                   output of its ranks (``scalecurve_api.contract``)
.work/<trial>/attempt-K/exit.json                how its processes ended
.work/<trial>/attempt-K/result/                  its verdict: trial.json, tables, logs
"""

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
    """How one command ended: its exit code or its signal."""

    code: int | None = None
    signal: int | None = None


class ExitReport(Model):
    """Written by the supervisor when all processes of a trial have ended."""

    cause: Cause
    message: str = ""
    statuses: list[CommandStatus | None] = []
    started_ns: int
    ended_ns: int
    strays: int = 0
    unkillable: list[int] = []
    oom_kills: int | None = None


class Command(Model):
    """One process that the supervisor starts."""

    argv: list[str]
    env: dict[str, str] = {}
    log: str


class Order(Model):
    """The supervisor's input. Variables beyond a command's own are passed by inheritance and never written to disk."""

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
class AttemptFolder:
    """The folder of one attempt."""

    folder: Path
    number: int

    @property
    def order(self) -> Order | None:
        """The supervisor's input; None if it was never written."""
        return _read_model(Order, self.folder / ORDER_FILE)

    @property
    def exit(self) -> ExitReport | None:
        """How its processes ended; None while they run, or if the supervisor died."""
        return _read_model(ExitReport, self.folder / EXIT_FILE)

    @property
    def result(self) -> TrialRecord | None:
        """The trial's record, once it is written."""
        return _read_model(TrialRecord, self.folder / RESULT / contract.TRIAL_FILE)

    def rank_log(self, rank: int) -> Path:
        return self.folder / LOGS / f"rank-{rank}.log"

    def role_log(self, role: str) -> Path:
        return self.folder / LOGS / f"{role}.log"

    @property
    def launcher_log(self) -> Path:
        return self.folder / LOGS / LAUNCHER_LOG

    def ready(self, workers: int) -> list[int]:
        """Ranks that joined the world."""
        return [rank for rank in range(workers) if (self.folder / contract.ready_file(rank)).exists()]

    def ranks(self, workers: int) -> tuple[dict[int, RankRecord], dict[int, str]]:
        """Records by rank, and the problems of those that cannot be parsed."""
        records: dict[int, RankRecord] = {}
        problems: dict[int, str] = {}
        for rank in range(workers):
            path = self.folder / contract.rank_file(rank)
            with storing("read", path), suppress(FileNotFoundError):
                text = path.read_bytes()
                try:
                    records[rank] = RankRecord.model_validate_json(text)
                except ValidationError as error:
                    first = error.errors(include_url=False)[0]
                    where = ".".join(map(str, first["loc"])) or "the file"
                    problems[rank] = f"{path.name} is not a rank record: {where}: {first['msg']}"
        return records, problems

    def journals(self, workers: int) -> dict[int, bytes]:
        """Step journals by rank, as far as they were written."""
        journals: dict[int, bytes] = {}
        for rank in range(workers):
            path = self.folder / contract.journal_file(rank)
            with storing("read", path), suppress(FileNotFoundError):
                journals[rank] = path.read_bytes()
        return journals

    def failures(self, workers: int) -> list[RankFailure]:
        """Failures that ranks reported, the earliest first."""
        failures: list[tuple[int, RankFailure]] = []
        for rank in range(workers):
            path = self.folder / contract.failure_file(rank)
            failure = _read_failure(path)
            if failure is not None:
                failures.append((path.stat().st_mtime_ns, failure))
        return [failure for _, failure in sorted(failures, key=lambda item: item[0])]

    def complete(self, workers: int) -> bool:
        """Whether every rank wrote its final record: the run then counts, however its processes ended."""
        if not all((self.folder / contract.rank_file(rank)).exists() for rank in range(workers)):
            return False
        return len(self.ranks(workers)[0]) == workers and not self.failures(workers)


ModelT = TypeVar("ModelT", bound=Model)
_NUMBERED = re.compile(r"(attempt|discarded)-([0-9]+)")


def attempts_in(folder: Path) -> tuple[list[AttemptFolder], int]:
    """The attempts of a trial that were not discarded, oldest first, and the highest number ever used."""
    numbered: list[tuple[int, bool, Path]] = []
    for entry in _entries(folder):
        match = _NUMBERED.fullmatch(entry.name)
        if match:
            numbered.append((int(match[2]), match[1] == "attempt", entry))
    numbered.sort()
    kept = [AttemptFolder(path, number) for number, counts, path in numbered if counts]
    return kept, max((number for number, _, _ in numbered), default=0)


def _entries(folder: Path) -> Iterator[Path]:
    with storing("read", folder):
        if folder.is_dir():
            yield from folder.iterdir()


def _read_model(model: type[ModelT], path: Path) -> ModelT | None:
    """Read a file of the engine or its supervisor. They write atomically, so one that cannot be parsed is damaged."""
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


def _read_failure(path: Path) -> RankFailure | None:
    try:
        return RankFailure.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None
