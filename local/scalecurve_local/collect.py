"""Turn an ended attempt into its result: record, tables and logs, written atomically."""

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from scalecurve_api import contract
from scalecurve_api.files import UnsafePathError, Within
from scalecurve_api.programs.workload import Launcher
from scalecurve_api.record import journal
from scalecurve_api.record.assemble import Assembled, assemble
from scalecurve_api.record.journal import JournalError
from scalecurve_api.record.outcome import Outcome
from scalecurve_api.record.trial_record import Timeline, TrialRecord
from scalecurve_api.record.unfinished import unfinished
from scalecurve_api.spec.secrets import masked, values_in
from scalecurve_api.spec.trial import FailedReason, TrialPhase, TrialSpec
from scalecurve_api.text import count
from scalecurve_local import durable
from scalecurve_local.attempt import INTERRUPTIONS, LOGS, RESULT, AttemptFolder, StartReport
from scalecurve_local.ending import MAX_LOG_BYTES, Ending, describe_ending, end_of_log, tail

MAX_TRACE_BYTES = 256 << 20

ENGINE = "local"
_LOG_HEAD, _LOG_TAIL = 1 << 20, 3 << 20


def collect(trial: TrialSpec, attempt: AttemptFolder, ledger: str | None = None) -> TrialRecord:
    """Judge an attempt whose processes have ended, and write its result; ``ledger`` is the digest of its first entry.

    Raises:
        StorageError: when it cannot be written.
    """
    workers = trial.point.workers
    ranks, problems = attempt.ranks(workers)
    left, unreadable = attempt.journals(workers)
    journals, journal_problems = _valid_journals(left)
    logs = {str(rank): end_of_log(attempt.rank_log(rank)) for rank in range(workers)}
    logs |= {role: end_of_log(attempt.role_log(role)) for role in trial.workload.roles}
    logs["launcher"] = end_of_log(attempt.launcher_log)
    secrets = values_in(os.environ, trial.workload)
    logs = {who: masked(text, secrets) for who, text in logs.items()}
    ending = _ending(trial, attempt, logs, journals)
    problems |= unreadable | journal_problems
    if problems and ending.reason is None:
        rank = min(problems)
        ending = Ending(FailedReason.bad_workload, f"rank {rank}: {problems[rank]}", ending.exit_codes)
    started = attempt.started
    assembled = assemble(
        trial,
        ranks,
        journals,
        Outcome(
            engine=ENGINE,
            attempt=attempt.number,
            failure=ending.reason,
            message=ending.message,
            oversubscribed=started is not None and started.oversubscribed,
            missing=unfinished(trial, ranks, journals),
            paired=started.paired if started is not None else None,
            requested_devices=started.devices if started is not None else [],
            exit_codes=ending.exit_codes,
            ledger=ledger,
            log_tail={who: tail(text) for who, text in logs.items() if text},
            timeline=_timeline(attempt, started, workers),
        ),
    )
    _write(attempt, assembled, trial, secrets)
    return assembled.record


def _ending(trial: TrialSpec, attempt: AttemptFolder, logs: Mapping[str, str], journals: Mapping[int, bytes]) -> Ending:
    """How it ended; one that was interrupted after its run was complete counts as good."""
    report, started, workers = attempt.exit, attempt.started, trial.point.workers
    if report is None or report.cause in INTERRUPTIONS:
        return Ending(None, "", {})
    return describe_ending(
        report,
        trial.workload.resolved_launcher is not Launcher.processes and not (started is not None and started.forked),
        workers,
        attempt.failures(workers),
        logs,
        _progress(trial, attempt, journals),
        _names(trial),
    )


def _names(trial: TrialSpec) -> list[str]:
    """The processes of a trial in their order of start, if no launcher starts them."""
    ranks = range(trial.workload.processes(trial.point.workers))
    return [*map(str, ranks), *trial.workload.roles]


def _progress(trial: TrialSpec, attempt: AttemptFolder, journals: Mapping[int, bytes]) -> str:
    """How far the ranks were at the deadline."""
    workers = trial.point.workers
    late = sorted(set(range(workers)) - set(attempt.ready(workers)))
    steps = {rank: len(journal.body(data)) // journal.ROW.size for rank, data in journals.items()}
    where = ", ".join(f"rank {rank} after {count(steps.get(rank, 0), 'step')}" for rank in range(min(workers, 8)))
    joined = f"; never ready: rank {', '.join(map(str, late[:8]))}" if late else ""
    return f"did not end within deadlineSeconds, {trial.deadline_seconds}: {where}{joined}"


def _valid_journals(journals: Mapping[int, bytes]) -> tuple[dict[int, bytes], dict[int, str]]:
    """Valid journals, and the problems of the others; one without a complete header was never written to."""
    valid: dict[int, bytes] = {}
    problems: dict[int, str] = {}
    for rank, data in journals.items():
        if len(data) < journal.HEADER.size:
            continue
        try:
            written_by = journal.read_rank(data, contract.journal_file(rank))
        except JournalError as error:
            problems[rank] = str(error)
            continue
        if written_by == rank:
            valid[rank] = data
        else:
            problems[rank] = f"{contract.journal_file(rank)} was written by rank {written_by}"
    return valid, problems


def _timeline(attempt: AttemptFolder, started: StartReport | None, workers: int) -> list[Timeline]:
    timeline = []
    if started is not None:
        timeline.append(Timeline(phase=TrialPhase.starting, at_ns=started.begun_ns))
    if len(attempt.ready(workers)) == workers:
        ready = [(attempt.folder / contract.ready_file(rank)).status() for rank in range(workers)]
        joined = [status.st_mtime_ns for status in ready if status is not None]
        timeline.append(Timeline(phase=TrialPhase.running, at_ns=max(joined)))
    report = attempt.exit
    timeline.append(Timeline(phase=TrialPhase.collecting, at_ns=report.ended_ns if report else time.time_ns()))
    return timeline


def _write(attempt: AttemptFolder, assembled: Assembled, trial: TrialSpec, secrets: Sequence[str]) -> None:
    building = attempt.folder / f"{RESULT}.new"
    durable.remove(building)
    durable.make_folder(building / LOGS)
    for rank in range(trial.point.workers):
        _copy_log(attempt.rank_log(rank), building / LOGS, secrets)
    for role in trial.workload.roles:
        _copy_log(attempt.role_log(role), building / LOGS, secrets)
    _copy_log(attempt.launcher_log, building / LOGS, secrets)
    for rank in range(trial.point.workers if trial.measure.trace and trial.measure.trace.keep else 0):
        _copy_trace(attempt.folder / contract.trace_file(rank), building / LOGS)
    for name, data in assembled.tables.items():
        durable.write_file(building / name, data)
    durable.write_file(building / contract.TRIAL_FILE, assembled.record.stored())
    durable.rename(building, attempt.folder / RESULT)


def _copy_log(source: Within, folder: Within, secrets: Sequence[str]) -> None:
    """Copy a log; of a huge one its head and tail, with a line between them that says so."""
    with durable.storing("copy", source), suppress(FileNotFoundError, UnsafePathError):
        with source.reading(MAX_LOG_BYTES) as old:
            size = os.fstat(old.fileno()).st_size
            if size == 0:
                return
            with (folder / source.name).created() as new:
                if size <= _LOG_HEAD + _LOG_TAIL:
                    new.write(_hide(old.read(size), secrets))
                else:
                    new.write(_hide(old.read(_LOG_HEAD), secrets))
                    new.write(f"\n[{size - _LOG_HEAD - _LOG_TAIL} bytes omitted here]\n".encode())
                    old.seek(size - _LOG_TAIL)
                    new.write(_hide(old.read(_LOG_TAIL), secrets))
        with folder.opened() as handle:
            os.fsync(handle)


def _copy_trace(source: Within, folder: Within) -> None:
    """A rank that died, or whose trace is not kept, has none."""
    with durable.storing("copy", source), suppress(FileNotFoundError, UnsafePathError):
        durable.write_file(folder / source.name, source.read(MAX_TRACE_BYTES))


def _hide(log: bytes, secrets: Sequence[str]) -> bytes:
    for secret in secrets:
        log = log.replace(secret.encode(), b"***")
    return log
