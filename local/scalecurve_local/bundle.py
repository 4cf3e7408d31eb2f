"""The folder of an experiment's records, and the engine's working state in it.

<bundle>/experiment.yaml                      the user's file, unchanged
<bundle>/trials/<trial>/                      complete when it appears (one rename)
<bundle>/.work/<trial>/attempt-K/             see ``attempt``; not part of the record
"""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from scalecurve_api import contract
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.spec.experiment import ScalingExperiment
from scalecurve_api.validation.document import read_documents
from scalecurve_local import durable
from scalecurve_local.attempt import RESULT, AttemptFolder, attempts_in
from scalecurve_local.durable import storing
from scalecurve_local.errors import BadInput, StorageError
from scalecurve_local.supervision.supervisor import remove_tree

EXPERIMENT_FILE = "experiment.yaml"
TRIALS = "trials"
WORK = ".work"
_SWITCHES = ("suspend", "cancel")


@dataclass(frozen=True)
class BundleFolder:
    """The bundle of a run."""

    path: Path

    @property
    def work(self) -> Path:
        return self.path / WORK

    @property
    def lock_file(self) -> Path:
        """Locked while an engine, or a process it started, uses this bundle."""
        return self.work / "lock"

    def refuse_unless_writable(self) -> None:
        """Checked before the run waits for devices.

        Raises:
            BadInput: when the path is a file.
            StorageError: when this user may not write to the folder, or to its nearest existing parent.
        """
        if self.path.exists() and not self.path.is_dir():
            raise BadInput(
                f"{self.path}: is a file, and a run writes a folder: name another "
                "(a packed bundle is resumed in the folder that `scalecurve unpack` writes)"
            )
        there = next(folder for folder in (self.path, *self.path.parents) if os.path.exists(folder))
        if os.path.isdir(there) and not os.access(there, os.W_OK | os.X_OK):
            raise StorageError(f"{self.path}: this user may not write to {there}; name another folder")

    def prepare(self) -> None:
        """Create the folder of the lock.

        Raises:
            StorageError: when it cannot be created.
        """
        durable.make_folder(self.work)

    def refuse_unless_empty(self) -> None:
        """Without --resume an existing folder must be empty.

        Raises:
            BadInput: when it is not.
        """
        with storing("read", self.path):
            names = sorted(entry.name for entry in self.path.iterdir()) if self.path.is_dir() else []
        if EXPERIMENT_FILE in names or WORK in names:
            raise BadInput(
                f"{self.path}: already holds an experiment; continue it with --resume, or name another folder"
            )
        if names:
            raise BadInput(f"{self.path}: is not empty (it holds {names[0]}); name another folder for the bundle")

    def refuse_another(self, experiment: ScalingExperiment) -> None:
        """A bundle is resumed only with its own experiment; an empty one accepts any.

        Raises:
            BadInput: when the bundle holds another experiment, or its file cannot be read.
        """
        path, text = self._experiment()
        if text is not None:
            _refuse_difference(path, text, experiment)

    def _experiment(self) -> tuple[Path, bytes | None]:
        path = self.path / EXPERIMENT_FILE
        with storing("read", path):
            return path, path.read_bytes() if path.exists() else None

    def begin(self, experiment: ScalingExperiment, source: str, resume: bool) -> None:
        """Write the experiment into a new bundle, or check that this bundle is of the same experiment.

        Raises:
            BadInput: when the bundle holds another experiment, or its file cannot be read.
        """
        path, text = self._experiment()
        if text is not None and not resume:
            self.refuse_unless_empty()
        if text is None:
            own = (WORK, f".{path.name}.")  # the second is left where a kill interrupted an atomic write
            others = sorted(entry.name for entry in self.path.iterdir() if not entry.name.startswith(own))
            if others:
                raise BadInput(f"{self.path}: holds {others[0]} and no {EXPERIMENT_FILE}: not a bundle to resume")
            durable.write_file(path, source.encode())
        else:
            _refuse_difference(path, text, experiment)
        durable.make_folder(self.path / TRIALS)

    def published(self, trial: str) -> TrialRecord | None:
        """The record of a finished trial; None if it has none.

        Raises:
            BadInput: when the record is incomplete, damaged, or of another trial.
        """
        folder = self.path / TRIALS / trial
        path = folder / contract.TRIAL_FILE
        with storing("read", path):
            if not folder.exists():
                return None
            text = path.read_bytes() if path.exists() else b""
        try:
            record = TrialRecord.model_validate_json(text)
        except ValidationError:
            raise _damaged(path, "is not a trial record") from None
        if record.digest != record.compute_digest():
            raise _damaged(path, "does not match its digest")
        if record.trial.name != trial:
            raise _damaged(path, f"is of the trial {record.trial.name}")
        for name, digest in record.files.items():
            with storing("read", folder / name):
                data = (folder / name).read_bytes() if (folder / name).exists() else b""
            if hashlib.sha256(data).hexdigest() != digest:
                raise _damaged(folder / name, "does not match its checksum in trial.json")
        return record

    def attempts(self, trial: str) -> tuple[list[AttemptFolder], int]:
        """See ``attempts_in``."""
        return attempts_in(self.work / trial)

    def begin_attempt(self, trial: str, number: int) -> AttemptFolder:
        folder = self.work / trial / f"attempt-{number}"
        durable.make_folder(folder)
        return AttemptFolder(folder, number)

    def discard(self, attempt: AttemptFolder) -> None:
        """Remove an interrupted attempt; its number stays used."""
        empty = attempt.folder.with_name(f"discarded-{attempt.number}")
        durable.make_folder(empty)
        order = attempt.order
        if order is not None:
            remove_tree(order.temporary)
        durable.remove(attempt.folder)

    def publish(self, trial: str, attempt: AttemptFolder) -> None:
        """Move a result into the bundle by one rename, then remove the attempts."""
        durable.rename(attempt.folder / RESULT, self.path / TRIALS / trial)
        self.forget(trial)

    def forget(self, trial: str) -> None:
        durable.remove(self.work / trial)


def _damaged(path: Path, problem: str) -> BadInput:
    return BadInput(f"{path}: {problem}; remove the folder {path.parent} to run that trial again")


def _refuse_difference(path: Path, text: bytes, experiment: ScalingExperiment) -> None:
    documents, problems = read_documents(text.decode("utf-8", "replace"), str(path))
    if problems:
        raise BadInput(f"cannot resume: {problems[0]}")
    try:
        (there,) = (ScalingExperiment.model_validate(document.value) for document in documents)
    except ValueError as error:
        raise BadInput(f"{path}: cannot resume: not a single ScalingExperiment: {error}") from error
    difference = first_difference(_request(there), _request(experiment))
    if difference is not None:
        raise BadInput(f"{path}: cannot resume: this bundle is of another experiment: {difference}")


def _request(experiment: ScalingExperiment) -> dict[str, Any]:
    """What may not change after the start: the spec without its switches."""
    spec = experiment.spec.wire()
    kept = {name: value for name, value in spec.items() if name not in _SWITCHES}
    return {"metadata": {"name": experiment.metadata.name}, "spec": kept}


def first_difference(stored: Any, requested: Any, path: str = "") -> str | None:
    """Describe the first field in which two JSON values differ; None if they are equal."""
    if isinstance(stored, dict) and isinstance(requested, dict):
        for name in sorted({*stored, *requested}):
            inner = f"{path}.{name}" if path else name
            if (difference := first_difference(stored.get(name), requested.get(name), inner)) is not None:
                return difference
        return None
    return None if stored == requested else f"{path} is {stored!r} there and {requested!r} here"
