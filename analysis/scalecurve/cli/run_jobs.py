"""Running experiments on this machine for a verb: the live line, the tables, the plan."""

from __future__ import annotations

import re
import shlex
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from scalecurve.bundle.problem import BundleError
from scalecurve.cli.after_run import after_run
from scalecurve.cli.bundles import doubts
from scalecurve.cli.exit_codes import EXIT_INPUT
from scalecurve.cli.output import (
    complain,
    fail,
    show,
    warn,
)
from scalecurve_api.problem import printable
from scalecurve_api.spec.trial import TrialPhase
from scalecurve_api.text import count, few

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scalecurve.bundle.open import Bundle
    from scalecurve.curves.results import ScalingResult
    from scalecurve.planning.plan import Planned
    from scalecurve.render.table import Table
    from scalecurve_api.spec.experiment import ScalingExperiment
    from scalecurve_api.spec.measure import Measure
    from scalecurve_local import ForkServer, RunRequest, RunResult

_FIELD = re.compile(r"\b(?:workload|measure|scaling)\.[a-z]\w*")


class RunOptions(TypedDict, total=False):
    """What reaches ``scalecurve_local.run`` as it is."""

    resume: bool
    add_session: bool
    add_points: bool
    oversubscribe: bool
    wait: bool
    metrics_port: int | None
    fork_server: ForkServer


def run_experiment(
    experiment: ScalingExperiment,
    source: str,
    bundle: Path,
    quiet: bool = False,
    time_limit_s: float | None = None,
    **how: Unpack[RunOptions],
) -> RunResult:
    """Run with a live line and Ctrl-C handled; an engine's error ends the process with its exit code."""
    from scalecurve_local import RunRequest

    return run_jobs([RunRequest(experiment, source, bundle)], quiet, time_limit_s, **how)[0]


def run_jobs(
    jobs: Sequence[RunRequest],
    quiet: bool,
    time_limit_s: float | None,
    typed: Callable[[str], str] = str,
    at_first_failure: bool = False,
    **how: Unpack[RunOptions],
) -> Sequence[RunResult]:
    """Run experiments in turns, with a live line and Ctrl-C handled; an engine's error ends the process.

    ``typed`` puts an error that begins with a field into the words of a user who wrote no experiment;
    ``at_first_failure`` does not start a command again that fails in the first trial.
    """
    from scalecurve.render.progress import LiveLine
    from scalecurve_local import EngineError, StopRequest, run_in_turns

    for bundle in [job.bundle for job in jobs]:
        try:
            str(bundle.absolute()).encode()
        except UnicodeEncodeError:
            fail(f"{bundle}: folder name is not UTF-8, which records cannot hold; choose another", EXIT_INPUT)
    stop = StopRequest(at_first_failure=at_first_failure)
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with LiveLine(quiet) as line, stop.within(time_limit_s):
            results = run_in_turns(jobs, report=line, stop=stop, **how)
        for damage in [damage for result in results for damage in result.damage]:
            complain(damage)
        return [reread_result(result) for result in results]
    except EngineError as error:
        fail(typed(str(error)), error.exit_code)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def reread_result(result: RunResult) -> RunResult:
    """The result as every other verb reads it: a trial that contradicts its own steps did not succeed."""
    from scalecurve.bundle.open import open_bundle

    try:
        trials = open_bundle(result.bundle).trials
    except BundleError:
        return result  # interrupted before anything was written
    read = {trial.name: trial.record for trial in trials if trial.record is not None and trial.name in result.records}
    changed = {name: record for name, record in read.items() if record.phase is not result.records[name].phase}
    if not changed:
        return result
    reasons = few(dict.fromkeys(str(record.reason) for record in changed.values()))
    message = f"{result.status.message}; {len(changed)} of them Invalid when read again: {reasons}"
    phases = (*result.status.phases, *(record.phase for record in changed.values()))
    status = replace(result.status, message=message, phases=phases)
    return replace(result, records={**result.records, **changed}, status=status)


def show_results(results: Sequence[RunResult], output: str) -> None:
    """Show the table of one experiment, or the comparison of two."""
    from scalecurve.bundle.open import open_bundles
    from scalecurve.checks.compare import compare

    if len(results) == 1:
        return show_result(results[0], output)
    try:
        before, after = open_bundles(result.bundle for result in results)
    except BundleError:
        return None  # interrupted before anything was written
    bundles = [str(result.bundle) for result in results]
    warn((before, after))
    first_lines = doubts((before, after), included=False)
    show([compare(before, after).table()], output, {"bundles": bundles}, first_lines)
    if output == "table":
        click.echo("\n".join(map(printable, ["", *(f"records: {bundle}" for bundle in bundles)])))
    return None


def show_result(result: RunResult, output: str) -> None:
    """Show the scaling table of what is recorded, each trial that did not succeed with its reason, and the folders."""
    from scalecurve.bundle.open import open_bundle
    from scalecurve.curves.compute import scaling
    from scalecurve.curves.doubts import first_lines
    from scalecurve.curves.missing import missing_curves
    from scalecurve.curves.tables import excluded_table

    try:
        bundle = open_bundle(result.bundle)
    except BundleError as error:
        # Interrupted before anything was written.
        if not (result.interrupted or result.out_of_time):
            fail(str(error), EXIT_INPUT)
        return
    warn([bundle])
    measured = scaling([bundle])
    excluded = excluded_table(measured)
    from_features = after_run()
    more = [table for each in from_features for table in each.tables(bundle, measured)]
    show(
        [*_curves(bundle, measured, output), *more, *([excluded] if excluded.rows else ())],
        output,
        {"bundle": str(result.bundle), "phase": result.status.phase.value},
        first_lines(measured.named_points()),
    )
    if output == "table":
        lines = ["", *(line for each in from_features for line in each.lines(bundle))]
        cut = result.interrupted or result.out_of_time
        lines += [] if cut else map(str, missing_curves([bundle], measured, paths=True))
        lines += [result.status.message, f"records: {result.bundle}"]
        lines += [f"logs:    {result.bundle}/trials/<trial>/logs"] if excluded.rows else []
        lines.append("report:  " + shlex.join(["scalecurve", "report", str(result.bundle)]))
        click.echo("\n".join(map(printable, lines)))


def _curves(bundle: Bundle, measured: ScalingResult, output: str) -> list[Table]:
    """The scaling table; for people, of a program that trains nothing, its bandwidths instead."""
    from scalecurve.curves.tables import scaling_table

    timed = [table for each in after_run() for table in each.results(bundle)]
    trains = any(series.trains for series in measured.series)
    return [scaling_table(measured)] if trains or not timed or output not in ("table", "md") else timed


def show_plan(jobs: Sequence[RunRequest], oversubscribe: bool, output: str, timing: str, **how: bool) -> None:
    """Show the plan and each worker's resources, and start nothing; ``timing`` is how the user learns the time."""
    from scalecurve.planning.plan import plan
    from scalecurve_local import EngineError, prepare
    from scalecurve_local.devices.shares import allot
    from scalecurve_local.execution.this_machine import survey

    try:
        sessions = [prepare(job, **how).session if any(how.values()) else 0 for job in jobs]
    except EngineError as error:
        fail(str(error), error.exit_code)
    planned = [plan(job.experiment, session=session) for job, session in zip(jobs, sessions, strict=True)]
    tables = [table for each in planned for table in _tables(each, timing)]
    try:
        machine = survey()
        notes = [note for each in planned for note in allot(each.plan.trials, machine, oversubscribe).notes]
    except EngineError as error:
        show(tables, output)
        fail(str(error), error.exit_code)
    show(tables, output, {"notes": notes})
    if output == "table":
        click.echo("".join(f"note: {note}\n" for note in dict.fromkeys(notes)) + "dry run: nothing was started")


def _tables(planned: Planned, timing: str) -> list[Table]:
    """The tables of a plan; their notes name options of ``run``, and nothing that a cluster or a price would change."""
    trials, totals = planned.tables()
    notes = (*planned.source, f"the time of a trial is unknown until one has run: {timing}")
    return [trials, replace(totals, notes=notes)]


def why_nothing_is_valid(result: RunResult, measure: Measure, budget_s: float, workers: Sequence[int] = ()) -> str:
    """Tell in one line why no trial is valid, with the reason's code, and where to look or what to change."""
    bad = (TrialPhase.failed, TrialPhase.invalid)
    failed = {
        name: f"{record.reason or record.phase.value}: {record.message}"
        for name, record in result.records.items()
        if record.phase in bad
    }
    if not failed:
        steps = measure.warmup_steps + measure.windows * measure.steps_per_window
        rate = result.pace.steps_per_second if result.pace else None
        took = f", and {1 / rate:.2g} s each" if rate else ""
        return (
            f"no trial finished within --budget, {budget_s:g} s: raise it, or lower --steps "
            f"(a trial has at least {count(steps, 'step')}{took})"
        )
    (why, times), *_ = Counter(failed.values()).most_common(1)
    logs = result.bundle / "trials" / next(name for name in failed if failed[name] == why) / "logs"
    fields = sorted(set(_FIELD.findall(why)))
    others = [field for field in fields if not field.startswith("measure.")]
    hint = "; --steps sets fewer" if fields else ""
    hint = f"; --yaml FILE writes an experiment, where {others[0]} is a field" if others else hint
    ended = "the only one that ended" if len(failed) == 1 else f"{times} of {len(failed)} that ended"
    late = f"; --budget ended the run after {result.status.message}" if result.out_of_time else ""
    rest = len(result.status.phases) - len(result.records)
    skipped = f"; not started after that: {count(rest, 'trial')}" if result.futile and rest else ""
    skipped += _suggest_workers(result, workers) if skipped else ""
    return f"no trial is valid; {ended}: {why}{hint}{late}{skipped}; logs: {logs}"


def _suggest_workers(result: RunResult, workers: Sequence[int]) -> str:
    """The option with the worker counts beyond those that were tried: a script may need more than one."""
    most = max(record.trial.point.workers for record in result.records.values())
    left = [str(each) for each in workers if each > most]
    return f" (if the script needs more than {count(most, 'worker')}: --workers {','.join(left)})" if left else ""
