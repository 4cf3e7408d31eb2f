"""Rank files and outcome -> one sealed trial record and its tables: the same bytes from either engine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from scalecurve_api.record import extremes, tables
from scalecurve_api.record.outcome import Outcome
from scalecurve_api.record.rank import RankRecord, Window, WindowKind
from scalecurve_api.record.step_times import slowest_step_times
from scalecurve_api.record.trial_record import Exposed, Summary, Timeline, TrialRecord, TrialWindow
from scalecurve_api.record.verdict import judge
from scalecurve_api.spec.trial import TrialPhase, TrialSpec

_SHARED = (
    "backend",
    "strategy",
    "versions",
    "environment",
    "parameters",
    "traffic",
    "servers",
    "flops_per_sample",
    "peak_flops",
    "options",
    "warmup",
    "evaluations",
    "dataset",
    "noise_scale",
    "quantization",
    "allreduce",
)


@dataclass(frozen=True)
class Assembled:
    """A sealed record, and the files that stand beside it by name."""

    record: TrialRecord
    tables: Mapping[str, bytes]


def assemble(
    trial: TrialSpec,
    ranks: Mapping[int, RankRecord],
    journals: Mapping[int, bytes],
    outcome: Outcome,
    left_out: Sequence[str] = (),
) -> Assembled:
    """Judge one attempt and assemble its record.

    ``ranks`` and ``journals`` may be incomplete: what a killed rank left is kept, and the verdict says the rest.
    Journals of the ``extremes`` come in place of the ranks' where those did not fit, which ``left_out`` then says.

    Raises:
        JournalError: when a journal is not one.
    """
    verdict = judge(trial, ranks, outcome)
    ordered = [ranks[rank] for rank in sorted(ranks)]
    windows = combine_windows(ordered)
    files: dict[str, bytes] = {}
    if complete := {rank: data for rank, data in journals.items() if rank not in extremes.NAMES}:
        files[tables.STEPS_FILE] = tables.encode_steps(complete)
    if few := {rank: data for rank, data in journals.items() if rank in extremes.NAMES}:
        files[tables.EXTREMES_FILE] = tables.encode_steps(few)
    first = ordered[0] if ordered else None
    if first is not None and first.evaluations:
        files[tables.EVALS_FILE] = tables.encode_evaluations(first.evaluations)
    record = TrialRecord(
        trial=trial,
        attempt=outcome.attempt,
        phase=verdict.phase,
        reason=verdict.reason,
        message=verdict.message,
        engine=outcome.engine,
        engine_version=outcome.engine_version,
        topology=[record.topology for record in ordered],
        parameter_checksums=[record.parameter_checksum for record in ordered],
        windows=windows,
        checks=list(verdict.checks),
        device_samples=[record.device_samples for record in ordered],
        foreign_load=[record.foreign_load for record in ordered],
        stolen_load=[record.stolen_load for record in ordered],
        summary=summarize(trial, ordered, windows, journals),
        timeline=_timeline(ordered, outcome),
        exit_codes=outcome.exit_codes,
        log_tail=outcome.log_tail if verdict.phase is not TrialPhase.succeeded else {},
        left_out=list(left_out),
        files={name: tables.sha256(data) for name, data in sorted(files.items())},
        **_of_first(first),
    )
    return Assembled(record.sealed(), files)


def combine_windows(ranks: Sequence[RankRecord]) -> list[TrialWindow]:
    """Windows that every rank has, over all ranks: the slowest wall time, summed samples and energy."""
    if not ranks:
        return []
    by_rank = [(record.topology.rank, {window.index: window for window in record.windows}) for record in ranks]
    common = sorted(set.intersection(*(set(windows) for _, windows in by_rank)))
    return [_combine([(rank, windows[index]) for rank, windows in by_rank]) for index in common]


def summarize(
    trial: TrialSpec, ranks: Sequence[RankRecord], windows: Sequence[TrialWindow], journals: Mapping[int, bytes]
) -> Summary | None:
    """The numbers of a trial: throughput is all samples over the wall time of all train windows (a ratio of sums)."""
    train = [window for window in windows if window.kind is WindowKind.train]
    wall_s = sum(window.wall_ns for window in train) / 1e9
    if not train or wall_s <= 0:
        return None
    first = ranks[0]
    samples = sum(window.samples for window in train)
    throughput = samples / wall_s
    energies = [window.energy_j for window in train]
    energy = sum(e for e in energies if e is not None) if all(e is not None for e in energies) else None
    evaluations = first.evaluations
    target = trial.measure.accuracy.target if trial.measure.accuracy else None
    peak = first.peak_flops
    return Summary(
        samples=samples,
        wall_s=wall_s,
        throughput=throughput,
        sample_unit=first.sample_unit,
        step=slowest_step_times(journals, {window.index for window in train}),
        exposed=_exposed(first.exposed_method, train, windows),
        plain_throughput=_rate([window for window in windows if window.kind is WindowKind.plain]),
        mfu=throughput * first.flops_per_sample / (peak * len(ranks)) if peak and first.flops_per_sample else None,
        energy_j=energy,
        energy_j_per_sample=energy / samples if energy is not None and samples else None,
        peak_memory_bytes=max((r.peak_memory_bytes for r in ranks if r.peak_memory_bytes is not None), default=None),
        last_loss=first.last_loss,
        final_accuracy=evaluations[-1].accuracy if evaluations else None,
        best_accuracy=max((e.accuracy for e in evaluations), default=None),
        seconds_to_target=next((e.wall_s for e in evaluations if target is not None and e.accuracy >= target), None),
        peak_busbw=max((row.busbw for row in first.allreduce), default=None),
    )


def _of_first(first: RankRecord | None) -> dict[str, Any]:
    if first is None:
        return {}
    return {name: getattr(first, name) for name in _SHARED}


def _combine(windows: Sequence[tuple[int, Window]]) -> TrialWindow:
    slowest_rank, slowest = max(windows, key=lambda item: (item[1].wall_ns, -item[0]))
    energies = [window.energy_mj for _, window in windows]
    known = [energy for energy in energies if energy is not None]
    return TrialWindow(
        index=slowest.index,
        kind=slowest.kind,
        start_ns=min(window.open_ns for _, window in windows),
        wall_ns=slowest.wall_ns,
        fastest_ns=min(window.wall_ns for _, window in windows),
        slowest_rank=slowest_rank,
        first_step=slowest.first_step,
        steps=slowest.steps,
        samples=sum(window.samples for _, window in windows),
        energy_j=sum(known) / 1e3 if len(known) == len(windows) else None,
    )


def _rate(windows: Sequence[TrialWindow]) -> float | None:
    wall = sum(window.wall_ns for window in windows)
    return sum(window.samples for window in windows) / wall * 1e9 if wall else None


def _exposed(method: str | None, train: Sequence[TrialWindow], windows: Sequence[TrialWindow]) -> Exposed | None:
    without = [w.wall_ns / w.steps / 1e9 for w in windows if w.kind is WindowKind.no_communication and w.steps]
    if method is None or not without:
        return None
    with_s, without_s = median(w.wall_ns / w.steps / 1e9 for w in train if w.steps), median(without)
    return Exposed(method=method, with_s=with_s, without_s=without_s, exposed_s=with_s - without_s)


def _timeline(ranks: Sequence[RankRecord], outcome: Outcome) -> list[Timeline]:
    seen = list(outcome.timeline)
    if ranks:
        seen.append(Timeline(phase="worker started", at_ns=min(record.started_ns for record in ranks)))
        seen.append(Timeline(phase="worker ended", at_ns=max(record.ended_ns for record in ranks)))
        firsts = [record.first_step_ns for record in ranks if record.first_step_ns is not None]
        if firsts:
            seen.append(Timeline(phase="first step", at_ns=max(firsts)))
    return sorted(seen, key=lambda entry: entry.at_ns)
