"""A command that is measured by what it prints: started, read, and ended with all that it started.

All ranks of a trial agree once a second whether any has reported enough, and then end their commands together.
"""

import math
import os
import queue
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import FrameType
from typing import NoReturn

from scalecurve_api.contract import OUT_ENV, TRIAL_ENV
from scalecurve_api.programs.log_format import LONGEST_LINE, KnownLog, LineReader, LogFormat, ReportedLine
from scalecurve_worker.launch.output_tee import OutputTee
from scalecurve_worker.process.failure import WorkloadError
from scalecurve_worker.process.startup import die_with_parent
from scalecurve_worker.record.recorder import Recorder
from scalecurve_worker.record.reported_steps import ReportedSteps
from scalecurve_worker.rendezvous.communicator import Communicator

_TERMINAL = {"TTY_COMPATIBLE": "1", "COLUMNS": "120"}
"""rich, which draws Lightning's bar where it is installed, draws none into a pipe otherwise."""
_ROUND_S = 1.0
_SILENT_S = 60.0  # after which a log without any line of the format says so
_GRACE_S = 10.0  # between the request to end and force: a program may save what it has
_DRAIN_S = 5.0
_MOST_LINES = 10_000
_LINE_CPU_S = 0.2
"""Processor time for one line: shipped formats take microseconds, and a pattern may take for ever."""


class ReportedOutput:
    """A running command, and what it has reported."""

    def __init__(self, command: Sequence[str], log: LogFormat, steps: ReportedSteps) -> None:
        self.seen = 0  # lines
        self.ended_on_request = False
        self._reader, self._log, self._steps = LineReader(log), log, steps
        self._lines = _Lines()
        signal.signal(signal.SIGVTALRM, _took_too_long)
        out, out_end = os.pipe()
        err, err_end = os.pipe()
        # A call of attach() in the program would otherwise write this rank's files.
        env = {name: text for name, text in os.environ.items() if name not in (TRIAL_ENV, OUT_ENV)}
        if log.format is KnownLog.lightning:
            env = {**_TERMINAL, **env}
        try:
            # In a group of its own: a launcher's or a shell's children end with it.
            self._process = subprocess.Popen(
                command, env=env, stdout=out_end, stderr=err_end, process_group=0, preexec_fn=die_with_parent
            )
        finally:
            os.close(out_end)
            os.close(err_end)
        self._tees = [OutputTee(source, at, feed=self._lines.splitter()) for source, at in ((out, 1), (err, 2))]
        for tee in self._tees:
            tee.start()

    @property
    def code(self) -> int:
        """Exit code, negative for a signal."""
        return self._process.returncode or 0

    def watch(self, communicator: Communicator, recorder: Recorder) -> None:
        """Read lines until some rank has reported enough, or the commands of all have ended."""
        silent_until = time.monotonic() + _SILENT_S
        while True:
            at, ended = time.monotonic() + _ROUND_S, self._process.poll()
            if ended:
                return  # whoever started this rank ends the others
            self._take(until=at)
            recorder.append(self._steps.rows())
            states = communicator.all_gather([ended is not None, self._steps.complete, self._steps.lines, self.seen])
            if any(state[1] for state in states) or all(state[0] for state in states):
                self.ended_on_request = ended is None
                return
            if communicator.rank == 0 and time.monotonic() > silent_until:
                silent_until = math.inf
                if not any(state[2] for state in states):
                    so_far = f"none of {sum(state[3] for state in states)} lines so far is of {self._log.name}"
                    print(f"scalecurve: workload.log: {so_far}", file=sys.stderr, flush=True)

    def end(self) -> None:
        """End the command with all that it started; no more than ``_GRACE_S`` and a bit."""
        self._lines.closed = True
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE_S)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for tee in self._tees:
            tee.join(_DRAIN_S)

    def _take(self, until: float) -> None:
        """Take the lines that come until then, and those that a command has left that has ended."""
        while not self._steps.complete:
            left = until - time.monotonic()
            if self._process.poll() is not None:
                for tee in self._tees:
                    tee.join(max(0.0, left))
                left = 0.0
            elif left <= 0:
                return
            try:
                at_ns, line = self._lines.queue.get(timeout=left) if left else self._lines.queue.get_nowait()
            except queue.Empty:
                return
            self.seen += bool(line.strip())
            reported = self._read(line)
            if reported is not None:
                self._steps.take(reported, at_ns)

    def _read(self, line: str) -> ReportedLine | None:
        # Python checks for signals within a match, so a timer ends one that would take for ever.
        signal.setitimer(signal.ITIMER_VIRTUAL, _LINE_CPU_S)
        try:
            return self._reader.read(line)
        except TimeoutError:
            raise WorkloadError(
                f"workload.log.pattern: takes more than {_LINE_CPU_S} s over a line of {len(line)} characters: "
                f"{line[:80]!r}; avoid repetitions within repetitions, such as (a+)+"
            ) from None
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)


class _Lines:
    """Lines with the time at which they came, Unix ns; a reader that falls behind holds the program up, as a pipe does.

    A carriage return ends a line, too: progress bars print no other end.
    """

    def __init__(self) -> None:
        self.queue: queue.Queue[tuple[int, str]] = queue.Queue(_MOST_LINES)
        self.closed = False

    def splitter(self) -> Callable[[bytes], None]:
        """Takes the output of one stream, piece by piece."""
        rest = b""

        def feed(data: bytes) -> None:
            nonlocal rest
            now = time.time_ns()
            *ended, rest = (rest + data).replace(b"\r", b"\n").split(b"\n")
            rest = rest[:LONGEST_LINE]
            for line in ended:
                self._put(now, line[:LONGEST_LINE].decode(errors="replace"))

        return feed

    def _put(self, at_ns: int, line: str) -> None:
        while not self.closed:
            with suppress(queue.Full):
                return self.queue.put((at_ns, line), timeout=0.1)


def _took_too_long(number: int, frame: FrameType | None) -> NoReturn:
    raise TimeoutError
