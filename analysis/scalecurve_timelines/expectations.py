"""What a device, a fabric and a model are expected to reach: files of throughputs with tolerance, date and source."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from types import FunctionType
from typing import Annotated, Any

import yaml
from pydantic import BeforeValidator, Field, model_validator

from scalecurve.bundle.measurement import MeasuredPoint, MeasuredSeries, measure
from scalecurve.bundle.open import Bundle
from scalecurve.hardware.entries import Positive, SourcedEntry, entries_of_file, entries_of_text
from scalecurve.hardware.names import folded
from scalecurve.statistics.comparison import DEFAULT_THRESHOLD, SpreadUsed, across, all_named, stated
from scalecurve.statistics.estimate import Estimate
from scalecurve.statistics.intervals import throughput
from scalecurve.statistics.spread import Spread, sessions_of
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.registry import Registry
from scalecurve_api.text import count
from scalecurve_timelines.timeline import day

SHIPPED = "shipped"
EXPECTATIONS: Registry[FunctionType] = Registry("scalecurve.expectations", "kind of expectation", FunctionType, {})
"""By the name before the colon of a reference: functions of a bundle and the reference that return checks, notes."""
LEVEL = 0.95
_SETTINGS = ("channelsLast", "compile", "gradientAccumulation", "deterministic", "commHook")
"""Options that change a step's work; an expectation holds for their values."""
_BEFORE_IT_EXISTED = {"commHook": "none"}


def _require_day(value: Any) -> Any:
    if isinstance(value, datetime.datetime) or not isinstance(value, datetime.date | str):
        raise ValueError("expected a day such as 2026-11-23")
    return value


Tolerance = Annotated[float, Field(gt=0, lt=1)]
Workers = Annotated[int, Field(ge=1)]


class Expectation(SourcedEntry):
    """Throughput by worker count, in samples/s over all workers; what is None matches anything.

    ``fabric`` is the collective library of several workers, and ``batch`` per worker in weak and in all in strong
    scaling. ``settings`` are options of the program as records have them. ``tolerance`` is the fraction by which a
    throughput may be lower, one for all or by worker count.
    """

    device: Annotated[str, Field(min_length=1)]
    model: Annotated[str, Field(min_length=1)]
    fabric: str | None = None
    nodes: Workers | None = None
    program: str | None = None
    strategy: str | None = None
    precision: str | None = None
    mode: str | None = None
    batch: Workers | None = None
    settings: dict[str, Any] = {}
    throughput: Annotated[dict[Workers, Positive], Field(min_length=1)]
    tolerance: Tolerance | dict[Workers, Tolerance]
    date: Annotated[datetime.date, BeforeValidator(_require_day)]

    @model_validator(mode="after")
    def _tolerates_each(self) -> Expectation:
        if not isinstance(self.tolerance, float) and (missing := sorted(set(self.throughput) - set(self.tolerance))):
            raise ValueError(f"tolerance: missing for {', '.join(map(str, missing))} workers")
        return self

    def tolerance_at(self, workers: int) -> float:
        return self.tolerance if isinstance(self.tolerance, float) else self.tolerance[workers]

    def matches(self, record: TrialRecord) -> bool:
        """Return whether a run is of the kind that it was measured for."""
        point, workload = record.trial.point, record.trial.workload
        devices = {folded(rank.device_name) for rank in record.topology}
        stated = (
            (self.nodes, point.nodes),
            (self.fabric, record.backend if point.workers > 1 else self.fabric),
            (self.mode, point.mode.value),
            (self.batch, _batch(record)),
            *((getattr(self, name), _workload_field(workload, name)) for name in ("program", "strategy", "precision")),
        )
        return (
            devices == {folded(self.device)}
            and _workload_field(workload, "model") == self.model
            and all(wanted is None or wanted == actual for wanted, actual in stated)
            and all(_setting(record, name) == value for name, value in self.settings.items())
        )


@lru_cache(maxsize=1)
def shipped() -> Mapping[str, Expectation]:
    """Return what we measured, from the bundles in ``docs/evidence``."""
    text = (files("scalecurve_timelines") / "expectations.yaml").read_text(encoding="utf-8")
    return entries_of_text(text, "expectations.yaml", Expectation)


def expectations_of(references: Iterable[str]) -> list[Expectation]:
    """Read the expectations of files.

    Args:
        references: Paths of files, or `shipped` for those that come with the package.

    Returns:
        The expectations, in order.

    Raises:
        EntryError: for a file that cannot be read or an entry with a fault; names file, entry and field.
    """
    found: list[Expectation] = []
    for reference in references:
        entries = shipped() if reference == SHIPPED else entries_of_file(Path(reference), Expectation)
        found += entries.values()
    return found


def written_expectations(
    bundle: Bundle, source: str, tolerance: float | None = None, session_sd: float | None = None
) -> str:
    """Format what a bundle reached as a file of expectations: one entry for each series.

    Without ``tolerance`` it is that of a prediction: a further session of the same kind is slower by more in 2.5 %, by
    the spread between sessions that is stated, that the bundle's sessions show, or that the prior says; at least 1 %.
    Raises ValueError where there is nothing to write, or nothing tells how far repetitions differ, and no tolerance.
    """
    entries = {}
    for series in measure(bundle):
        if any(p.timed for p in series.points):
            entries[_key(bundle, series)] = dict(_entry(series, source, tolerance, stated(session_sd)))
    if not entries:
        raise ValueError(f"{bundle.path}: no valid trial has a throughput that could be expected")
    return yaml.safe_dump(entries, sort_keys=False, default_flow_style=None, width=120)


def _entry(
    series: MeasuredSeries, source: str, tolerance: float | None, session_sd: Spread | None
) -> Iterator[tuple[str, Any]]:
    measured = [p for p in series.points if p.timed]
    record = measured[-1].timed[0]
    workload = record.trial.workload
    yield "device", ", ".join(sorted({rank.device_name for rank in record.topology}))
    yield "model", _workload_field(workload, "model") or workload.program
    if record.trial.point.workers > 1 and record.backend:
        yield "fabric", record.backend
    yield "nodes", record.trial.point.nodes
    for name in ("program", "strategy", "precision"):
        if (value := _workload_field(workload, name)) is not None:
            yield name, value
    yield "mode", series.mode.value
    if (batch := _batch(record)) is not None:
        yield "batch", batch
    yield "settings", {name: kept for name in _SETTINGS if (kept := _setting(record, name)) is not None}
    yield "throughput", {p.point.workers: float(f"{throughput(p.samples).value:.5g}") for p in measured}
    predicted = {} if tolerance else {p.point.workers: _tolerance(p, session_sd) for p in measured}
    yield "tolerance", tolerance or {workers: each for workers, (each, _) in predicted.items()}
    latest = max((entry.at_ns for p in measured for r in p.timed for entry in r.timeline), default=0)
    yield "date", datetime.date.fromisoformat(day(latest))
    sessions = len({r.trial.session for p in measured for r in p.timed})
    yield "source", source
    by = "; ".join(all_named([by for _, by in predicted.values()]))
    why = "is stated" if tolerance else f"is that of a prediction of one further session, by {by}"
    yield "note", f"{count(sessions, 'session')}; the tolerance {why}"


def _tolerance(point: MeasuredPoint, session_sd: Spread | None) -> tuple[float, SpreadUsed]:
    """How far a further session's throughput may be below this one's, as a fraction rounded up to 0.1 %; and by what.

    The lower half of the interval for the mean of a session with as many repetitions.
    """
    sessions = len(sessions_of(point.samples))
    repeats = (1 + sessions) / len(point.samples)
    by = across(session_sd, [point.samples], 1 + 1 / sessions, repeats, LEVEL)
    if by.spread is None:
        raise ValueError(
            f"{point.point.name}: one repetition does not show how much repetitions differ: state the tolerance, as "
            "--tolerance 5%, or repeat"
        )
    below = math.ceil(-math.expm1(-by.spread.half_width(LEVEL)) * 1000) / 1000
    return max(DEFAULT_THRESHOLD, below), by


def met(expectation: Expectation, workers: int, rate: Estimate) -> tuple[float, float, bool]:
    """Return (expected throughput, ratio to it, whether it is not lower by more than the tolerance)."""
    expected = expectation.throughput[workers]
    ratio = rate.value / expected
    return expected, ratio, ratio >= 1 - expectation.tolerance_at(workers)


def _batch(record: TrialRecord) -> int | None:
    point = record.trial.point
    return point.batch_per_worker if point.mode.value == "weak" else point.global_batch


def _setting(record: TrialRecord, name: str) -> object:
    return record.options.get(name, _BEFORE_IT_EXISTED.get(name))


def _workload_field(workload: Any, name: str) -> str | None:
    value = getattr(workload, name, None)
    return None if value is None else str(getattr(value, "value", value))


def _key(bundle: Bundle, series: MeasuredSeries) -> str:
    return "-".join(part.strip("\"'") for part in f"{bundle.label} {series.name}".replace("=", " ").split())


def matching(expectations: Sequence[Expectation], point: MeasuredPoint) -> list[Expectation]:
    """Select the expectations that hold for every valid trial of a point, and state its worker count."""
    workers = point.point.workers
    return [e for e in expectations if workers in e.throughput and all(e.matches(record) for record in point.timed)]
