"""Hardware, software and checks of the trials: the part of a report that says why to trust it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scalecurve.bundle.open import Bundle
from scalecurve.render.table import Column, Table
from scalecurve_api.record.trial_record import TrialRecord


@dataclass(frozen=True)
class Fact:
    """One property of the machines or the software; several values where trials differ."""

    bundle: str
    what: str
    values: tuple[tuple[str, int], ...]


def environment(bundles: Sequence[Bundle]) -> tuple[Fact, ...]:
    """Facts of the Succeeded trials, each value with the number of trials that had it."""
    facts = []
    for bundle in bundles:
        counted: dict[str, dict[str, int]] = {}
        for trial in bundle.trials:
            if trial.good and trial.record is not None:
                for what, value in _facts(trial.record):
                    values = counted.setdefault(what, {})
                    values[value] = values.get(value, 0) + 1
        for what, values in counted.items():
            ordered = sorted(values.items(), key=lambda pair: (-pair[1], pair[0]))
            facts.append(Fact(bundle.label, what, tuple(ordered)))
    return tuple(facts)


def environment_table(facts: Sequence[Fact]) -> Table:
    """One row per fact."""
    several = len({fact.bundle for fact in facts}) > 1
    columns = (
        Column("experiment", "Experiment", detail=not several),
        Column("what", "What"),
        Column("value", "Value"),
    )
    rows = tuple((fact.bundle, fact.what, _spelled(fact)) for fact in facts)
    return Table("environment", "Environment", columns, rows)


def check_table(bundles: Sequence[Bundle]) -> Table:
    """How often each check passed, failed or was not possible, over the trials in a curve."""
    columns = (
        Column("experiment", "Experiment", detail=len(bundles) == 1),
        Column("check", "Check"),
        Column("passed", "Passed", "count"),
        Column("not_passed", "Failed", "count"),
        Column("not_made", "Not possible", "count"),
        Column("detail", "Detail"),
    )
    rows = []
    for bundle in bundles:
        for name, (passed, failed, unmade, detail) in _checks(bundle).items():
            rows.append((bundle.label, name, passed, failed, unmade, detail))
    notes = []
    if any(row[4] for row in rows):
        notes.append("A check that was not possible says nothing about the trial; see its detail.")
    return Table("checks", "Checks of the included trials", columns, tuple(rows), tuple(notes))


def _facts(record: TrialRecord) -> Iterator[tuple[str, str]]:
    yield "engine", record.engine
    workload = record.trial.workload
    yield "program", workload.program
    if workload.runs:
        if workload.model_framework:
            yield "model", workload.model
        yield "precision", workload.precision.value
        if workload.takes_batch:
            yield "data", workload.data.source.value
    if record.strategy:
        yield "strategy", record.strategy
    if record.backend:
        yield "collective library", record.backend
    devices = sorted({rank.device_name for rank in record.topology})
    if devices:
        yield "device", ", ".join(devices)
    if record.parameters:
        yield "parameters", f"{record.parameters:,}"
    if record.warmup:
        yield "warm-up", f"{record.warmup.rule}{'' if record.warmup.stable else ' (never became stable)'}"
    if record.summary and record.summary.exposed:
        yield "communication removed by", record.summary.exposed.method
    for name, version in sorted(record.versions.items()):
        yield f"version of {name}", version
    for name, value in sorted(record.environment.items()):
        yield f"variable {name}", value


def _spelled(fact: Fact) -> str:
    if len(fact.values) == 1:
        return fact.values[0][0]
    return "; ".join(f"{value} ({count} trials)" for value, count in fact.values)


def _checks(bundle: Bundle) -> dict[str, tuple[int, int, int, str]]:
    counts: dict[str, tuple[int, int, int, str]] = {}
    for trial in bundle.trials:
        for check in trial.record.checks if trial.good and trial.record else []:
            passed, failed, unmade, detail = counts.get(check.name, (0, 0, 0, ""))
            if check.passed is True:
                passed += 1
            elif check.passed is False:
                failed, detail = failed + 1, check.detail
            else:
                unmade, detail = unmade + 1, detail or check.detail
            counts[check.name] = passed, failed, unmade, detail
    return counts
