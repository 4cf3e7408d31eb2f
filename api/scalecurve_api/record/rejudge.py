"""A record judged again, from what it holds itself: whoever reads one does not believe the phase that it states.

Rank records do not outlive the judging, so what only they had (losses, frozen layers) is believed as it was judged.
"""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import TypeVar

from scalecurve_api.record.checks import placement as placed
from scalecurve_api.record.checks import training as trained
from scalecurve_api.record.checks.registered import fact_checks, makes_invalid
from scalecurve_api.record.fact_kind import known_kinds
from scalecurve_api.record.outcome import Outcome
from scalecurve_api.record.rank import RankRecord, Window
from scalecurve_api.record.trial_record import Check, TrialRecord
from scalecurve_api.record.verdict import complete, world_size
from scalecurve_api.spec.trial import TrialPhase

T = TypeVar("T")


def rejudge(record: TrialRecord) -> Check | None:
    """The check that a Succeeded trial did not pass; None if it passed all, or did not succeed anyway.

    Of an imported trial nothing was observed that could be judged; it is shown as such wherever it appears.
    """
    if record.phase is not TrialPhase.succeeded or record.imported:
        return None
    checks = [*record.checks, *_again(record)]
    return next((check for check in checks if makes_invalid(check)), None)


def _again(record: TrialRecord) -> Iterator[Check]:
    trial, ranks = record.trial, _ranks(record)
    yield complete(trial, ranks)
    if not ranks:
        return
    outcome = Outcome(engine=record.engine)
    yield world_size(trial, ranks)
    yield placed.placement(trial, ranks, outcome)
    yield placed.oversubscribed(ranks, outcome)
    yield trained.backend(trial, ranks)
    yield trained.strategy(trial, ranks)
    if not trial.workload.roles:
        yield trained.replicas(trial, ranks)
    yield from fact_checks(trial, ranks)
    yield trained.samples(trial, ranks)
    yield placed.throttled(ranks)
    yield placed.neighbors(trial, ranks)
    yield placed.stolen(trial, ranks)


def _ranks(record: TrialRecord) -> list[RankRecord]:
    """Rank records with what is left of them."""
    count = len(record.topology)
    kinds = list(known_kinds())
    rows = zip(
        record.topology,
        _rank_values(record.parameter_checksums, count),
        _rank_values(record.device_samples, count),
        _rank_values(record.foreign_load, count),
        _rank_values(record.stolen_load, count),
        strict=True,
    )
    return [
        RankRecord(
            trial=record.trial.name,
            world=count,
            topology=topology,
            backend=record.backend,
            strategy=record.strategy,
            windows=_windows(record, index),
            parameter_checksum=checksum,
            device_samples=samples,
            foreign_load=foreign,
            stolen_load=stolen,
            sample_unit="tokens" if record.summary and record.summary.sample_unit == "tokens" else "samples",
            parameters=record.parameters,
            started_ns=0,
            ended_ns=0,
            facts={kind.name: kind.ranks.part(kind, record, index) for kind in kinds},
        )
        for index, (topology, checksum, samples, foreign, stolen) in enumerate(rows)
    ]


def _windows(record: TrialRecord, rank: int) -> list[Window]:
    """Windows of one rank, each with its even part of the samples of all."""
    count = len(record.topology)
    return [
        Window(
            index=window.index,
            kind=window.kind,
            open_ns=window.start_ns,
            wall_ns=window.wall_ns,
            first_step=window.first_step,
            steps=window.steps,
            samples=_part(window.samples, rank, count),
            sequences=None if window.sequences is None else _part(window.sequences, rank, count),
        )
        for window in record.windows
    ]


def _part(total: int, rank: int, count: int) -> int:
    return total // count + (rank < total % count)


def _rank_values(values: Sequence[T | None], count: int) -> list[T | None]:
    """One value for each rank; older records have fewer."""
    return [value for value, _ in zip_longest(values[:count], range(count))]
