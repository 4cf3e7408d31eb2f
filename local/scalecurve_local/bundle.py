"""The folder of an experiment's records, and the engine's working state in it.

<bundle>/experiment.yaml                      the user's file, unchanged
<bundle>/ledger.jsonl                         what happened, also what was thrown away (``record.ledger``)
<bundle>/trials/<trial>/                      complete when it appears (one rename)
<bundle>/.work/<trial>/attempt-K/             see ``attempt``; not part of the record
"""

import hashlib
import io
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from scalecurve_api import contract
from scalecurve_api.files import UnsafePathError, Within
from scalecurve_api.planning.difference import (
    find_added_workers,
    find_removed_workers,
    first_difference,
    request_of,
    restricted,
)
from scalecurve_api.planning.plan import make_plan, sessions_in
from scalecurve_api.record.ledger import LEDGER_FILE, MAX_LEDGER_BYTES, read_ledger
from scalecurve_api.record.ledger_file import LedgerFile
from scalecurve_api.record.trial_record import TrialRecord, stored_digest
from scalecurve_api.spec.experiment import ScalingExperiment
from scalecurve_api.spec.trial import Point, TrialSpec
from scalecurve_api.text import count, few, listed
from scalecurve_api.validation.document import first_error, read_documents
from scalecurve_local import durable
from scalecurve_local.attempt import EXIT_FILE, MAX_RECORD_BYTES, RESULT, AttemptFolder, DamagedFileError, attempts_in
from scalecurve_local.durable import storing
from scalecurve_local.errors import InputError, StorageError

EXPERIMENT_FILE = "experiment.yaml"
TRIALS = "trials"
WORK = ".work"
_MAX_EXPERIMENT_BYTES, _MAX_TABLE_BYTES = 4 << 20, 4 << 30


@dataclass(frozen=True)
class BundleFolder:
    """The bundle of a run."""

    path: Path

    @property
    def work(self) -> Within:
        return Within(self.path) / WORK

    @property
    def trials(self) -> Within:
        return Within(self.path) / TRIALS

    @property
    def lock_file(self) -> Path:
        """Locked while an engine, or a process it started, uses this bundle."""
        return (self.work / "lock").path

    def refuse_unless_writable(self) -> None:
        """Checked before the run waits for devices.

        Raises:
            InputError: when the path is a file.
            StorageError: when this user may not write to the folder, or to its nearest existing parent.
        """
        if self.path.exists() and not self.path.is_dir():
            raise InputError(
                f"{self.path}: is a file, and a run writes a folder; use another "
                "(a packed bundle is resumed in the folder that `scalecurve unpack` writes)"
            )
        there = next(folder for folder in (self.path, *self.path.parents) if os.path.exists(folder))
        if os.path.isdir(there) and not os.access(there, os.W_OK | os.X_OK):
            raise StorageError(f"{self.path}: this user may not write to {there}; use another folder")

    def prepare(self) -> None:
        """Create the folder of the lock.

        Raises:
            StorageError: when it cannot be created.
        """
        durable.make_folder(self.work)

    def refuse_links(self) -> None:
        """No engine makes a link here, and through one a run would write or remove what is not the bundle's.

        Raises:
            InputError: when a folder or file that an engine makes is a link.
        """
        with storing("read", self.path):
            made = [
                Within(self.path) / EXPERIMENT_FILE,
                Within(self.path) / LEDGER_FILE,
                self.work,
                self.work / "lock",
                self.trials,
            ]
            if (linked := _link_among(made)) is None:
                trials = [folder / name for folder in (self.trials, self.work) for name in folder.entries()]
                linked = _link_among(trials) or _link_among(
                    trial / name for trial in trials if trial.path.is_dir() for name in trial.entries()
                )
        if linked is not None:
            raise InputError(
                f"{linked}: is a link to {os.readlink(linked.path)}, and no engine makes one in a bundle: "
                "copy what it points to into its place, or use another folder"
            )

    def refuse_unless_empty(self) -> None:
        """Without --resume an existing folder must be empty.

        Raises:
            InputError: when it is not.
        """
        with storing("read", self.path):
            names = sorted(entry.name for entry in self.path.iterdir()) if self.path.is_dir() else []
        if EXPERIMENT_FILE in names or WORK in names:
            raise InputError(
                f"{self.path}: already holds an experiment; continue it with --resume, or use another folder"
            )
        if names:
            raise InputError(f"{self.path}: is not empty (it holds {names[0]}); use another folder for the bundle")

    def refuse_another(self, experiment: ScalingExperiment) -> None:
        """A bundle is resumed only with its own experiment; an empty one accepts any.

        Raises:
            InputError: when the bundle holds another experiment, or its file cannot be read.
        """
        path, text = self._experiment()
        if text is not None:
            _refuse_difference(path, text, experiment)

    def experiment_before(self, experiment: ScalingExperiment) -> ScalingExperiment:
        """The experiment of the bundle, to which ``experiment`` adds worker counts and nothing else.

        Raises:
            InputError: when it adds none, lacks one, or differs in anything else; when the bundle is no bundle.
        """
        path, text = self._experiment()
        if text is None:
            raise InputError(f"{self.path}: no bundle to add points to: {EXPERIMENT_FILE} is missing")
        before = _read_experiment(path, text)
        if lacking := find_removed_workers(before, experiment):
            raise InputError(f"{path}: cannot add points: the bundle has {few(lacking)}, which is missing here")
        same = restricted(experiment, before.spec.scaling.workers, before.spec.placement.layouts)
        if (difference := first_difference(request_of(before), request_of(same))) is not None:
            raise InputError(f"{path}: cannot add points: this bundle is of another experiment: {difference}")
        if not find_added_workers(before, experiment):
            counts = listed(experiment.spec.scaling.workers, "worker")
            raise InputError(f"{path}: has every point already ({counts}); add some to spec.scaling.workers")
        return before

    def grow(self, before: ScalingExperiment, after: ScalingExperiment, source: str) -> None:
        """Note further points in the ledger, then write the experiment that has them.

        Raises:
            StorageError: when either cannot be written.
        """
        ledger = self.open_ledger(make_plan(before).trials)
        scaling, placement = before.spec.scaling, before.spec.placement
        with storing("write", Within(self.path) / LEDGER_FILE):
            ledger.points(source.encode(), make_plan(after).trials, scaling.workers, placement.layouts)
        durable.write_file(Within(self.path) / EXPERIMENT_FILE, source.encode())

    def _experiment(self) -> tuple[Path, bytes | None]:
        place = Within(self.path) / EXPERIMENT_FILE
        with storing("read", place), suppress(FileNotFoundError):
            return place.path, place.read(_MAX_EXPERIMENT_BYTES)
        return place.path, None

    def begin(self, experiment: ScalingExperiment, source: str, resume: bool) -> None:
        """Write the experiment into a new bundle, or check that this bundle is of the same experiment.

        Raises:
            InputError: when the bundle holds another experiment, or its file cannot be read.
        """
        path, text = self._experiment()
        if text is not None and not resume:
            self.refuse_unless_empty()
        if text is None:
            own = (WORK, f".{path.name}.")  # the second is left where a kill interrupted an atomic write
            others = sorted(entry.name for entry in self.path.iterdir() if not entry.name.startswith(own))
            if others:
                raise InputError(f"{self.path}: holds {others[0]} and no {EXPERIMENT_FILE}: not a bundle to resume")
            durable.write_file(Within(self.path) / EXPERIMENT_FILE, source.encode())
        else:
            _refuse_difference(path, text, experiment)
        durable.make_folder(self.trials)

    def open_ledger(self, trials: Sequence[TrialSpec]) -> LedgerFile:
        """The ledger, begun where there is none; ``trials`` are those of one session.

        Raises:
            StorageError: when it cannot be read or written.
        """
        bundle = Within(self.path)
        with storing("write", bundle / LEDGER_FILE):
            ledger = LedgerFile(self.path)
            places = {name: self.trials / name / contract.TRIAL_FILE for name in self.trials.entries()}
            there = {name: place for name, place in places.items() if place.status() is not None}
            records = {} if ledger.ledger.lines else {name: p.read(MAX_RECORD_BYTES) for name, p in there.items()}
            ledger.begin((bundle / EXPERIMENT_FILE).read(_MAX_EXPERIMENT_BYTES), trials, records)
            for trial in sorted(ledger.ledger.standing().keys() - there.keys()):
                if not any((attempt.folder / RESULT).status() for attempt in self.attempts(trial)[0]):
                    ledger.gone(trial)
        return ledger

    def published(self, trial: str) -> TrialRecord | None:
        """The record of a finished trial; None if it has none.

        Raises:
            InputError: when the record is incomplete, damaged, or of another trial.
        """
        folder = self.trials / trial
        path = folder / contract.TRIAL_FILE
        with storing("read", path):
            if folder.status() is None:
                return None
            with _open_published(path, MAX_RECORD_BYTES) as file:
                text = file.read(MAX_RECORD_BYTES)
        try:
            tree = json.loads(text)
            record = TrialRecord.model_validate(tree)
        except (ValueError, RecursionError):
            raise _damage_error(path, "is not a trial record") from None
        if record.digest != stored_digest(tree):
            raise _damage_error(path, "does not match its digest")
        if record.trial.name != trial:
            raise _damage_error(path, f"is of the trial {record.trial.name}")
        for name, digest in record.files.items():
            with storing("read", folder / name), _open_published(folder / name, _MAX_TABLE_BYTES) as file:
                sound = hashlib.file_digest(file, "sha256").hexdigest() == digest
            if not sound:
                raise _damage_error(folder / name, "does not match its checksum in trial.json")
        return record

    def sessions(self, points: Sequence[Point]) -> int:
        """Number of sessions that trials here were started in, also where nothing of them is left; at least one."""
        place = Within(self.path) / LEDGER_FILE
        with storing("read", self.path):
            noted = read_ledger(place.read(MAX_LEDGER_BYTES)).by_trial if place.status() is not None else {}
            return sessions_in([*self.trials.entries(), *self.work.entries(), *noted], points)

    def refuse_unfinished(self, names: Sequence[str]) -> None:
        """A session is added only to a bundle in which every trial has its record.

        Raises:
            InputError: when there is no bundle, or a trial has none.
        """
        if not (self.path / EXPERIMENT_FILE).exists():
            raise InputError(f"{self.path}: no bundle to add a session to: {EXPERIMENT_FILE} is missing")
        missing = [name for name in names if not (self.path / TRIALS / name / contract.TRIAL_FILE).exists()]
        if missing:
            raise InputError(
                f"{self.path}: cannot add a session: {few(missing)} of {count(len(names), 'trial')} not finished; "
                "finish it with --resume first"
            )

    def attempts(self, trial: str) -> tuple[list[AttemptFolder], int]:
        """See ``attempts_in``."""
        return attempts_in(self.work / trial)

    def begin_attempt(self, trial: str, number: int) -> AttemptFolder:
        folder = self.work / trial / f"attempt-{number}"
        durable.make_folder(folder)
        return AttemptFolder(folder, number)

    def discard(self, attempt: AttemptFolder) -> None:
        """Remove an interrupted attempt; its number stays used."""
        empty = attempt.folder.parent / f"discarded-{attempt.number}"
        durable.make_folder(empty)
        durable.remove(attempt.folder)

    def discard_damaged(self, trial: str, workers: int, ledger: LedgerFile) -> str | None:
        """Remove what torn papers make worthless of a trial's newest attempt; what was done, for the user.

        Only a disk's damage tears them. Without its report a run that was complete counts; all else is run again.
        """
        for attempt in self.attempts(trial)[0][-1:]:
            if attempt.result is not None:
                return None
            try:
                _ = attempt.started, attempt.exit
            except DamagedFileError as damaged:
                with suppress(DamagedFileError):
                    if attempt.started is not None and attempt.complete(workers):
                        durable.remove(attempt.folder / EXIT_FILE)
                        return f"{trial}: attempt {attempt.number} was complete and is kept: {damaged.finding}"
                if ledger.start_of(trial, attempt.number) is not None:
                    with storing("write", self.path / LEDGER_FILE):
                        ledger.discarded(trial, attempt.number, f"{damaged.place.name}: is damaged")
                self.discard(attempt)
                return f"{trial}: attempt {attempt.number} was thrown away and is run again: {damaged.finding}"
        return None

    def publish(self, trial: str, attempt: AttemptFolder) -> None:
        """Move a result into the bundle by one rename, then remove the attempts."""
        durable.rename(attempt.folder / RESULT, self.trials / trial)
        self.forget(trial)

    def forget(self, trial: str) -> None:
        durable.remove(self.work / trial)


def _link_among(places: Iterable[Within]) -> Within | None:
    """The first that is a link; nothing is looked for behind it."""
    return next((place for place in places if not place.parent.path.is_symlink() and place.path.is_symlink()), None)


@contextmanager
def _open_published(place: Within, limit: int) -> Iterator[io.BufferedIOBase]:
    """Open a file of a published trial; a missing one is empty."""
    try:
        with place.reading(limit) as file:
            yield file
    except FileNotFoundError:
        yield io.BytesIO()
    except UnsafePathError as error:
        raise _damage_error(place, str(error.strerror)) from error


def _damage_error(place: Within, problem: str) -> InputError:
    return InputError(f"{place}: {problem}; remove the folder {place.parent} to run that trial again")


def _refuse_difference(path: Path, text: bytes, experiment: ScalingExperiment) -> None:
    difference = first_difference(request_of(_read_experiment(path, text)), request_of(experiment))
    if difference is not None:
        raise InputError(f"{path}: cannot resume: this bundle is of another experiment: {difference}")


def _read_experiment(path: Path, text: bytes) -> ScalingExperiment:
    documents, problems = read_documents(text.decode("utf-8", "replace"), str(path))
    if problems:
        raise InputError(f"cannot resume: {problems[0]}")
    try:
        (there,) = (ScalingExperiment.model_validate(document.value) for document in documents)
    except ValueError as error:
        raise InputError(f"{path}: cannot resume: {first_error(error)}; scalecurve report reads it") from error
    return there
