"""How a trial's processes ended -> why it failed, in one sentence; pure except for reading closed logs.

The evidence closest to the cause comes first: a rank's report of memory exhaustion, a rank killed from outside, then
any rank's failure report (its peers only see a broken connection), then exit codes. A SIGKILL of the
supervisor itself, to a process that did not end within its grace, is no evidence.
"""

import re
import signal
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from scalecurve_api.files import Within
from scalecurve_api.record.rank import RankFailure
from scalecurve_api.spec.trial import FailedReason
from scalecurve_local.attempt import CommandStatus, ExitReport

TAIL_LINES = 40
_LINE_LENGTH = 500
_TAIL_BYTES = 64 * 1024
MAX_LOG_BYTES = 1 << 62
"""Only the ends of a log are read, so it may have any length."""
_OUT_OF_MEMORY = re.compile(r"^(\w+\.)*(MemoryError|OutOfMemoryError)\b", re.MULTILINE)
_TORCHRUN = re.compile(r"rank\s*: (\d+) \(local_rank: \d+\)\s+exitcode\s*: (-?\d+)")
_MPIRUN_CODE = re.compile(r"Process name: \[[^\]]*,(\d+)\]\s+Exit code:\s+(\d+)")
_MPIRUN_SIGNAL = re.compile(r"process rank (\d+) with PID \d+ on node \S+ exited on\s+signal (\d+)")
_ABSENT = " (install it for the Python that runs the command, or use another Python there)"
_NO_GPU = " (the script asks for a GPU, and there is none here: pass its options for the CPU and for gloo)"
_LIGHTNING = " (write Trainer(devices=int(os.environ['LOCAL_WORLD_SIZE'])), which follows the number of workers)"
_HINTS = (
    ("ModuleNotFoundError", _ABSENT),
    ("no GPUs found", _NO_GPU),
    ("Found no NVIDIA driver", _NO_GPU),
    ("in Lightning, but the product", _LIGHTNING),
)
"""Parts of a script's last line -> what to do about it."""
_BROKEN = (signal.SIGKILL, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)


@dataclass(frozen=True)
class Ending:
    """Why an attempt failed; no reason if every process ended well."""

    reason: FailedReason | None
    message: str
    exit_codes: dict[str, int | None]


def describe_ending(
    report: ExitReport,
    by_launcher: bool,
    workers: int,
    failures: Sequence[RankFailure],
    logs: Mapping[str, str],
    progress: str,
    names: Sequence[str] = (),
) -> Ending:
    """Why an attempt whose processes have all ended failed, if it did.

    ``logs`` are the tails of logs by rank (``"0"``) and ``launcher``; ``progress`` says how far the ranks were.
    ``names`` are the processes in their order, if they are not just the ranks.
    """
    codes = exit_codes(report, by_launcher, workers, logs.get("launcher", ""), names)
    if report.cause == "deadline":
        return Ending(FailedReason.deadline_exceeded, progress, codes)
    if report.cause == "start-failed":
        return Ending(FailedReason.start_failed, f"could not be started: {report.message}", codes)
    if report.cause == "supervisor-lost":
        return Ending(FailedReason.rank_killed, report.message, codes)
    if all(status is not None and status.code == 0 for status in report.statuses):
        return Ending(None, "", codes)
    reason, message = _why(failures, codes, logs, report.oom_kills or 0, _supervisor_kills(report, by_launcher, names))
    return Ending(reason, message, codes)


def exit_codes(
    report: ExitReport, by_launcher: bool, workers: int, launcher_output: str, names: Sequence[str] = ()
) -> dict[str, int | None]:
    """Codes by rank (a signal as its negative number, None if unknown), and the launcher's own."""
    codes = [_code(status) for status in report.statuses]
    if not by_launcher:
        return dict(zip(names or map(str, range(len(codes))), codes, strict=False))
    succeeded = codes == [0]
    ranks: dict[str, int | None] = {str(rank): 0 if succeeded else None for rank in range(workers)}
    if not succeeded:
        reported = [(rank, int(code)) for rank, code in _TORCHRUN.findall(launcher_output)]
        reported += [(rank, int(code)) for rank, code in _MPIRUN_CODE.findall(launcher_output)]
        reported += [(rank, -int(number)) for rank, number in _MPIRUN_SIGNAL.findall(launcher_output)]
        ranks |= {rank: code for rank, code in reported if rank in ranks}
    return {**ranks, "launcher": codes[0] if codes else None}


def _supervisor_kills(report: ExitReport, by_launcher: bool, names: Sequence[str]) -> set[str]:
    """The processes that the supervisor killed."""
    processes = ["launcher"] if by_launcher else names or [str(rank) for rank in range(len(report.statuses))]
    return {who for index, who in enumerate(processes) if index in report.killed}


def _code(status: CommandStatus | None) -> int | None:
    if status is None:
        return None
    return status.code if status.signal is None else -status.signal


def _signal_of(code: int | None) -> signal.Signals | None:
    """The signal a code stands for: negative, or a shell's 128 + n."""
    if code is None:
        return None
    number = -code if code < 0 else code - 128
    try:
        return signal.Signals(number)
    except ValueError:
        return None


def _why(
    failures: Sequence[RankFailure],
    codes: Mapping[str, int | None],
    logs: Mapping[str, str],
    oom_kills: int,
    outlived: Collection[str],
) -> tuple[FailedReason, str]:
    known = set(FailedReason)
    reasons = [
        (failure, FailedReason(failure.reason) if failure.reason in known else FailedReason.rank_failed)
        for failure in failures
    ]
    for failure, reason in reasons:
        if reason in (FailedReason.out_of_memory, FailedReason.bad_workload):
            return reason, f"rank {failure.rank}: {failure.message}"
    signals = {who: number for who, code in codes.items() if (number := _signal_of(code)) is not None}
    ended_by = {who: number for who, number in signals.items() if who not in outlived}
    for who, number in ended_by.items():
        if number in _BROKEN:
            return _explain_kill(who, number, oom_kills)
    for who, log in logs.items():
        if match := _OUT_OF_MEMORY.search(log):
            line = log[match.start() :].split("\n", 1)[0].strip()
            return FailedReason.out_of_memory, f"{_name(who)}: {line[:_LINE_LENGTH]}"
    for failure, reason in reasons:
        return reason, f"rank {failure.rank}: {failure.message}"
    for who, code in codes.items():
        if code and who != "launcher" and who not in signals:
            return FailedReason.rank_failed, f"{_name(who)} exited with code {code}{_last(logs, who)}"
    for who, number in (ended_by or signals).items():
        return _explain_kill(who, number, oom_kills)
    code = codes.get("launcher")
    return FailedReason.rank_failed, f"the launcher exited with code {code}{_last_of_any(logs)}"


def _explain_kill(who: str, number: signal.Signals, oom_kills: int) -> tuple[FailedReason, str]:
    if number is signal.SIGKILL and oom_kills > 0:
        message = f"{_name(who)} was killed by the kernel, out of memory (OOM kills: {oom_kills})"
        return FailedReason.out_of_memory, message
    return FailedReason.rank_killed, f"{_name(who)} was ended by {number.name}"


def _name(who: str) -> str:
    return f"rank {who}" if who.isdigit() else f"the {who}"


def _last_of_any(logs: Mapping[str, str]) -> str:
    """The launcher's last line; where it printed nothing, as mpirun where a rank only exits, that of the first rank."""
    ranks = sorted((who for who in logs if who.isdigit() and logs[who].strip()), key=int)
    if logs.get("launcher", "").strip() or not ranks:
        return _last(logs, "launcher")
    return f"; {_name(ranks[0])}{_last(logs, ranks[0])}"


def _last(logs: Mapping[str, str], who: str) -> str:
    lines = [line for line in logs.get(who, "").splitlines() if line.strip()]
    if not lines:
        return ", and printed nothing"
    last = lines[-1].strip()[:_LINE_LENGTH]
    return f": {last}{next((hint for part, hint in _HINTS if part in last), '')}"


def end_of_log(place: Within, most: int = _TAIL_BYTES) -> str:
    """The last ``most`` bytes of a log as text, from the start of a line; empty if there is no log."""
    try:
        with place.reading(MAX_LOG_BYTES) as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - most))
            text = file.read(most).decode("utf-8", "replace")
    except OSError:
        return ""
    return text.partition("\n")[2] if size > most and "\n" in text else text


def tail(text: str) -> list[str]:
    """The last lines, long ones truncated."""
    return [line[:_LINE_LENGTH] for line in text.splitlines()[-TAIL_LINES:]]
