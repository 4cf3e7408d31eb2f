"""Was the run what was asked for? Rank records and outcome -> phase, reason and every check with its evidence.

A check is passed, not passed, or could not be made (None), and says why. A check that carries the name of an
``InvalidReason`` and did not pass makes the trial Invalid; the others warn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from scalebench_api.experiment import Backend, Program
from scalebench_api.record.outcome import Outcome
from scalebench_api.record.rank import RankRecord, WindowKind
from scalebench_api.record.trial_record import Check
from scalebench_api.trial import InvalidReason, TrialPhase, TrialSpec

SAME_SOFTWARE = "SameSoftware"


@dataclass(frozen=True)
class Verdict:
    """The final phase of an attempt and how it came about."""

    phase: TrialPhase
    reason: str | None
    message: str
    checks: tuple[Check, ...]


def judge(trial: TrialSpec, ranks: Mapping[int, RankRecord], outcome: Outcome) -> Verdict:
    """Decide the final phase: a run that did not end well is Failed, one that is not what was asked for Invalid."""
    if outcome.cancelled:
        return Verdict(TrialPhase.cancelled, None, outcome.message or "cancelled", ())
    checks = tuple(_checks(trial, [ranks[rank] for rank in sorted(ranks)], outcome))
    if outcome.failure is not None:
        return Verdict(TrialPhase.failed, outcome.failure.value, outcome.message, checks)
    broken = [check for check in checks if check.passed is False and check.name in set(InvalidReason)]
    if broken:
        return Verdict(TrialPhase.invalid, broken[0].name, "; ".join(check.detail for check in broken), checks)
    return Verdict(TrialPhase.succeeded, None, "", checks)


def _checks(trial: TrialSpec, ranks: Sequence[RankRecord], outcome: Outcome) -> Iterator[Check]:
    yield _records(trial, ranks)
    if not ranks:
        return
    yield _world_size(trial, ranks)
    yield _oversubscribed(ranks, outcome)
    yield _placement(trial, ranks, outcome)
    yield _backend(trial, ranks)
    yield _replicas(ranks)
    yield _finite_loss(ranks)
    yield _throttled(ranks)
    yield _neighbours(trial, ranks)
    yield _software(ranks)


def _records(trial: TrialSpec, ranks: Sequence[RankRecord]) -> Check:
    name = InvalidReason.records_missing.value
    found = {record.topology.rank for record in ranks}
    missing = sorted(set(range(trial.point.workers)) - found)
    if missing:
        return Check(name=name, passed=False, detail=f"no record from rank {_few(missing)} of {trial.point.workers}")
    if trial.workload.program is Program.allreduce:
        rows = len(ranks[0].allreduce)
        return Check(name=name, passed=rows > 0, detail=f"{rows} message sizes measured")
    want = trial.measure.windows
    for record in ranks:
        train = [window for window in record.windows if window.kind is WindowKind.train]
        if len(train) != want or any(window.steps != trial.measure.steps_per_window for window in train):
            steps = sum(window.steps for window in train)
            detail = f"rank {record.topology.rank} measured {len(train)} windows, {steps} steps; asked for: {want}"
            return Check(name=name, passed=False, detail=f"{detail} windows of {trial.measure.steps_per_window} steps")
    return Check(name=name, passed=True, detail=f"{len(ranks)} ranks, {want} windows each")


def _world_size(trial: TrialSpec, ranks: Sequence[RankRecord]) -> Check:
    want = trial.point.workers
    worlds = sorted({record.world for record in ranks})
    passed = worlds == [want] and len(ranks) == want
    return Check(
        name=InvalidReason.wrong_world_size.value,
        passed=passed,
        detail=f"world size {_few(worlds)}, asked for {want}" if not passed else f"world size {want}",
    )


def _oversubscribed(ranks: Sequence[RankRecord], outcome: Outcome) -> Check:
    name = InvalidReason.oversubscribed.value
    if outcome.oversubscribed:
        return Check(name=name, passed=False, detail="more workers than devices or cores, as --oversubscribe allowed")
    used: Counter[tuple[str, str]] = Counter()
    for record in ranks:
        topology = record.topology
        parts = [f"core {core}" for core in topology.cores] if topology.device.startswith("cpu") else [topology.device]
        # Pods of one node have hosts of their own and may be given the same device, in turns.
        where = topology.host if topology.device.startswith("cpu") else topology.node or topology.host
        used.update((where, part) for part in parts)
    shared = sorted(f"{part} on {host}" for (host, part), count in used.items() if count > 1)
    if shared:
        return Check(name=name, passed=False, detail=f"more than one rank on {_few(shared)}")
    return Check(name=name, passed=True, detail="every rank has devices of its own")


def _placement(trial: TrialSpec, ranks: Sequence[RankRecord], outcome: Outcome) -> Check:
    name = InvalidReason.wrong_placement.value
    point = trial.point
    if elsewhere := _elsewhere(ranks, outcome.placement):
        return Check(name=name, passed=False, detail=elsewhere)
    places = _places(ranks)
    found = sorted(places.values())
    if len(places) != point.nodes or found != [point.workers_per_node] * point.nodes:
        detail = f"ranks per place: {dict(sorted(places.items()))}; asked for layout {point.layout}"
        return Check(name=name, passed=False, detail=detail)
    if outcome.requested_devices:
        used = [record.topology.device for record in ranks]
        if used != outcome.requested_devices:
            detail = f"devices {', '.join(used)}; given: {', '.join(outcome.requested_devices)}"
            return Check(name=name, passed=False, detail=detail)
    return Check(name=name, passed=True, detail=f"layout {point.layout}")


def _elsewhere(ranks: Sequence[RankRecord], placement: Mapping[str, str]) -> str | None:
    """What a rank says of its pod and node that the cluster contradicts; ``placement`` is pod -> node."""
    if not placement:
        return None
    for record in ranks:
        rank, pod, node = record.topology.rank, record.topology.pod, record.topology.node
        if pod is None:
            continue
        if pod not in placement:
            return f"rank {rank} ran in pod {pod}, which is none of this job's"
        if node is not None and node != placement[pod]:
            return f"rank {rank} says it ran on node {node}; the cluster has its pod {pod} on {placement[pod]}"
    return None


def _places(ranks: Sequence[RankRecord]) -> Counter[str]:
    """Ranks by place: by node where every rank names its node, for a node may hold several pods."""
    nodes = [record.topology.node for record in ranks]
    if all(nodes):
        return Counter(node for node in nodes if node)
    return Counter(record.topology.pod or record.topology.host for record in ranks)


def _backend(trial: TrialSpec, ranks: Sequence[RankRecord]) -> Check:
    name = InvalidReason.wrong_backend.value
    used = sorted({record.backend or "none" for record in ranks})
    if trial.workload.program is Program.custom or trial.point.workers == 1:
        return Check(name=name, passed=True if trial.point.workers == 1 else None, detail=f"used {_few(used)}")
    want = trial.workload.backend
    if want is Backend.auto:
        on_gpu = not ranks[0].topology.device.startswith("cpu")
        want = Backend.nccl if on_gpu else Backend.gloo
    return Check(name=name, passed=used == [want.value], detail=f"used {_few(used)}, asked for {want.value}")


def _replicas(ranks: Sequence[RankRecord]) -> Check:
    name = InvalidReason.replicas_diverged.value
    sums = {record.topology.rank: record.parameter_checksum for record in ranks}
    if any(value is None for value in sums.values()):
        return Check(name=name, passed=None, detail="no parameter checksum: the program gave no model to compare")
    groups = Counter(sums.values())
    if len(groups) > 1:
        common = groups.most_common(1)[0][0]
        apart = [rank for rank, value in sums.items() if value != common]
        return Check(name=name, passed=False, detail=f"parameters of rank {_few(apart)} differ from the others'")
    return Check(name=name, passed=True, detail=f"parameters equal on {len(ranks)} ranks")


def _finite_loss(ranks: Sequence[RankRecord]) -> Check:
    name = InvalidReason.non_finite_loss.value
    bad = [record.topology.rank for record in ranks if record.finite_loss is False]
    if bad:
        return Check(name=name, passed=False, detail=f"loss is NaN or infinite on rank {_few(bad)}")
    if all(record.finite_loss is None for record in ranks):
        return Check(name=name, passed=None, detail="the program reported no loss")
    return Check(name=name, passed=True, detail="every loss read is finite")


def _throttled(ranks: Sequence[RankRecord]) -> Check:
    name = InvalidReason.throttled.value
    if all(record.device_samples is None for record in ranks):
        return Check(name=name, passed=None, detail="no device clocks to read")
    hot = {
        record.topology.rank: record.device_samples.throttle_reasons
        for record in ranks
        if record.device_samples is not None and record.device_samples.throttle_reasons
    }
    if hot:
        said = "; ".join(f"rank {rank}: {', '.join(reasons)}" for rank, reasons in sorted(hot.items()))
        return Check(name=name, passed=False, detail=f"clocks were held down: {said}")
    if unread := [record.topology.rank for record in ranks if record.device_samples is None]:
        return Check(name=name, passed=None, detail=f"no device clocks to read on rank {_few(unread)}")
    return Check(name=name, passed=True, detail="no thermal or hardware slowdown seen")


def _neighbours(trial: TrialSpec, ranks: Sequence[RankRecord]) -> Check:
    name = InvalidReason.noisy_neighbour.value
    others = [r.topology.rank for r in ranks if r.device_samples is not None and r.device_samples.other_processes]
    if others:
        return Check(name=name, passed=False, detail=f"other processes on the device of rank {_few(others)}")
    loads = {record.topology.rank: record.foreign_load for record in ranks if record.foreign_load is not None}
    if not loads:
        return Check(name=name, passed=None, detail="the load of others on these cores could not be read")
    worst = max(loads, key=lambda rank: loads[rank])
    limit = trial.measure.max_foreign_load
    detail = f"other processes took {loads[worst]:.0%} of the cores of rank {worst}, allowed {limit:.0%}"
    if ranks[0].topology.device.startswith("cpu"):
        return Check(name=name, passed=loads[worst] <= limit or limit >= 1, detail=detail)
    return Check(name=name, passed=True, detail=detail)


def _software(ranks: Sequence[RankRecord]) -> Check:
    first = ranks[0]
    differs = [r.topology.rank for r in ranks if (r.versions, r.environment) != (first.versions, first.environment)]
    detail = f"rank {_few(differs)} differs from rank {first.topology.rank}" if differs else "the same on every rank"
    return Check(name=SAME_SOFTWARE, passed=not differs, detail=detail)


def _few(values: Sequence[object], most: int = 6) -> str:
    shown = ", ".join(str(value) for value in values[:most])
    return shown + (f" and {len(values) - most} more" if len(values) > most else "")
