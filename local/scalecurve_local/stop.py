"""Stop a run: from a signal handler, by a time limit, or because its command fails wherever it is started."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.spec.trial import FailedReason, TrialPhase

_OF_THE_COMMAND = frozenset({FailedReason.rank_failed, FailedReason.bad_workload, FailedReason.start_failed})
"""Reasons that another trial would meet, too; memory that one point lacks, a signal or a deadline may be its own."""


class StopRequestedError(Exception):
    """A stop was requested while waiting."""


class StopRequest:
    """The first call ends the run's processes gracefully and keeps its records; the second kills them.

    With ``at_first_failure`` a command that fails by itself before any trial has ended well is not started again.
    """

    def __init__(self, *, at_first_failure: bool = False) -> None:
        self.times = 0
        self._ends: float | None = None
        self._paused = False
        self.futile = False
        self.at_first_failure = at_first_failure

    def __call__(self, *_: object) -> None:
        self.times += 1

    @property
    def requested(self) -> bool:
        return self._has_expired or self.futile or self.times > 0

    @property
    def at_once(self) -> bool:
        return self.times > 1

    def consider(self, records: Iterable[TrialRecord]) -> None:
        """Stop if every trial so far failed by the command itself; called when a further one has ended."""
        self.futile = self.at_first_failure and all(
            record.phase is TrialPhase.failed and record.reason in _OF_THE_COMMAND for record in records
        )

    @property
    def _has_expired(self) -> bool:
        return self._ends is not None and not self._paused and time.monotonic() >= self._ends

    @contextmanager
    def within(self, seconds: float | None) -> Iterator[None]:
        """Stop gracefully after ``seconds``, if given."""
        self._ends = None if seconds is None else time.monotonic() + seconds
        try:
            yield
        finally:
            self._ends = None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let no time of the limit pass: another run has the devices."""
        began, self._paused = time.monotonic(), True
        try:
            yield
        finally:
            self._paused = False
            if self._ends is not None:
                self._ends += time.monotonic() - began
