"""Hardware, software and checks of the trials: the part of a report that says why to trust it."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scalecurve.bundle.open import Bundle
from scalecurve.curves.doubts import NOT_CHECKED
from scalecurve.render.table import Column, Table, experiment_column, table_of
from scalecurve_api.programs.imported import UNKNOWN_MODEL
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.spec.trial import InvalidReason
from scalecurve_api.text import count as counted
from scalecurve_api.text import spell_value


@dataclass(frozen=True)
class Fact:
    """One property of the machines or the software; several values where trials differ."""

    bundle: str
    what: str
    values: tuple[tuple[str, int], ...]

    def spelled(self) -> str:
        if len(self.values) == 1:
            return self.values[0][0]
        return "; ".join(f"{value} ({counted(count, 'trial')})" for value, count in self.values)


def environment(bundles: Sequence[Bundle]) -> tuple[Fact, ...]:
    """Facts of the Succeeded trials, each value with the number of trials that had it."""
    facts = []
    for bundle in bundles:
        counted: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for trial in bundle.trials:
            for what, value in _facts(trial.record) if trial.good and trial.record else ():
                counted[what][value] += 1
        for what, values in counted.items():
            ordered = sorted(values.items(), key=lambda pair: (-pair[1], pair[0]))
            facts.append(Fact(bundle.label, what, tuple(ordered)))
    return tuple(facts)


def environment_table(facts: Sequence[Fact]) -> Table:
    """One row per fact."""
    return table_of(
        "environment",
        "Environment",
        facts,
        (
            (experiment_column(fact.bundle for fact in facts), lambda fact: fact.bundle),
            (Column("what", "What"), lambda fact: fact.what),
            (Column("value", "Value"), Fact.spelled),
        ),
    )


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
    rows = tuple((bundle.label, name, *counts) for bundle in bundles for name, counts in _checks(bundle).items())
    unmade = any(row[4] for row in rows)
    notes = ("A check that was not possible proves nothing about the trial; see its detail.",) if unmade else ()
    return Table("checks", "Checks of the included trials", columns, rows, notes)


def _facts(record: TrialRecord) -> Iterator[tuple[str, str]]:
    yield "engine", record.engine
    yield from _source_statements(record) if record.imported else _workload(record)
    if record.strategy:
        yield "strategy", record.strategy
    if record.backend:
        yield "collective library", record.backend
    if seen := [each for each in record.transports if each is not None]:
        carriers = [
            *sorted({kind for each in seen for kind in each.channels}),
            *(["NVLS"] if any(e.nvls for e in seen) else []),
        ]
        yield "transport", ", ".join([*carriers, *sorted({name for each in seen for name in each.interfaces})])
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


def _workload(record: TrialRecord) -> Iterator[tuple[str, str]]:
    workload = record.trial.workload
    yield "program", workload.program
    if workload.runs:
        if workload.model_framework:
            yield "model", workload.model
        yield from (("precision", record.precision),) if record.precision else ()
        if workload.takes_batch:
            yield "data", workload.data.source.value


def _source_statements(record: TrialRecord) -> Iterator[tuple[str, str]]:
    """What the source of an imported trial states."""
    workload = record.trial.workload
    yield "origin", NOT_CHECKED
    yield "source", record.source or "not stated"
    if workload.runs:
        yield from _workload(record)
    else:
        yield from (("model", workload.model),) if workload.model != UNKNOWN_MODEL else ()
        yield from ((name, spell_value(value)) for name, value in workload.own_values.items())


def _checks(bundle: Bundle) -> dict[str, tuple[int, int, int, str]]:
    counts: dict[str, tuple[int, int, int, str]] = {}
    for trial in bundle.trials:
        for check in trial.record.checks if trial.good and trial.record else []:
            name = InvalidReason.of(check.name) or check.name  # one row, also where older records spell it otherwise
            passed, failed, unmade, detail = counts.get(name, (0, 0, 0, ""))
            if check.passed is True:
                passed += 1
            elif check.passed is False:
                failed, detail = failed + 1, check.detail
            else:
                unmade, detail = unmade + 1, detail or check.detail
            counts[name] = passed, failed, unmade, detail
    return counts
