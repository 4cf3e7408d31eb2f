"""What the ranks of a played trial would have measured: records and journals of the right shape, made in no time."""

import math
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scalecurve_api.features.collectives.facts import ALLREDUCE, AllReduceRow
from scalecurve_api.features.collectives.fields import AllReduceWorkload
from scalecurve_api.record import envelope, journal
from scalecurve_api.record.assemble import combine_windows, summarize
from scalecurve_api.record.rank import RankRecord, RankTopology, Warmup, Window, WindowKind
from scalecurve_api.record.termination import Termination
from scalecurve_api.record.trial_record import Summary
from scalecurve_api.spec.trial import TrialSpec
from tools.devcluster.player.script import Scenario

_SECOND = 1_000_000_000
_MANY = 64
"""With more ranks the summary is made without the journals."""


@dataclass(frozen=True)
class Place:
    """Where a pod is."""

    pod: str
    node: str


@dataclass(frozen=True)
class Played:
    """What the ranks leave."""

    ranks: dict[int, RankRecord]
    journals: dict[int, bytes]
    summary: Summary | None


def step_seconds(trial: TrialSpec) -> float:
    """A step's time: computing its share of the batch, and an all-reduce that grows with the workers."""
    workers = trial.point.workers
    batch = trial.point.batch_per_worker or (trial.point.global_batch or workers) / workers
    return 0.01 + 0.001 * batch + (0.004 * (workers - 1) / workers + 0.0005 * math.log2(workers))


def play_record(
    trial: TrialSpec, places: Sequence[Place], begin_ns: int, outcome: Scenario, slowdown: float = 1.0
) -> Played:
    """Records of all ranks, spread evenly over the pods at `places`, from `begin_ns` in Unix time.

    The same arguments give the same records: whatever varies is drawn from the trial's name.
    """
    workers = trial.point.workers
    each = max(1, workers // len(places))
    kinds = _windows(trial)
    step_ns = step_seconds(trial) * slowdown * _SECOND
    warmup, per_window = trial.measure.warmup_steps, trial.measure.steps_per_window
    steps = np.arange(warmup + len(kinds) * per_window, dtype=np.int64)
    window_of = np.where(steps < warmup, journal.WARMUP_WINDOW, (steps - warmup) // per_window)
    without = np.array([kind is WindowKind.no_communication for kind in kinds] + [False])
    batch = trial.point.batch_per_worker or max(1, (trial.point.global_batch or workers) // workers)
    random = np.random.default_rng(zlib.crc32(trial.name.encode()))
    on_gpu = "nvidia.com/gpu" in trial.resources.limits
    ranks: dict[int, RankRecord] = {}
    journals: dict[int, bytes] = {}
    for rank in range(workers):
        place = places[0] if outcome is Scenario.wrong_placement else places[min(rank // each, len(places) - 1)]
        local = rank if outcome is Scenario.wrong_placement else rank % each
        table = np.zeros(len(steps), dtype=np.dtype(journal.ROW_DTYPE))
        durations = (step_ns * (1 + 0.01 * random.random(len(steps), dtype=np.float32))).astype(np.int64)
        durations[without[window_of]] = durations[without[window_of]] * 9 // 10
        table["step"], table["window"], table["duration_ns"] = steps, window_of, durations
        table["start_ns"] = begin_ns + _SECOND + np.cumsum(durations) - durations
        table["samples"], table["loss"] = batch, np.nan
        journals[rank] = journal.HEADER.pack(journal.MAGIC, rank, journal.ROW.size) + table.tobytes()
        gpu = f"GPU-{zlib.crc32(f'{place.node}/{place.pod}/{local}'.encode()):08x}"
        topology = RankTopology(
            rank=rank, local_rank=local, host=place.pod, pid=1000 + local, pod=place.pod, node=place.node,
            device=gpu if on_gpu else f"cpu:{local}", device_name="a played GPU" if on_gpu else "a played CPU",
            cores=[] if on_gpu else [local], threads=1,
        )  # fmt: skip
        ranks[rank] = _rank_record(trial, topology, table, kinds, begin_ns, outcome, slowdown)
    ordered = [ranks[rank] for rank in sorted(ranks)]
    seen = journals if workers <= _MANY else {}
    return Played(ranks, journals, summarize(trial, ordered, combine_windows(ordered), seen))


def sealed(
    trial: TrialSpec, attempt: int, places: Sequence[Place], outcome: Scenario, slower: float = 1, budget: int = 8 << 20
) -> tuple[bytes, Termination]:
    """The record of an attempt that ends now, as its log has it, and what its pod says of it."""
    played = play_record(trial, places, time.time_ns() - 5 * _SECOND, outcome, slower)
    payload = envelope.seal(trial.name, attempt, played.ranks, played.journals, budget)
    return payload, Termination(
        trial=trial.name, attempt=attempt, sha256=envelope.digest(payload), bytes=len(payload),
        summary=played.summary, exit_codes={"0": 0},
    )  # fmt: skip


def _windows(trial: TrialSpec) -> list[WindowKind]:
    if isinstance(trial.workload, AllReduceWorkload):
        return []
    measure = trial.measure
    pair = [WindowKind.train]
    if measure.exposed_communication and trial.point.workers > 1:
        pair.append(WindowKind.no_communication)
    return pair * measure.windows


def _rank_record(
    trial: TrialSpec,
    topology: RankTopology,
    table: np.ndarray,
    kinds: Sequence[WindowKind],
    begin_ns: int,
    outcome: Scenario,
    slowdown: float,
) -> RankRecord:
    workers = trial.point.workers
    rank = topology.rank
    per_window, warmup = trial.measure.steps_per_window, trial.measure.warmup_steps
    windows = []
    for index, kind in enumerate(kinds):
        rows = table[warmup + index * per_window : warmup + (index + 1) * per_window]
        windows.append(
            Window(
                index=index, kind=kind, open_ns=int(rows["start_ns"][0]), wall_ns=int(rows["duration_ns"].sum()),
                first_step=int(rows["step"][0]), steps=per_window, samples=int(rows["samples"].sum()),
            )
        )  # fmt: skip
    on_gpu = not topology.device.startswith("cpu")
    world = (1 if workers > 1 else 2) if outcome is Scenario.wrong_world else workers
    last = begin_ns + 2 * _SECOND + (int(table["duration_ns"].sum()) if len(table) else 0)
    return RankRecord(
        trial=trial.name,
        world=world,
        topology=topology,
        backend=trial.workload.carrier(on_gpu) if workers > 1 else None,
        strategy=trial.workload.wrapper(),
        versions={"played": "1"},
        environment={"OMP_NUM_THREADS": "1"},
        windows=windows,
        warmup=Warmup(steps=warmup, rule="played", stable=True),
        parameter_checksum="diverged" if outcome is Scenario.diverged and rank == workers - 1 else "played",
        parameters=11_000_000,
        exposed_method="played" if WindowKind.no_communication in kinds else None,
        finite_loss=outcome is not Scenario.not_finite,
        foreign_load=0.0,
        facts={ALLREDUCE.name: _sizes(trial, slowdown)} if rank == 0 else {},
        started_ns=begin_ns,
        first_step_ns=begin_ns + _SECOND,
        ended_ns=last,
    )


def _sizes(trial: TrialSpec, slowdown: float) -> list[AllReduceRow]:
    if not isinstance(trial.workload, AllReduceWorkload):
        return []
    sizes, workers = trial.workload.sizes, max(2, trial.point.workers)
    rows, size, random = [], sizes.min_bytes, np.random.default_rng(zlib.crc32(trial.name.encode()))
    while size <= sizes.max_bytes:
        time_us = (20 + size / 1e4) * slowdown * (1 + 0.01 * random.random())
        algbw = size / time_us / 1e3
        rows.append(
            AllReduceRow(
                bytes=size, in_place=True, iterations=sizes.iterations, time_us_median=time_us, time_us_min=time_us,
                time_us_p95=time_us, algbw=algbw, busbw=algbw * 2 * (workers - 1) / workers, errors=0,
            )
        )  # fmt: skip
        size *= sizes.factor
    return rows
