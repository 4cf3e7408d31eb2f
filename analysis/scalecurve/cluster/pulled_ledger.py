"""What a pull enters into a bundle's ledger."""

from collections.abc import Iterable

from scalecurve.bundle.record_file import (
    EXPERIMENT_FILE,
    MAX_EXPERIMENT_BYTES,
    MAX_RECORD_BYTES,
    RECORD_FILE,
    parse_record,
)
from scalecurve.bundle.trial import TRIALS_FOLDER
from scalecurve.cluster.experiments import BegunTrial, Watched
from scalecurve_api.files import Within
from scalecurve_api.planning.plan import make_plan
from scalecurve_api.record.ledger import Entry, Event
from scalecurve_api.record.ledger_file import LedgerFile
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.spec.trial import TrialPhase


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
