"""Pull an experiment's records from a cluster into a bundle, with the layout and bytes that the local engine writes.

A trial's folder is built under ``.work`` and appears by one rename, so whatever ends a pull leaves whole trials and no
half one. A second pull fetches what is missing, and what was run anew since.
"""

import fcntl
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from scalecurve.bundle.files import FolderFiles
from scalecurve.bundle.problem import FileError
from scalecurve.bundle.record_file import (
    EXPERIMENT_FILE,
    MAX_EXPERIMENT_BYTES,
    MAX_RECORD_BYTES,
    RECORD_FILE,
    parse_experiment,
    parse_record,
)
from scalecurve.bundle.steps import MAX_TABLE_BYTES
from scalecurve.bundle.trial import TRIALS_FOLDER
from scalecurve.cluster.experiments import BegunTrial, Watched, begun, give_safe_names
from scalecurve.cluster.kept_record import RecordError, fetch
from scalecurve.cluster.status import last_attempt
from scalecurve_api.files import Within
from scalecurve_api.planning.plan import make_plan
from scalecurve_api.record.assemble import Assembled, assemble
from scalecurve_api.record.envelope import Envelope, digest
from scalecurve_api.record.journal import JournalError
from scalecurve_api.record.ledger import LEDGER_FILE, Entry, Event
from scalecurve_api.record.ledger_file import LedgerFile
from scalecurve_api.record.outcome import Outcome
from scalecurve_api.record.tables import EVALS_FILE, EXTREMES_FILE, STEPS_FILE
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.spec.secrets import experiment_without_secrets
from scalecurve_api.spec.trial import TrialPhase
from scalecurve_kube.blocking import BlockingCluster

_AT_ONCE = 4
_MADE = (RECORD_FILE, STEPS_FILE, EVALS_FILE, EXTREMES_FILE, "logs")
"""What an engine makes in a trial's folder, and a pull may replace."""

Progress = Callable[[int, int], None]


class PullError(Exception):
    """The folder belongs to something else; the message says what to do."""


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
    """Fetch the record of every ended trial that a bundle lacks.

    Args:
        cluster: The cluster.
        watched: The experiment in it.
        bundle: Folder of the bundle, which may have records already.
        progress: Called with the number of trials done and of all of them.

    Returns:
        What was fetched, what was there, and what is missing.

    Raises:
        PullError: when the folder holds something else, or another pull fills it.
        ClusterError: when the cluster cannot be asked, or a trial's name is no plain name: nothing is touched then.
        OSError: when the folder cannot be written.
    """
    report = progress or (lambda done, total: None)
    _refuse_foreign(bundle, watched)
    there = give_safe_names(begun(cluster, watched.name))
    root = Within(bundle)
    _refuse_links(root, there)
    with _lock_folder(root) as work:
        _write_experiment(root, watched)
        trials = root / TRIALS_FOLDER
        trials.make()
        ledger = open_ledger(root, watched)
        pulled = Pulled(bundle, int(watched.status.get("total") or 0))
        wanted = [trial for trial in there if _needs_fetch(trial, trials, pulled)]
        report(0, len(wanted))
        for done, (trial, outcome) in enumerate(_fetch_all(cluster, wanted, work, trials), start=1):
            if isinstance(outcome, str):
                pulled.failed[trial.trial] = outcome
            else:
                pulled.fetched.append(trial.trial)
                note(ledger, trial, outcome, outcome.stored())
                if outcome.left_out:
                    pulled.left_out[trial.trial] = outcome.left_out
            report(done, len(wanted))
        note_missing(ledger, [trial for trial in there if trial.trial in pulled.present], trials)
    for names in (pulled.fetched, pulled.present, pulled.unfinished, pulled.unrecorded):
        names.sort()
    return pulled


def _needs_fetch(trial: BegunTrial, trials: Within, pulled: Pulled) -> bool:
    """Whether the newest attempt's record must be fetched; otherwise note the trial's state."""
    name, attempt = trial.trial, last_attempt(trial.status)
    if not trial.phase.final:
        pulled.unfinished.append(name)
    elif attempt is None:
        pulled.unrecorded.append(name)
    elif _is_complete(trials / name, name, attempt):
        pulled.present.append(name)
    else:
        return True
    return False


def _is_complete(folder: Within, name: str, attempt: int) -> bool:
    """Whether the folder holds this attempt's record, with every table that belongs to it."""
    try:
        record = parse_record((folder / RECORD_FILE).read(MAX_RECORD_BYTES))
        sound = all(digest((folder / file).read(MAX_TABLE_BYTES)) == stated for file, stated in record.files.items())
    except (FileError, OSError):
        return False
    return sound and record.trial.name == name and record.attempt == attempt


def _fetch_all(
    cluster: BlockingCluster, selected: Sequence[BegunTrial], work: Within, trials: Within
) -> Iterator[tuple[BegunTrial, TrialRecord | str]]:
    """Each trial with its record, or with the reason why it was not fetched."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        running: dict[Future[TrialRecord], BegunTrial] = {
            pool.submit(_fetch_trial, cluster, trial, work, trials): trial for trial in selected
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


def _fetch_trial(cluster: BlockingCluster, trial: BegunTrial, work: Within, trials: Within) -> TrialRecord:
    """Fetch, check, assemble and place one trial."""
    outcome, envelope = fetch(cluster, trial)
    assembled = put_together(trial, outcome, envelope)
    target = trials / trial.trial
    if others := [name for name in target.entries() if name not in _MADE and not name.startswith(".")]:
        raise RecordError(f"{target} holds {others[0]}, which no engine made: move it away to fetch the trial again")
    building = work / trial.trial
    # An engine on one machine puts the ranks' logs here; from a cluster there are the last lines in the record.
    (building / "logs").make()
    for name, data in assembled.tables.items():
        (building / name).write(data)
    (building / RECORD_FILE).write(assembled.record.stored())
    if target.status() is not None:
        (work / "replaced").make()
        target.rename(work / "replaced" / trial.trial)
    building.rename(target)
    return assembled.record


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


def _refuse_foreign(bundle: Path, watched: Watched) -> None:
    if not bundle.exists():
        return
    if not bundle.is_dir():
        raise PullError(f"{bundle}: is a file; choose a folder with --into")
    if not (bundle / EXPERIMENT_FILE).exists():
        others = sorted(entry.name for entry in bundle.iterdir() if entry.name != ".work")
        if others:
            raise PullError(f"{bundle}: holds {others[0]} and no {EXPERIMENT_FILE}; choose another folder with --into")
        return
    try:
        there = parse_experiment(FolderFiles(bundle).read(EXPERIMENT_FILE, MAX_EXPERIMENT_BYTES))
    except FileError as error:
        raise PullError(f"{bundle}/{EXPERIMENT_FILE}: {error}; choose another folder with --into") from error
    if there.metadata.name != watched.name:
        raise PullError(f"{bundle}: belongs to {there.metadata.name}; choose another folder with --into")
    if there.metadata.uid != watched.experiment.metadata.uid:
        was = "another experiment of this name" if there.metadata.uid else "an experiment that ran on one machine"
        raise PullError(f"{bundle}: belongs to {was}; choose another folder with --into")


def _refuse_links(root: Within, trials: Sequence[BegunTrial]) -> None:
    """No engine makes a link here, and through one a pull would write or remove what is not the bundle's."""
    work, records = root / ".work", root / TRIALS_FOLDER
    made = [
        work,
        work / "lock",
        work / "pull",
        root / LEDGER_FILE,
        records,
        *(records / trial.trial for trial in trials),
    ]
    for place in made:
        if (status := place.status()) is not None and stat.S_ISLNK(status.st_mode):
            raise PullError(
                f"{place}: is a link to {os.readlink(place.path)}, and no engine makes one in a bundle: "
                "copy what it points to into its place, or choose another folder with --into"
            )


def _write_experiment(root: Within, watched: Watched) -> None:
    """The experiment as the cluster keeps it; ``uid`` tells it from another of the same name."""
    experiment = experiment_without_secrets(watched.experiment)
    identity = {"name": watched.name, "namespace": watched.namespace, "uid": experiment.metadata.uid}
    document = {
        "apiVersion": experiment.api_version,
        "kind": experiment.kind,
        "metadata": {name: value for name, value in identity.items() if value is not None},
        "spec": experiment.spec.model_dump(mode="json", by_alias=True, exclude_unset=True),
    }
    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True).encode()
    place = root / EXPERIMENT_FILE
    if place.status() is None or place.read(MAX_EXPERIMENT_BYTES) != text:
        (root / ".work" / EXPERIMENT_FILE).write(text)
        (root / ".work" / EXPERIMENT_FILE).rename(place)


@contextmanager
def _lock_folder(root: Within) -> Iterator[Within]:
    """An empty folder to build in; the lock is the one that an engine takes, and goes with this process."""
    (root / ".work").make()
    lock = (root / ".work" / "lock").descriptor(os.O_RDWR | os.O_CREAT)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise PullError(f"{root}: another pull or run is using it; wait, or use --into") from None
        work = root / ".work" / "pull"
        work.remove()
        work.make()
        try:
            yield work
        finally:
            work.remove()
    finally:
        os.close(lock)


def open_ledger(root: Within, watched: Watched) -> LedgerFile:
    """The bundle's ledger, which knows the experiment as it now is, and the records of a bundle that had no ledger."""
    ledger, trials = LedgerFile(root.path), root / TRIALS_FOLDER
    places = {} if ledger.ledger.lines else {name: trials / name / RECORD_FILE for name in trials.entries()}
    records = {name: place.read(MAX_RECORD_BYTES) for name, place in places.items() if place.status() is not None}
    ledger.begin((root / EXPERIMENT_FILE).read(MAX_EXPERIMENT_BYTES), make_plan(watched.experiment).trials, records)
    return ledger


def note(ledger: LedgerFile, trial: BegunTrial, record: TrialRecord, stored: bytes) -> None:
    """Enter a record, and before it the attempts that the cluster threw away for it."""
    for attempt in trial.status.get("history") or []:
        number, phase = int(attempt["attempt"]), TrialPhase(attempt["phase"])
        known = any(entry.attempt == number for entry in ledger.ledger.of(Event.ended, trial=trial.trial))
        if number < record.attempt and not known:
            reason = attempt.get("reason")
            ledger.append(Entry(event=Event.ended, trial=trial.trial, attempt=number, phase=phase, reason=reason))
    ledger.ended(record, stored, Event.pulled)


def note_missing(ledger: LedgerFile, present: Iterable[BegunTrial], trials: Within) -> None:
    """Enter records that an earlier pull placed, and was killed before it told."""
    noted = ledger.ledger.standing()
    for trial in present:
        if trial.trial not in noted:
            data = (trials / trial.trial / RECORD_FILE).read(MAX_RECORD_BYTES)
            note(ledger, trial, parse_record(data), data)
