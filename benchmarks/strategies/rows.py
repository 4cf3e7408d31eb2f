"""What came of a trial of ``strategies.py``: a checked row, and its lines."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from scalecurve_api.features.collectives.facts import ALLREDUCE
from scalecurve_api.record.assemble import combine_windows
from scalecurve_api.record.outcome import Outcome
from scalecurve_api.record.rank import RankRecord, WindowKind
from scalecurve_api.record.verdict import judge
from scalecurve_api.spec.trial import TrialPhase, TrialSpec


@dataclass
class Row:
    """What came of it."""

    name: str
    workers: int
    throughput: float | None = None
    unit: str = "samples"
    windows: list[float] = field(default_factory=list)
    exposed_ms: float | None = None
    step_ms: float | None = None
    memory_gib: float | None = None
    payload_mib: float | None = None
    wire_mib: float | None = None
    loss: float | None = None
    strategy: str | None = None
    backend: str | None = None
    sizes: list[dict[str, Any]] = field(default_factory=list)
    problem: str | None = None
    checks: list[dict[str, Any]] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0


def fill(row: Row, trial: TrialSpec, ranks: Sequence[RankRecord]) -> None:
    """Numbers of a checked run; throughput is all samples over the slowest rank's time of the train windows."""
    verdict = judge(trial, {record.topology.rank: record for record in ranks}, Outcome(engine="strategies.py"))
    row.checks = [check.wire() for check in verdict.checks]
    if verdict.phase is not TrialPhase.succeeded:
        row.problem = f"{verdict.reason}: {verdict.message}"
    if not ranks:
        return
    first = ranks[0]
    row.strategy, row.backend, row.options, row.versions = first.strategy, first.backend, first.options, first.versions
    row.unit, row.loss = first.sample_unit, first.last_loss
    row.sizes = [size.wire() for size in ALLREDUCE.of(first)]
    windows = combine_windows(ranks)
    train = [each for each in windows if each.kind is WindowKind.train]
    bare = [each for each in windows if each.kind is WindowKind.no_communication]
    if train and not row.sizes:
        row.throughput = sum(each.samples for each in train) / sum(each.wall_ns for each in train) * 1e9
        row.windows = [each.samples / each.wall_ns * 1e9 for each in train]
        row.step_ms = statistics.median(each.wall_ns / each.steps for each in train) / 1e6
        if bare:
            row.exposed_ms = row.step_ms - statistics.median(each.wall_ns / each.steps for each in bare) / 1e6
    peaks = [record.peak_memory_bytes for record in ranks if record.peak_memory_bytes]
    row.memory_gib = max(peaks) / 2**30 if peaks else None
    if first.traffic:
        row.payload_mib, row.wire_mib = first.traffic.payload_bytes / 2**20, first.traffic.wire_bytes / 2**20


HEAD = f"{'case':34} {'n':>2} {'per second':>12} {'step ms':>8} {'exposed':>8} {'GiB':>6} {'wire MiB':>9} {'s':>4}"


def lines_of(row: Row) -> Iterator[str]:
    """A case, for people."""
    problem = f"  NOT VALID: {row.problem}" if row.problem else ""
    for size in row.sizes:
        numbers = f"{size['bytes']:>12,} B {size['timeUsMedian']:>10.1f} us {size['busbw']:>8.2f} GB/s bus"
        yield f"{row.name:34} {numbers}"
    if problem or not row.sizes:
        yield (
            f"{row.name:34} {row.workers:>2} {_of(row.throughput, ',.0f'):>12} {_of(row.step_ms, '.1f'):>8} "
            f"{_of(row.exposed_ms, '.1f'):>8} {_of(row.memory_gib, '.1f'):>6} {_of(row.wire_mib, '.1f'):>9} "
            f"{row.seconds:>4.0f}{problem}"
        )


def _of(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
