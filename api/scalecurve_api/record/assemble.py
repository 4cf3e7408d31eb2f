"""Rank files and outcome -> one sealed trial record and its tables: the same bytes from either engine."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from scalecurve_api.record import extremes, tables
from scalecurve_api.record.fact_kind import FIRST, known_kinds
from scalecurve_api.record.outcome import Outcome
from scalecurve_api.record.rank import RankRecord, Window, WindowKind
from scalecurve_api.record.trial_record import Exposed, Summary, Timeline, TrialRecord, TrialWindow
from scalecurve_api.record.verdict import judge
from scalecurve_api.spec.secrets import masked, secrets_in, trial_without_secrets
from scalecurve_api.spec.trial import TrialPhase, TrialSpec

_OF_EVERY_RANK = frozenset(
    (
        "topology",
        "windows",
        "sections",
        "device_samples",
        "foreign_load",
        "own_load",
        "stolen_load",
        "usage",
    )
)
_SHARED = (
    (RankRecord.model_fields.keys() & TrialRecord.model_fields.keys()) - {"schema_", "trial", "facts"} - _OF_EVERY_RANK
)
"""What a trial's record has of its first rank."""


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
    for kind in known_kinds():
        if first is not None and kind.tables is not None and (measured := kind.of(first)):
            files |= kind.tables(measured)
    secrets = [secret for _, secret in secrets_in(trial.workload)]
    record = TrialRecord(
        trial=trial_without_secrets(trial),
        attempt=outcome.attempt,
        phase=verdict.phase,
        reason=verdict.reason,
        message=masked(verdict.message, secrets),
        engine=outcome.engine,
        engine_version=outcome.engine_version,
        paired=outcome.paired,
        topology=[record.topology for record in ordered],
        parameter_checksums=[record.parameter_checksum for record in ordered],
        windows=windows,
        transports=[record.transport for record in ordered] if any(record.transport for record in ordered) else [],
        sections=[record.sections for record in ordered] if any(record.sections for record in ordered) else [],
        traces=[record.trace for record in ordered] if any(record.trace for record in ordered) else [],
        checks=list(verdict.checks),
        device_samples=[record.device_samples for record in ordered],
        foreign_load=[record.foreign_load for record in ordered],
        own_load=[record.own_load for record in ordered],
        stolen_load=[record.stolen_load for record in ordered],
        usage=[record.usage for record in ordered] if any(record.usage for record in ordered) else [],
        facts=combine_facts([record.facts for record in ordered]),
        summary=summarize(trial, ordered, windows, journals),
        timeline=_timeline(ordered, outcome),
        exit_codes=outcome.exit_codes,
        log_tail={} if verdict.phase is TrialPhase.succeeded else _mask_tails(outcome.log_tail, secrets),
        left_out=list(left_out),
        ledger=outcome.ledger,
        files={name: hashlib.sha256(data).hexdigest() for name, data in sorted(files.items())},
        **({name: getattr(first, name) for name in _SHARED} if first is not None else {}),
    )
    return Assembled(record.sealed(), files)


def combine_facts(ranks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What a trial keeps of the facts of its ranks; of a kind that is unknown here, what the first rank has."""
    facts: dict[str, Any] = {}
    for name in dict.fromkeys(name for facts_of_rank in ranks for name in facts_of_rank):
        ways = [kind.ranks for kind in known_kinds([name])] or [FIRST]
        value = ways[0].combine([facts_of_rank.get(name) for facts_of_rank in ranks])
        if value is not None:
            facts[name] = value
    return facts


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
    plain = [window for window in windows if window.kind is WindowKind.plain]
    plain_ns = sum(window.wall_ns for window in plain)
    return Summary(
        samples=samples,
        wall_s=wall_s,
        throughput=throughput,
        sample_unit=first.sample_unit,
        step=extremes.slowest_step_times(journals, {window.index for window in train}),
        loader_s=_loader_s(train),
        exposed=_compute_exposed(first, train, windows),
        plain_throughput=sum(window.samples for window in plain) / plain_ns * 1e9 if plain_ns else None,
        mfu=_utilization(throughput, first.flops_per_sample, first.peak_flops, len(ranks)),
        hfu=_utilization(throughput, first.hardware_flops_per_sample, first.peak_flops, len(ranks)),
        energy_j=energy,
        energy_j_per_sample=energy / samples if energy is not None and samples else None,
        peak_memory_bytes=max((r.peak_memory_bytes for r in ranks if r.peak_memory_bytes is not None), default=None),
        last_loss=first.last_loss,
        **{name: value for kind in known_kinds() if kind.summary for name, value in kind.summary(trial, first).items()},
    )


def _utilization(throughput: float, flops: float | None, peak: float | None, devices: int) -> float | None:
    """Share of the devices' peak that ``flops`` a sample, at ``throughput`` samples/s, come to; above 1 it is wrong."""
    share = throughput * flops / (peak * devices) if flops and peak else None
    return share if share is None or share <= 1 else None


def _combine(windows: Sequence[tuple[int, Window]]) -> TrialWindow:
    slowest_rank, slowest = max(windows, key=lambda item: (item[1].wall_ns, -item[0]))
    energies = [window.energy_mj for _, window in windows]
    known = [energy for energy in energies if energy is not None]
    pauses, backwards = ([getattr(window, name) for _, window in windows] for name in ("pauses", "backwards"))
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
        sequences=_total([window.sequences for _, window in windows]),
        loader_ns=max((window.loader_ns for _, window in windows if window.loader_ns is not None), default=None),
        paused_ns=max(window.paused_ns or 0 for _, window in windows) or None,
        pauses=None if None in pauses else max(each or 0 for each in pauses),
        inputs=_total([window.inputs for _, window in windows]),
        backwards=None if None in backwards else min(each or 0 for each in backwards),
    )


def _total(counts: Sequence[int | None]) -> int | None:
    return None if None in counts else sum(each or 0 for each in counts)


def _loader_s(train: Sequence[TrialWindow]) -> float | None:
    waited = [(window.loader_ns, window.steps) for window in train if window.loader_ns is not None]
    steps = sum(steps for _, steps in waited)
    return sum(ns for ns, _ in waited) / steps / 1e9 if steps else None


def _compute_exposed(rank: RankRecord, train: Sequence[TrialWindow], windows: Sequence[TrialWindow]) -> Exposed | None:
    """By windows without communication; where there are none, by the share that a profiler saw."""
    if rank.exposed_method is None:
        return None
    with_s = median(w.wall_ns / w.steps / 1e9 for w in train if w.steps)
    without = [w.wall_ns / w.steps / 1e9 for w in windows if w.kind is WindowKind.no_communication and w.steps]
    if without:
        without_s = median(without)
    elif rank.exposed_share is not None:
        without_s = with_s * (1 - rank.exposed_share)
    else:
        return None
    return Exposed(method=rank.exposed_method, with_s=with_s, without_s=without_s, exposed_s=with_s - without_s)


def _mask_tails(tails: Mapping[str, list[str]], secrets: Sequence[str]) -> dict[str, list[str]]:
    return {who: [masked(line, secrets) for line in lines] for who, lines in tails.items()}


def _timeline(ranks: Sequence[RankRecord], outcome: Outcome) -> list[Timeline]:
    seen = list(outcome.timeline)
    if ranks:
        seen.append(Timeline(phase="worker started", at_ns=min(record.started_ns for record in ranks)))
        seen.append(Timeline(phase="worker ended", at_ns=max(record.ended_ns for record in ranks)))
        firsts = [record.first_step_ns for record in ranks if record.first_step_ns is not None]
        if firsts:
            seen.append(Timeline(phase="first step", at_ns=max(firsts)))
    return sorted(seen, key=lambda entry: entry.at_ns)
