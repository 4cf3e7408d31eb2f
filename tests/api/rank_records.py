"""What the ranks of a good run leave, and the same with things changed."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from scalecurve_api.planning.plan import make_plan
from scalecurve_api.record.fact_kind import Recorded
from scalecurve_api.record.journal import NO_LOSS, WARMUP_WINDOW, StepRow, pack_row, write_header
from scalecurve_api.record.outcome import Outcome
from scalecurve_api.record.rank import RankRecord, RankTopology, Window, WindowKind
from scalecurve_api.spec.trial import TrialSpec
from tests.api.example_experiments import experiment

Record = TypeVar("Record", bound=Recorded)
SECOND = 1_000_000_000
BEGIN = 1_790_000_000 * SECOND
GOOD = Outcome(engine="local", exit_codes={"0": 0, "1": 0})
MEASURE = {"windows": 2, "stepsPerWindow": 3, "repetitions": 1}


def trial(changes: Mapping[str, Any] | None = None, workers: int = 2) -> TrialSpec:
    """The trial with so many workers of the example experiment."""
    counts = {"scaling/workers": sorted({1, workers})}
    plan = make_plan(experiment({"measure": MEASURE, **counts, **(changes or {})}))
    return next(each for each in plan.trials if each.point.workers == workers)


def window(index: int, kind: WindowKind = WindowKind.train, wall_s: float = 0.3, **changes: Any) -> Window:
    """A window of three steps of eight samples."""
    fields: dict[str, Any] = {
        "index": index,
        "kind": kind,
        "open_ns": BEGIN + index * SECOND,
        "wall_ns": round(wall_s * SECOND),
        "first_step": 3 * (index + 1),
        "steps": 3,
        "samples": 24,
    }
    return Window(**fields | changes)


def rank_record(rank: int, of: TrialSpec, **changes: Any) -> RankRecord:
    """A rank of a good run on CPUs; names of the topology's fields change the topology."""
    where = {
        "rank": rank,
        "local_rank": rank,
        "host": "here",
        "pid": 100 + rank,
        "device": f"cpu:{rank}",
        "device_name": "a CPU",
        "cores": [rank],
        "threads": 1,
    }
    known = {
        "trial": of.name,
        "world": of.point.workers,
        "backend": "gloo" if of.point.workers > 1 else None,
        "strategy": "DistributedDataParallel",
        "versions": {"torch": "2.0"},
        "environment": {"OMP_NUM_THREADS": "1"},
        "windows": [window(index) for index in range(of.measure.windows)],
        "parameter_checksum": "abc",
        "finite_loss": True,
        "foreign_load": 0.01,
        "stolen_load": 0.0,
        "started_ns": BEGIN - 9 * SECOND,
        "first_step_ns": BEGIN - SECOND,
        "ended_ns": BEGIN + 9 * SECOND,
    }
    topology = RankTopology(
        **{name: changes.pop(name, value) for name, value in where.items()}, pod=changes.pop("pod", None)
    )
    return RankRecord(**{**known, **changes, "topology": topology})


def with_facts(record: Record, **facts: Any) -> Record:
    """The record with other facts, by the names of their kinds."""
    return record.model_copy(update={"facts": {**record.facts, **facts}})


def ranks_of(of: TrialSpec, **changes: Any) -> dict[int, RankRecord]:
    """Every rank's record, changed alike."""
    return {rank: rank_record(rank, of, **changes) for rank in range(of.point.workers)}


def row(step: int, window: int = WARMUP_WINDOW, duration_s: float = 0.1, loss: float = NO_LOSS) -> StepRow:
    """One step of eight samples."""
    return StepRow(step, window, BEGIN + step * SECOND, round(duration_s * SECOND), 8, loss)


def journal_of(rank: int, rows: Iterable[StepRow]) -> bytes:
    """A whole journal."""
    file = io.BytesIO()
    write_header(file, rank)
    for each in rows:
        file.write(pack_row(each))
    return file.getvalue()


def steps_of(rank: int, durations: Iterable[float] = (0.1,) * 9) -> bytes:
    """A journal of three warm-up steps and windows of three."""
    return journal_of(rank, (row(step, step // 3 - 1, duration) for step, duration in enumerate(durations)))
