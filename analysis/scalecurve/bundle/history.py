"""A bundle's ledger held against its files: was the experiment changed, and was anything removed or run again?"""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from scalecurve.bundle.files import BundleFiles
from scalecurve.bundle.problem import FileError
from scalecurve.bundle.record_file import EXPERIMENT_FILE, MAX_EXPERIMENT_BYTES
from scalecurve_api.planning.difference import restricted
from scalecurve_api.planning.plan import make_plan
from scalecurve_api.record.ledger import (
    LEDGER_FILE,
    MAX_LEDGER_BYTES,
    Entry,
    Event,
    Ledger,
    plan_digest,
    read_ledger,
)
from scalecurve_api.record.ledger_file import REMOVED
from scalecurve_api.spec.experiment import ScalingExperiment
from scalecurve_api.text import count, few


@dataclass(frozen=True)
class Claim:
    """Something that a bundle claims by being there; ``holds`` is None where that cannot be known."""

    what: str
    holds: bool | None
    detail: str


@dataclass(frozen=True)
class Stored:
    """A ``trial.json`` as it is on disk, and the entry of the ledger that its record names."""

    sha256: str
    ledger: str | None = None


def history(
    files: BundleFiles, experiment: ScalingExperiment | None, stored: Mapping[str, Stored]
) -> tuple[Ledger | None, tuple[Claim, ...]]:
    """The bundle's ledger, None where there is none, and what it says of the files.

    ``stored`` has every trial's record by its folder.
    """
    try:
        ledger = _ledger(files)
    except FileError as error:
        return None, (Claim("ledger", False, f"{LEDGER_FILE}: {error}"),)
    return ledger, tuple(_claims(ledger, files, experiment, stored))


def trials_noted(files: BundleFiles) -> list[str]:
    """Names of the trials that the ledger knows, also of those that left nothing else."""
    with suppress(FileError):
        return list(ledger.by_trial) if (ledger := _ledger(files)) else []
    return []


def _ledger(files: BundleFiles) -> Ledger | None:
    return read_ledger(files.read(LEDGER_FILE, MAX_LEDGER_BYTES)) if LEDGER_FILE in files.entries("") else None


def _claims(
    ledger: Ledger | None, files: BundleFiles, experiment: ScalingExperiment | None, stored: Mapping[str, Stored]
) -> Iterator[Claim]:
    if ledger is None:
        named = sorted(name for name, record in stored.items() if record.ledger)
        detail = f"no {LEDGER_FILE}: what was thrown away or changed since is not known"
        if named:
            detail = f"no {LEDGER_FILE}, but the record of {few(named)} names an entry of it: it was removed"
        yield Claim("ledger", False if named else None, detail)
        return
    detail = "; ".join(ledger.breaks) or f"{count(ledger.lines, 'line')}, each follows from the one before"
    yield Claim("ledger", not ledger.breaks, detail)
    yield _experiment(ledger, files, experiment)
    yield _records(ledger, stored, {name for name in ledger.by_trial if files.entries(f".work/{name}")})
    yield _attempts(ledger)
    if sources := [name for entry in ledger.of(Event.imported) for name in entry.sources or {}]:
        yield Claim("origin", None, f"imported from {few(sources)}: ScaleCurve observed none of these runs")


def _experiment(ledger: Ledger, files: BundleFiles, experiment: ScalingExperiment | None) -> Claim:
    noted = ledger.of(Event.experiment, Event.points)
    try:
        digest = hashlib.sha256(files.read(EXPERIMENT_FILE, MAX_EXPERIMENT_BYTES)).hexdigest()
    except FileError as error:
        return Claim("experiment", False, f"{EXPERIMENT_FILE}: {error}")
    if not noted:
        return Claim("experiment", False, f"the ledger does not name {EXPERIMENT_FILE}")
    if digest != noted[-1].sha256:
        same = experiment is not None and plan_digest(make_plan(experiment).trials) == noted[-1].plan
        what = "the trials that it plans are the same" if same else "price, windows, repetitions or workload differ"
        return Claim("experiment", False, f"{EXPERIMENT_FILE} was changed after {noted[-1].at}: {what}")
    grown = ledger.of(Event.points)
    known = {noted[-1].plan, *_plans_before(experiment, grown)}
    if any(entry.plan not in known for entry in noted):
        changed = next(entry for entry in noted if entry.plan != noted[0].plan)
        return Claim("experiment", False, f"{EXPERIMENT_FILE} was changed before {changed.at}, between two trials")
    which = "describes what was imported" if ledger.of(Event.imported) else "is the one that was run"
    later = f"; points were added {few(entry.at[:16].replace('T', ' ') for entry in grown)} UTC" if grown else ""
    return Claim("experiment", True, f"{EXPERIMENT_FILE} {which}{later}")


def _plans_before(experiment: ScalingExperiment | None, grown: Iterable[Entry]) -> Iterator[str]:
    """The plans that the experiment had before points were added, worked out from what it is now."""
    for entry in grown:
        if experiment is None:
            return
        with suppress(ValueError):
            yield plan_digest(make_plan(restricted(experiment, entry.workers or [], entry.layouts or [])).trials)


def _records(ledger: Ledger, stored: Mapping[str, Stored], open_trials: Collection[str]) -> Claim:
    """Whether the records are those that were written; ``open_trials`` may have an attempt to come."""
    standing = ledger.standing()
    starts = {entry.digest for entry in ledger.of(Event.started)}
    wrong = {
        "is missing": [name for name in standing if name not in stored and name not in open_trials],
        "is not the one that was recorded": [
            name for name, (_, digest) in standing.items() if name in stored and stored[name].sha256 != digest
        ],
        "is not in the ledger": [
            name
            for name, record in stored.items()
            if name not in standing or (record.ledger is not None and record.ledger not in starts)
        ],
    }
    problems = [f"the record of {few(sorted(names))} {what}" for what, names in wrong.items() if names]
    detail = "; ".join(problems) or f"{count(len(standing), 'record')}, each as the ledger has it"
    return Claim("records", not problems, detail)


def _attempts(ledger: Ledger) -> Claim:
    """Attempts that were thrown away: after they had ended, or by an interruption."""
    discarded = ledger.of(Event.discarded)
    again = [entry for entry in discarded if entry.why == REMOVED]
    ended = {(entry.trial, entry.attempt): entry for entry in ledger.of(Event.ended, Event.pulled)}
    parts = [
        f"{entry.trial} was run again: {_describe_removal(ended.get((entry.trial, entry.attempt)), entry)}"
        for entry in again
    ]
    parts += _describe_fate("interrupted and thrown away", (e for e in discarded if e.why != REMOVED))
    superseded = [e for e in ended.values() if e.phase and e.trial and (e.attempt or 0) < _last(ledger, e.trial)]
    gone = {(entry.trial, entry.attempt) for entry in again}
    parts += _describe_fate("followed by a retry", (e for e in superseded if (e.trial, e.attempt) not in gone))
    return Claim("attempts", not again, "; ".join(parts) or "none was thrown away")


def _last(ledger: Ledger, trial: str) -> int:
    return max(entry.attempt or 0 for entry in ledger.by_trial[trial])


def _describe_removal(ended: Entry | None, discarded: Entry) -> str:
    what = f"attempt {discarded.attempt}"
    if ended is not None and ended.phase is not None:
        what += f" ({ended.phase.value}" + (f", {ended.throughput:.6g}/s)" if ended.throughput else ")")
    return f"{what} was removed after it had ended"


def _describe_fate(fate: str, entries: Iterable[Entry]) -> list[str]:
    names = [f"{entry.trial}, attempt {entry.attempt}" for entry in entries]
    return [f"{count(len(names), 'attempt')} {fate}: {few(names)}"] if names else []
