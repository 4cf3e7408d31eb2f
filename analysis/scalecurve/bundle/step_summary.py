"""Summaries of all trials' step tables, computed two at a time: hashing, decoding and sorting release the GIL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scalecurve.bundle.open import Bundle, utf8_name
from scalecurve.bundle.problem import FileError, UnusableFile
from scalecurve.bundle.steps import StepTable, quantiles, read_steps, read_table
from scalecurve.bundle.trial import Trial
from scalecurve.statistics.detectors import Drift, SlowRanks, Stragglers, WarmUp, drift, slow_ranks, stragglers, warm_up
from scalecurve.statistics.modes import Bimodality, bimodality
from scalecurve_api.record.tables import EVALS_FILE, STEPS_FILE

if TYPE_CHECKING:
    from scalecurve.bundle.steps import Durations

THREADS = 2
STRAGGLER_STEPS = 20_000
ENOUGH_STEPS = 20


@dataclass(frozen=True)
class StepSummary:
    """Summary of a trial's steps; times in seconds, quantiles at ``steps.QUANTILES``.

    ``slowest`` is over the slowest rank of each timed step, ``ranks`` over each rank's own timed steps,
    ``slowest_share`` how often each rank was the slowest. ``own_medians`` are of the steps without all-reduce,
    where ranks do not wait for each other; None where there are none. Detectors are None where there are too few steps.
    """

    rows: int
    steps: int
    slowest: tuple[float, ...]
    ranks: tuple[tuple[float, ...], ...]
    slowest_share: tuple[float, ...]
    own_medians: tuple[float, ...] | None
    drift: Drift | None
    modes: Bimodality | None
    warm_up: WarmUp | None
    slow_ranks: SlowRanks | None
    stragglers: Stragglers | None


@dataclass(frozen=True)
class StepSummaries:
    """Step summaries by (bundle's label, trial), and the tables that could not be used by bundle."""

    of: Mapping[tuple[str, str], StepSummary]
    problems: tuple[tuple[str, UnusableFile], ...]

    @property
    def rows(self) -> int:
        return sum(summary.rows for summary in self.of.values())


def summarize_steps(bundles: Sequence[Bundle], threads: int = THREADS) -> StepSummaries:
    """Summarize every Succeeded trial; the result depends neither on ``threads`` nor on the order of finishing."""
    import pyarrow as pa

    jobs = [
        (bundle.label, trial)
        for bundle in bundles
        for trial in bundle.trials
        if trial.good and trial.record and trial.record.files
    ]
    with ThreadPoolExecutor(threads, thread_name_prefix="summarize") as pool:
        results = list(pool.map(_one, (trial for _, trial in jobs)))
    pa.default_memory_pool().release_unused()
    of: dict[tuple[str, str], StepSummary] = {}
    problems: list[tuple[str, UnusableFile]] = []
    for (label, trial), (result, wrong) in zip(jobs, results, strict=True):
        problems += [(label, problem) for problem in wrong]
        if result is not None:
            of[label, trial.name] = result
    return StepSummaries(of, tuple(problems))


def _summarize(table: StepTable) -> StepSummary:
    """Summarize one table; uses up ``table`` (its arrays are sorted in part)."""
    import numpy as np

    slowest = table.timed.max(axis=0)
    counts = np.bincount(table.timed.argmax(axis=0), minlength=len(table.timed))
    unsynchronized = table.timed if table.own is None else table.own
    late = _stragglers(unsynchronized)
    seconds = slowest / 1e9 if len(slowest) >= ENOUGH_STEPS else None
    ranks = tuple(quantiles(durations) for durations in table.timed)
    own_medians = None if table.own is None else tuple(_median(durations) for durations in table.own)
    medians = own_medians or tuple(q[3] for q in ranks)
    return StepSummary(
        rows=table.rows,
        steps=len(slowest),
        slowest=quantiles(slowest),
        ranks=ranks,
        slowest_share=tuple((counts / max(1, counts.sum())).tolist()),
        own_medians=own_medians,
        drift=None if seconds is None else drift(seconds),
        modes=None if seconds is None else bimodality(seconds),
        warm_up=None if seconds is None else warm_up(seconds),
        slow_ranks=slow_ranks(medians) if len(medians) > 1 and unsynchronized.shape[1] >= ENOUGH_STEPS else None,
        stragglers=late,
    )


def _one(trial: Trial) -> tuple[StepSummary | None, list[UnusableFile]]:
    """Summarize the steps of a trial; its evaluations stand in the record, their table is only verified.

    So is the step table of the all-reduce program: messages of 8 B and of 1 GiB have no step time in common.
    """
    summary: StepSummary | None = None
    problems: list[UnusableFile] = []
    alike = trial.spec.workload.takes_batch
    for name in sorted(trial.record.files if trial.record else ()):
        try:
            if name == STEPS_FILE and alike:
                summary = _summarize(read_steps(trial))
            elif name in (STEPS_FILE, EVALS_FILE):
                read_table(trial, name)
        except FileError as error:
            problems.append(UnusableFile(f"trials/{utf8_name(trial.folder.name)}/{name}", str(error)))
    return summary, problems


def _median(durations: Durations) -> float:
    middle = len(durations) // 2
    durations.partition(middle)
    return float(durations[middle]) / 1e9


def _stragglers(durations: Durations) -> Stragglers | None:
    """The slowest rank against the median rank, over at most ``STRAGGLER_STEPS`` steps spread over the run."""
    import numpy as np

    if len(durations) < 2 or durations.shape[1] < ENOUGH_STEPS:
        return None
    some = durations[:, :: max(1, durations.shape[1] // STRAGGLER_STEPS)] / 1e9
    return stragglers(some.max(axis=0), np.median(some, axis=0))
