"""Processes that judge records, each with limits; one that dies of a record is replaced.

Starting one takes a third of a second, so that for small records stays; that for large ones ends after each, which
returns its memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scalecurve_api.model import canonical_json
from scalecurve_api.record.envelope import head_of
from scalecurve_api.record.outcome import Outcome
from scalecurve_api.record.trial_record import Summary
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_operator.reconcile.judge import SIZES, Judgment, unreadable

SMALL_HEAD_BYTES = 1 << 17
"""Compressed, of some thousand ranks"""
_MAX_ANSWER_BYTES = 1 << 20
_WALL_S_PER_CPU_S = 6

logger = logging.getLogger(__name__)


class JudgeUnavailableError(Exception):
    """No process could be started, or it got no processor time: nothing that a record does."""


class JudgeDiedError(Exception):
    """The process ended before it answered; ``late`` if it took too long."""

    def __init__(self, message: str, *, late: bool) -> None:
        super().__init__(message)
        self.late = late


@dataclass(frozen=True)
class Limits:
    """Of one process. The operator's 120 MiB and both of these fit the chart's limit of 512 MiB."""

    memory_bytes: int
    cpu_s: int
    stays: bool


SMALL = Limits(memory_bytes=128 << 20, cpu_s=4, stays=True)
LARGE = Limits(memory_bytes=256 << 20, cpu_s=30, stays=False)


class JudgeProcess:
    """A process that judges one record at a time, started when there is one."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.process: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="judge")
        self._end: Callable[[], object] = lambda: None

    async def start(self) -> None:
        """Start the process if it does not run."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._start)

    async def ask(self, request: Mapping[str, Any], payload: bytes) -> Any:
        """Its answer, as JSON.

        Raises:
            JudgeDiedError: it has exceeded a limit, or was killed.
            JudgeUnavailableError: it could not be started, or the machine was too busy to run it.
        """
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._ask, request, payload)

    def close(self) -> None:
        """End the process."""
        self._end()

    def _start(self) -> None:
        if self.process is not None and self.process.poll() is None:
            return
        self._end()
        ours, theirs = socket.socketpair()
        ours.settimeout(self.limits.cpu_s * _WALL_S_PER_CPU_S)
        command = [sys.executable, "-m", "scalecurve_operator.reconcile.judge"]
        command += [str(self.limits.memory_bytes), str(self.limits.cpu_s)]
        try:
            with theirs:
                self.process = subprocess.Popen(command, stdin=theirs.fileno(), stdout=subprocess.DEVNULL)
        except OSError as error:
            ours.close()
            raise JudgeUnavailableError(f"cannot start a process: {error.strerror}") from error
        self._connection = ours
        self._end = weakref.finalize(self, _end, self.process, ours)

    def _ask(self, request: Mapping[str, Any], payload: bytes) -> Any:
        self._start()
        assert self.process is not None
        assert self._connection is not None
        text = canonical_json(request).encode()
        try:
            self._connection.sendall(SIZES.pack(len(text), len(payload)) + text)
            self._connection.sendall(payload)
            size, _ = SIZES.unpack(self._receive(SIZES.size))
            answer = json.loads(self._receive(min(size, _MAX_ANSWER_BYTES)))
        except (OSError, EOFError) as error:
            late = isinstance(error, TimeoutError)
            if late:
                used_s = _cpu_s(self.process.pid)
                self.process.kill()
                if used_s is not None and used_s < self.limits.cpu_s / 2:
                    self._end()
                    raise JudgeUnavailableError(f"no answer yet, after {used_s:.2g} s of processor time") from error
            raise self._explain_death(self.process.wait(), late) from error
        if not self.limits.stays:
            self._end()
        return answer

    def _receive(self, size: int) -> bytes:
        assert self._connection is not None
        data = b""
        while len(data) < size:
            data += (piece := self._connection.recv(size - len(data)))
            if not piece:
                raise EOFError
        return data

    def _explain_death(self, code: int, late: bool) -> JudgeDiedError:
        limits = self.limits
        if late or -code == signal.SIGXCPU:
            return JudgeDiedError(f"judging it takes more than {limits.cpu_s} s", late=True)
        how = f"signal {-code}" if code < 0 else f"code {code}"
        return JudgeDiedError(
            f"the process that judged it within {limits.memory_bytes >> 20} MiB ended with {how}", late=False
        )


class Judges:
    """Judges records: small ones in a process that stays, large ones in a process each."""

    def __init__(self, small: Limits = SMALL, large: Limits = LARGE) -> None:
        self.small, self.large = JudgeProcess(small), JudgeProcess(large)

    async def start(self) -> None:
        """Have a process ready for the first record."""
        with contextlib.suppress(JudgeUnavailableError):
            await self.small.start()

    def close(self) -> None:
        """End every process."""
        self.small.close()
        self.large.close()

    async def judge(self, trial: TrialSpec, payload: bytes, outcome: Outcome, announced: Summary | None) -> Judgment:
        """The verdict on an attempt; a record that no process can judge within its limits is unreadable.

        Raises:
            JudgeUnavailableError: there are no processes to be had.
        """
        head = head_of(payload)
        request = {
            "trial": trial.wire(),
            "outcome": outcome.wire(),
            "announced": announced.wire() if announced is not None else None,
        }
        problem = ""
        # A second try: the first may have been killed by accident, or have needed more memory.
        for process in (self.small if len(head) <= SMALL_HEAD_BYTES else self.large, self.large):
            try:
                return Judgment.from_wire(await process.ask(request, head))
            except JudgeDiedError as died:
                logger.warning("%s: %s", trial.name, died)
                problem = str(died)
                if died.late:
                    break
        return unreadable(trial, outcome, f"the record could not be judged: {problem}")


def _cpu_s(pid: int) -> float | None:
    """Processor time that a process has used; None where the kernel does not say."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _end(process: subprocess.Popen[bytes], connection: socket.socket) -> None:
    connection.close()
    process.kill()
    process.wait()
