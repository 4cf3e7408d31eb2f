"""``ledger.jsonl``: what happened to a bundle, also what was thrown away, as a chain of digests.

One JSON object a line: ``n`` from 0, ``at`` in UTC, ``event`` with fields of its own, ``previous``, the digest of the
line before, and ``digest``, the sha256 of the line's canonical JSON without it. Lines are only ever appended. The chain
shows a line that was changed, dropped or moved; who writes all of it anew has a sound one again, which only a signature
of the last digest shows.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from typing import Any

from scalecurve_api.model import Model, canonical_json, understood
from scalecurve_api.spec.trial import TrialPhase, TrialSpec

LEDGER_FILE = "ledger.jsonl"
MAX_LEDGER_BYTES = 64 << 20
PREDICTIONS_FOLDER = "predictions"


class Event(StrEnum):
    """What a line tells."""

    experiment = "experiment"
    """experiment.yaml as it is from here on"""
    points = "points-added"
    """the same, with worker counts that the experiment did not have before"""
    adopted = "adopted"
    """records that were there before the ledger"""
    imported = "imported"
    """records made from files of others"""
    session = "session"
    resumed = "resumed"
    started = "attempt-started"
    ended = "attempt-ended"
    discarded = "attempt-discarded"
    pulled = "pulled"
    predicted = "predicted"
    """what a point will take, written down; before its run if the line is before the attempt's"""


class Entry(Model):
    """What one line says; ``n``, ``at``, ``previous`` and ``digest`` come with appending it."""

    event: str
    n: int = 0
    at: str = ""
    previous: str = ""
    digest: str = ""
    sha256: str | None = None
    """Of experiment.yaml, or of a record's trial.json."""
    plan: str | None = None
    """See ``plan_digest``."""
    session: int | None = None
    paired: str | None = None
    """See ``TrialRecord.paired``."""
    host: str | None = None
    version: str | None = None
    trial: str | None = None
    attempt: int | None = None
    phase: TrialPhase | None = None
    reason: str | None = None
    throughput: float | None = None
    why: str | None = None
    records: dict[str, str] | None = None
    """Of adopted and imported records, by trial: sha256 of trial.json."""
    workers: list[int] | None = None
    """Of added points: the worker counts of the experiment before them."""
    layouts: list[str] | None = None
    """Of added points: its layouts."""
    sources: dict[str, str] | None = None
    """Of imported files, by name: sha256."""
    predictions: dict[str, str] | None = None
    """Files in ``predictions/`` of the bundle, by name: sha256."""


@dataclass
class Ledger:
    """The entries in order, and where the chain is broken; ``digest`` is the last line's."""

    entries: list[Entry] = field(default_factory=list)
    breaks: list[str] = field(default_factory=list)
    by_trial: dict[str, list[Entry]] = field(default_factory=dict)
    lines: int = 0
    digest: str = ""

    def add(self, line: bytes) -> None:
        """One more line; what is wrong with it becomes a break."""
        self.lines += 1
        previous, self.digest = self.digest, "?"
        try:
            wire = json.loads(line)
            entry = understood(Entry, wire)[0]
        except (ValueError, TypeError, KeyError, RecursionError):
            self.breaks.append(f"line {self.lines} is not an entry of a ledger")
            return
        if entry.digest != _digest(wire):
            self.breaks.append(
                f"line {self.lines} ({entry.event}) does not match its digest: it was changed after it was written"
            )
        elif (entry.previous, entry.n) != (previous, self.lines - 1):
            self.breaks.append(f"line {self.lines} ({entry.event}) does not follow the line before it: one is missing")
        self.digest = entry.digest
        self.entries.append(entry)
        if entry.trial is not None:
            self.by_trial.setdefault(entry.trial, []).append(entry)

    def line(self, entry: Entry, at: str) -> bytes:
        """The line by which ``entry`` would follow."""
        wire = entry.model_copy(update={"n": self.lines, "previous": self.digest, "at": at}).wire()
        return canonical_json({**wire, "digest": _digest(wire)}).encode() + b"\n"

    def of(self, *events: Event, trial: str | None = None) -> list[Entry]:
        """Entries of these events, of one trial or of all."""
        entries = self.entries if trial is None else self.by_trial.get(trial, [])
        return [entry for entry in entries if entry.event in events]

    def standing(self) -> dict[str, tuple[int, str]]:
        """Attempt and sha256 of ``trial.json`` of every trial that has ended and was not thrown away since."""
        records: dict[str, tuple[int, str]] = {}
        for entry in self.entries:
            records |= {trial: (0, digest) for trial, digest in (entry.records or {}).items()}
            if entry.trial and entry.sha256 and entry.event in (Event.ended, Event.pulled):
                records[entry.trial] = entry.attempt or 0, entry.sha256
            elif entry.event == Event.discarded and records.get(entry.trial or "", (-1,))[0] == entry.attempt:
                del records[entry.trial or ""]
        return records


def read_ledger(data: bytes) -> Ledger:
    """The ledger of these bytes, without a last line that a kill left unfinished."""
    ledger = Ledger()
    for line in data.split(b"\n")[:-1]:
        ledger.add(line)
    return ledger


def plan_digest(trials: Iterable[TrialSpec]) -> str:
    """sha256 over every trial of a session: price, windows, warm-up, repetitions and workload are all in it."""
    whole = sha256()
    for trial in trials:
        whole.update(canonical_json(trial.sent()).encode() + b"\n")
    return whole.hexdigest()


def _digest(wire: dict[str, Any]) -> str:
    return sha256(canonical_json({key: value for key, value in wire.items() if key != "digest"}).encode()).hexdigest()
