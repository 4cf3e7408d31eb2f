"""Pull an experiment's records from a cluster into a bundle, with the layout and bytes that the local engine writes.

A trial's folder is built under ``.work`` and appears by one rename, so whatever ends a pull leaves whole trials and no
half one. A second pull fetches what is missing, and what was run anew since.
"""

import base64
import binascii
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from scalecurve.bundle.files import read_bytes
from scalecurve.bundle.open import TRIALS_FOLDER
from scalecurve.bundle.problem import FileError
from scalecurve.bundle.record_file import (
    EXPERIMENT_FILE,
    MAX_EXPERIMENT_BYTES,
    MAX_RECORD_BYTES,
    RECORD_FILE,
    parse_experiment,
    parse_record,
)
from scalecurve.cluster.experiments import BegunTrial, Watched, begun
from scalecurve.cluster.status import last_attempt
from scalecurve_api.files import sync_folder
from scalecurve_api.record.assemble import Assembled, assemble
from scalecurve_api.record.envelope import Envelope, EnvelopeError, digest, unseal
from scalecurve_api.record.journal import JournalError
from scalecurve_api.record.outcome import Outcome
from scalecurve_api.record.tables import sha256
from scalecurve_api.spec.object_names import OUTCOME_KEY, RECORD_KEY, record_name
from scalecurve_api.spec.trial import TrialPhase
from scalecurve_kube.blocking import BlockingCluster
from scalecurve_kube.resources import CONFIG_MAPS

_AT_ONCE = 4

Progress = Callable[[int, int], None]


class BundleRefused(Exception):
    """The folder belongs to something else; the message says what to do."""


class RecordError(Exception):
    """A trial's record is missing from the cluster or incomplete."""


@dataclass
class Pulled:
    """What a pull did, by name of trial."""

    bundle: Path
    planned: int
    fetched: list[str] = field(default_factory=list)
    present: list[str] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)
    """Begun, and not ended yet (or between two attempts)."""
    unrecorded: list[str] = field(default_factory=list)
    """Ended without an attempt whose result was kept: cancelled before it ran."""
    left_out: dict[str, list[str]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    """Why the record could not be had."""

    @property
    def to_come(self) -> int:
        begun = len(self.fetched) + len(self.present) + len(self.unfinished) + len(self.unrecorded) + len(self.failed)
        return max(0, self.planned - begun)


def pull(cluster: BlockingCluster, watched: Watched, bundle: Path, progress: Progress | None = None) -> Pulled:
    """Fetch the record of every ended trial that ``bundle`` lacks; ``progress`` gets done and total trials.

    Raises:
        BundleRefused: when the folder holds something else, or another pull fills it.
        ClusterError: when the cluster cannot be asked.
        OSError: when the folder cannot be written.
    """
    report = progress or (lambda done, total: None)
    _refuse_foreign(bundle, watched)
    with _locked(bundle) as work:
        _write_experiment(bundle, watched)
        trials = bundle / TRIALS_FOLDER
        trials.mkdir(exist_ok=True)
        pulled = Pulled(bundle, int(watched.status.get("total") or 0))
        wanted = [trial for trial in begun(cluster, watched.name) if _wanted(trial, trials, pulled)]
        report(0, len(wanted))
        for done, (trial, outcome) in enumerate(_each(cluster, wanted, work, trials), start=1):
            if isinstance(outcome, str):
                pulled.failed[trial.trial] = outcome
            else:
                pulled.fetched.append(trial.trial)
                if outcome:
                    pulled.left_out[trial.trial] = outcome
            report(done, len(wanted))
    for names in (pulled.fetched, pulled.present, pulled.unfinished, pulled.unrecorded):
        names.sort()
    return pulled


def _wanted(trial: BegunTrial, trials: Path, pulled: Pulled) -> bool:
    """Whether the newest attempt's record must be fetched; otherwise note the trial's state."""
    name, attempt = trial.trial, last_attempt(trial.status)
    if not trial.phase.final:
        pulled.unfinished.append(name)
    elif attempt is None:
        pulled.unrecorded.append(name)
    elif _whole(trials / name, name, attempt):
        pulled.present.append(name)
    else:
        return True
    return False


def _whole(folder: Path, name: str, attempt: int) -> bool:
    """Whether the folder holds this attempt's record, with every table that belongs to it."""
    try:
        record = parse_record(read_bytes(folder / RECORD_FILE, MAX_RECORD_BYTES))
        sound = all(sha256((folder / file).read_bytes()) == stated for file, stated in record.files.items())
    except (FileError, OSError):
        return False
    return sound and record.trial.name == name and record.attempt == attempt


def _each(
    cluster: BlockingCluster, selected: Sequence[BegunTrial], work: Path, trials: Path
) -> Iterator[tuple[BegunTrial, list[str] | str]]:
    """Each trial with the tables missing from its record, or with the reason why it was not fetched."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        running: dict[Future[list[str]], BegunTrial] = {
            pool.submit(_one, cluster, trial, work, trials): trial for trial in selected
        }
        try:
            for future in as_completed(running):
                try:
                    yield running[future], future.result()
                except RecordError as error:
                    yield running[future], str(error)
        finally:
            for future in running:
                future.cancel()


def _one(cluster: BlockingCluster, trial: BegunTrial, work: Path, trials: Path) -> list[str]:
    """Fetch, check, assemble and place one trial; returns the tables missing from its record."""
    outcome, envelope = fetch(cluster, trial)
    assembled = put_together(trial, outcome, envelope)
    building = work / trial.trial
    shutil.rmtree(building, ignore_errors=True)
    # An engine on one machine puts the ranks' logs here; from a cluster there are the last lines in the record.
    (building / "logs").mkdir(parents=True)
    for name, data in assembled.tables.items():
        _write(building / name, data)
    _write(building / RECORD_FILE, assembled.record.stored())
    sync_folder(building)
    target = trials / trial.trial
    if target.exists():
        shutil.rmtree(work / "replaced" / trial.trial, ignore_errors=True)
        (work / "replaced").mkdir(exist_ok=True)
        os.rename(target, work / "replaced" / trial.trial)
    os.rename(building, target)
    sync_folder(trials)
    return assembled.record.left_out


def fetch(cluster: BlockingCluster, trial: BegunTrial) -> tuple[Outcome, Envelope | None]:
    """What the operator observed of the newest kept attempt, and what its ranks left, where that is there.

    Raises:
        RecordError: when something is gone, damaged, or of another attempt.
    """
    attempt = last_attempt(trial.status)
    assert attempt is not None
    kept: Mapping[str, Any] = trial.status.get("record") or {}
    names = list(kept.get("configMaps") or [record_name(trial.name, attempt, 0)])
    parts: list[bytes] = []
    outcome: Outcome | None = None
    for index, name in enumerate(names):
        document = cluster.get(CONFIG_MAPS, name)
        if document is None:
            raise RecordError(f"ConfigMap {name} is gone: the record was deleted in the cluster")
        try:
            parts.append(base64.b64decode((document.get("binaryData") or {}).get(RECORD_KEY, ""), validate=True))
            if index == 0:
                outcome = Outcome.model_validate_json((document.get("data") or {})[OUTCOME_KEY])
        except (binascii.Error, ValidationError, KeyError) as error:
            raise RecordError(f"ConfigMap {name} is damaged: {_brief(error)}") from error
    assert outcome is not None
    if outcome.attempt != attempt:
        raise RecordError(f"ConfigMap {names[0]} is from attempt {outcome.attempt}, but the trial's last is {attempt}")
    return outcome, _unsealed(trial, attempt, b"".join(parts), kept)


def put_together(trial: BegunTrial, outcome: Outcome, envelope: Envelope | None) -> Assembled:
    """The record and its tables, as the operator judged them.

    Raises:
        RecordError: when a journal is none, or this version judges otherwise than the operator did.
    """
    left = envelope or Envelope(trial.trial, outcome.attempt, {}, {})
    try:
        assembled = assemble(trial.spec, left.ranks, left.journals, outcome, left.left_out)
    except JournalError as error:
        raise RecordError(f"the record holds a damaged step journal: {error}") from error
    judged = assembled.record
    if envelope is None and judged.phase is TrialPhase.invalid and outcome.message:
        # As the operator says it: the ranks' own words are missing, why they are is known from outside.
        judged = judged.model_copy(update={"message": f"{judged.message}: {outcome.message}"}).sealed()
        assembled = Assembled(judged, assembled.tables)
    if judged.phase is not trial.phase:
        raise RecordError(
            f"the operator judged it {trial.phase.value}, this version of scalecurve {judged.phase.value} "
            f"({judged.reason}): install the operator's version"
        )
    return assembled


def _unsealed(trial: BegunTrial, attempt: int, payload: bytes, kept: Mapping[str, Any]) -> Envelope | None:
    """The checked envelope; None where the ranks left nothing."""
    if not payload and not kept.get("bytes"):
        return None
    if digest(payload) != kept.get("sha256"):
        raise RecordError(
            f"the record's {len(payload)} bytes have sha256 {digest(payload)}, and the trial's status says "
            f"{kept.get('bytes')} bytes with {kept.get('sha256')}: it was changed or damaged in the cluster"
        )
    try:
        envelope = unseal(payload)
    except EnvelopeError as error:
        raise RecordError(f"the record cannot be opened: {error}") from error
    if (envelope.trial, envelope.attempt) != (trial.trial, attempt):
        raise RecordError(f"the record is of {envelope.trial}, attempt {envelope.attempt}")
    return envelope


def _refuse_foreign(bundle: Path, watched: Watched) -> None:
    if not bundle.exists():
        return
    if not bundle.is_dir():
        raise BundleRefused(f"{bundle}: is a file; choose a folder with --into")
    if not (bundle / EXPERIMENT_FILE).exists():
        others = sorted(entry.name for entry in bundle.iterdir() if entry.name != ".work")
        if others:
            raise BundleRefused(
                f"{bundle}: holds {others[0]} and no {EXPERIMENT_FILE}; choose another folder with --into"
            )
        return
    try:
        there = parse_experiment(read_bytes(bundle / EXPERIMENT_FILE, MAX_EXPERIMENT_BYTES))
    except FileError as error:
        raise BundleRefused(f"{bundle}/{EXPERIMENT_FILE}: {error}; choose another folder with --into") from error
    if there.metadata.name != watched.name:
        raise BundleRefused(f"{bundle}: belongs to {there.metadata.name}; choose another folder with --into")
    if there.metadata.uid != watched.experiment.metadata.uid:
        was = "another experiment of this name" if there.metadata.uid else "an experiment that ran on one machine"
        raise BundleRefused(f"{bundle}: belongs to {was}; choose another folder with --into")


def _write_experiment(bundle: Path, watched: Watched) -> None:
    """The experiment as the cluster keeps it; ``uid`` tells it from another of the same name."""
    experiment = watched.experiment
    identity = {"name": watched.name, "namespace": watched.namespace, "uid": experiment.metadata.uid}
    document = {
        "apiVersion": experiment.api_version,
        "kind": experiment.kind,
        "metadata": {name: value for name, value in identity.items() if value is not None},
        "spec": experiment.spec.model_dump(mode="json", by_alias=True, exclude_unset=True),
    }
    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True).encode()
    path = bundle / EXPERIMENT_FILE
    if not path.exists() or path.read_bytes() != text:
        _write(bundle / ".work" / EXPERIMENT_FILE, text)
        os.rename(bundle / ".work" / EXPERIMENT_FILE, path)
        sync_folder(bundle)


@contextmanager
def _locked(bundle: Path) -> Iterator[Path]:
    """An empty folder to build in; the lock is the one that an engine takes, and goes with this process."""
    (bundle / ".work").mkdir(parents=True, exist_ok=True)
    with (bundle / ".work" / "lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BundleRefused(f"{bundle}: another pull or run is using it; wait, or use --into") from None
        work = bundle / ".work" / "pull"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        try:
            yield work
        finally:
            shutil.rmtree(work, ignore_errors=True)


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _brief(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"it has no {error.args[0]}"
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return str(error)
