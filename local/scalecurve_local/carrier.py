"""What carries a session's trials: the processes of this machine, or whatever else can start them.

The engine decides what runs when, and keeps ledger and bundle. A carrier starts, watches and stops, and brings files
(``scalecurve_api.contract``) into the attempt's folder (``attempt``), from which the engine derives all that it knows.
So an engine may be killed at any moment: the next one reads the id in the folder, and attaches.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.spec.experiment import ExperimentSpec
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_local.attempt import AttemptFolder


class State(StrEnum):
    """What a carrier knows of an attempt; an ``unknown`` one is lost, unless its records are complete."""

    running = "running"
    ended = "ended"
    unknown = "unknown"


class Carrier(Protocol):
    """Called by one thread: ``admit`` for each bundle, then the others within ``hold``."""

    def admit(
        self, bundle: Path, spec: ExperimentSpec, trials: Sequence[TrialSpec], earlier: Mapping[str, TrialRecord]
    ) -> Sequence[str]:
        """Accept an experiment before anything is written, and return notes for the user.

        ``bundle`` is as the user wrote it; ``earlier`` are the records of a bundle to which points are added.

        Raises:
            InputError: when a trial can never run here.
            UnavailableError: when what it needs is missing.
        """

    def hold(
        self, say: Callable[[str], None], stopped: Callable[[], bool]
    ) -> AbstractContextManager[Callable[[Path], None]]:
        """Keep what the admitted trials need, and give what locks a bundle by its lock file.

        A lock is free again when this engine, and all that was started here and may write to the bundle, has ended.

        Raises:
            UnavailableError: when another run has it.
            StopRequestedError: when ``stopped`` while waiting for it.
        """

    def start(self, trial: TrialSpec, attempt: AttemptFolder, paired: str | None) -> str:
        """Start an attempt, and return its id, which ``AttemptFolder.note`` has stored before anything is waited for.

        Raises:
            StorageError: when its files cannot be written.
            UnavailableError: when it cannot be started.
        """

    def poll(self, ids: Collection[str], wait_s: float) -> Mapping[str, State]:
        """Tell the state of each id, after ``wait_s`` seconds or once one of them has ended."""

    def stop(self, ids: Collection[str], at_once: bool) -> None:
        """Ask attempts to end, with a grace unless ``at_once``; no effect on one that has ended."""

    def collect(self, id: str, attempt: AttemptFolder) -> None:
        """Bring what it has written since the last call into its folder; once it has ended, all, and an ``ExitReport``.

        Called after every poll, so a journal or a log is continued from where the copy ends.

        Raises:
            StorageError: when that cannot be written.
        """

    def attach(self, id: str) -> None:
        """Take over an attempt of an earlier engine, from its id alone; ``poll`` then says whether it still runs."""
