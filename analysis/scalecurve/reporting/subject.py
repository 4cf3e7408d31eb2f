"""The line under a report's title: what was measured, on what and when."""

from collections.abc import Sequence
from datetime import UTC, datetime

from scalecurve.bundle.open import Bundle
from scalecurve.checks.environment import environment

_SAID = ("model", "program", "strategy", "precision", "data", "collective library", "device")
_MOST = 3
_LAST_NS = 253_402_300_799 * 10**9
"""The end of the year 9999: a clock beyond it was not set."""


def subjects(bundles: Sequence[Bundle]) -> tuple[str, ...]:
    """A line for each bundle with a Succeeded trial, with the experiment's name if there are several."""
    lines = [(bundle.label, _line(bundle)) for bundle in bundles]
    return tuple(f"{label}: {line}" if len(bundles) > 1 else line for label, line in lines if line)


def _line(bundle: Bundle) -> str:
    values = {fact.what: [value for value, _ in fact.values] for fact in environment([bundle])}
    named = [_several(values[what]) + (" data" if what == "data" else "") for what in _SAID if what in values]
    good = sum(trial.good for trial in bundle.trials)
    if not good:
        return ""
    return f"{', '.join(named)}; {good} of {len(bundle.trials)} trials valid{_when(bundle)}"


def _several(values: Sequence[str]) -> str:
    more = f" and {len(values) - _MOST} more" if len(values) > _MOST else ""
    return " / ".join(values[:_MOST]) + more


def _when(bundle: Bundle) -> str:
    records = [trial.record for trial in bundle.trials if trial.good and trial.record is not None]
    times = [step.at_ns for record in records for step in record.timeline if 0 < step.at_ns < _LAST_NS]
    if not times:
        return ""
    first, last = (datetime.fromtimestamp(at // 10**9, UTC) for at in (min(times), max(times)))
    until = f"{last:%H:%M}" if first.date() == last.date() else f"{last:%Y-%m-%d %H:%M}"
    return f"; measured {first:%Y-%m-%d %H:%M} to {until} UTC"
