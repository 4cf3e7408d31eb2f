"""The folder an experiment's records go to, and the engine's working state in it.

<bundle>/experiment.yaml                      as it was given
<bundle>/trials/<trial>/                      whole from the moment it appears (one rename)
<bundle>/.work/<trial>/attempt-K/             see ``attempt``; no part of the record
"""

from __future__ import annotations

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
from scalecurve_local.attempt import RESULT, Attempt, attempts_in
from scalecurve_local.durable import storing
from scalecurve_local.errors import BadInput, StorageError
from scalecurve_local.supervision.supervisor import remove_tree

EXPERIMENT_FILE = "experiment.yaml"
TRIALS = "trials"
WORK = ".work"
_SWITCHES = ("suspend", "cancel")


@dataclass(frozen=True)
class BundleFolder:
    """One bundle that this engine has locked."""

    path: Path

    @property
    def work(self) -> Path:
        """The engine's working state."""
        return self.path / WORK

    @property
    def lock_file(self) -> Path:
        """Locked while an engine, or what it started, is at work here."""
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
            raise StorageError(
                f"{self.path}: the bundle cannot be written, for {there} does not let this user; name another folder"
            )

    def prepare(self) -> None:
        """Make what the lock needs.

        Raises:
            StorageError: when it cannot be made.
        """
        durable.make_folder(self.work)

    def refuse_unless_empty(self) -> None:
        """Without --resume nothing that is there is touched.

        Raises:
            BadInput: when anything is in the folder.
        """
        with storing("read", self.path):
            found = sorted(entry.name for entry in self.path.iterdir()) if self.path.is_dir() else []
        if EXPERIMENT_FILE in found or WORK in found:
            raise BadInput(
                f"{self.path}: holds an experiment already; continue it with --resume, or name another folder"
            )
        if found:
            raise BadInput(f"{self.path}: is not empty (holds {found[0]}); name another folder for the bundle")

    def refuse_another(self, experiment: ScalingExperiment) -> None:
        """A bundle is resumed with its own experiment only; where there is none yet, any will do.

        Raises:
            BadInput: when the bundle is of another experiment, or cannot be read as one.
        """
        path = self.path / EXPERIMENT_FILE
        with storing("read", path):
            text = path.read_bytes() if path.exists() else None
        if text is not None:
            _same_experiment(path, text, experiment)

    def begin(self, experiment: ScalingExperiment, source: str, resume: bool) -> None:
        """Write the experiment into a new bundle, or make sure that this one is of the same experiment.

        Raises:
            BadInput: when the bundle is of another experiment, or cannot be read as one.
        """
        path = self.path / EXPERIMENT_FILE
        with storing("read", path):
            text = path.read_bytes() if path.exists() else None
        if text is not None and not resume:
            self.refuse_unless_empty()
        if text is None:
            strange = sorted(
                entry.name for entry in self.path.iterdir() if entry.name not in (WORK, f".{path.name}.new")
            )
            if strange:
                raise BadInput(
                    f"{self.path}: has no {EXPERIMENT_FILE} and holds {strange[0]}; it is no bundle to resume"
                )
            durable.write_file(path, source.encode())
        else:
            _same_experiment(path, text, experiment)
        durable.make_folder(self.path / TRIALS)

    def published(self, trial: str) -> TrialRecord | None:
        """The record of a finished trial.

        Raises:
            BadInput: when what is there is not whole, or not this trial's.
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
            raise _damaged(path, "is no trial record") from None
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

    def attempts(self, trial: str) -> tuple[list[Attempt], int]:
        """The attempts of a trial that count, oldest first, and the highest number used so far."""
        return attempts_in(self.work / trial)

    def begin_attempt(self, trial: str, number: int) -> Attempt:
        """A new, empty attempt folder."""
        folder = self.work / trial / f"attempt-{number}"
        durable.make_folder(folder)
        return Attempt(folder, number)

    def discard(self, attempt: Attempt) -> None:
        """Forget what an interrupted attempt left; its number stays used."""
        empty = attempt.folder.with_name(f"discarded-{attempt.number}")
        durable.make_folder(empty)
        order = attempt.order
        if order is not None:
            remove_tree(order.temporary)
        durable.remove(attempt.folder)

    def publish(self, trial: str, attempt: Attempt) -> None:
        """Let a kept result appear in the bundle: one rename; then forget the attempts."""
        durable.rename(attempt.folder / RESULT, self.path / TRIALS / trial)
        self.forget(trial)

    def forget(self, trial: str) -> None:
        """Remove the working state of a trial whose record is published."""
        durable.remove(self.work / trial)


def _damaged(path: Path, what: str) -> BadInput:
    return BadInput(f"{path}: {what}; remove the folder {path.parent} to run that trial again")


def _same_experiment(path: Path, text: bytes, experiment: ScalingExperiment) -> None:
    documents, problems = read_documents(text.decode("utf-8", "replace"), str(path))
    if problems:
        raise BadInput(f"cannot resume: {problems[0]}")
    try:
        (there,) = (ScalingExperiment.model_validate(document.value) for document in documents)
    except ValueError as error:
        raise BadInput(f"{path}: cannot resume, as this is no one ScalingExperiment: {error}") from error
    difference = first_difference(_request(there), _request(experiment))
    if difference is not None:
        raise BadInput(f"{path}: cannot resume, as this bundle is of another experiment: {difference}")


def _request(experiment: ScalingExperiment) -> dict[str, Any]:
    """What may not change once started: the spec, but for its switches."""
    spec = experiment.spec.wire()
    kept = {name: value for name, value in spec.items() if name not in _SWITCHES}
    return {"metadata": {"name": experiment.metadata.name}, "spec": kept}


def first_difference(there: Any, given: Any, path: str = "") -> str | None:
    """The first field in which two JSON values differ, in words; None when they are equal."""
    if isinstance(there, dict) and isinstance(given, dict):
        for name in sorted({*there, *given}):
            inner = f"{path}.{name}" if path else name
            if (found := first_difference(there.get(name), given.get(name), inner)) is not None:
                return found
        return None
    return None if there == given else f"{path} is {there!r} there and {given!r} here"
