"""Bundles of ``program: collectives`` with a known truth."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from scalecurve_api.features.collectives.facts import CollectiveRow
from scalecurve_api.features.collectives.kinds import Collective
from scalecurve_api.record.transport import Transport
from scalecurve_api.record.trial_record import TrialRecord
from tests.analysis.synthetic import experiment, write_bundle
from tests.api.rank_records import with_facts

SIZES = tuple(1 << power for power in range(3, 27))
LATENCY_US, GB_S = 12.0, 200.0


def truth_us(kind: Collective, size: int, workers: int) -> float:
    """A latency, and a bus bandwidth that every collective reaches."""
    return LATENCY_US + size * kind.bus_factor(workers) / GB_S / 1e3


def collective_row(
    kind: Collective, size: int, time_us: float, workers: int, tool: str = "scalecurve", errors: int = 0
) -> CollectiveRow:
    algbw = size / time_us / 1e3
    return CollectiveRow(
        collective=kind,
        tool=tool,
        bytes=size,
        in_place=kind.in_place,
        iterations=20,
        time_us_median=time_us,
        time_us_min=time_us,
        time_us_p95=time_us,
        algbw=algbw,
        busbw=algbw * kind.bus_factor(workers),
        errors=errors,
    )


def collectives_bundle(
    folder: Path,
    workers: Sequence[int] = (2,),
    *,
    reference: float | None = None,
    errors: int = 0,
    carried: dict[int, str] | None = None,
) -> Path:
    """Repetitions differ by 1 % of the time; ``reference`` is nccl-tests' time over ours.

    ``carried`` has the transport of every worker count.
    """

    def measured(record: TrialRecord) -> TrialRecord:
        count, noise = record.trial.point.workers, 1 + 0.01 * (record.trial.repetition - 1)
        own = [
            collective_row(kind, size, truth_us(kind, size, count) * noise, count, errors=errors)
            for kind in Collective
            for size in SIZES
        ]
        beside = [
            collective_row(row.collective, row.bytes, row.time_us_median * reference, count, "nccl-tests")
            for row in own
            if reference
        ]
        seen = [
            Transport(library="nccl", channels={way: 2}, peers={str((place.rank + 1) % count): way})
            for place in record.topology
            if (way := (carried or {}).get(count))
        ]
        change = {"windows": [], "summary": None, "transports": seen}
        return with_facts(record, collectives=[*own, *beside]).model_copy(update=change)

    of = experiment("six", modes=["strong"], workers=workers, workload={"program": "collectives"})
    return write_bundle(folder, of, tables=False, change=measured)
