"""Was the run what was asked for? Rank records and outcome -> phase, reason and every check with its evidence.

A check is passed, not passed, or could not be made (None), and says why. A check that carries the name of an
``InvalidReason`` and did not pass makes the trial Invalid; the others warn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from scalebench_api import horovod
from scalebench_api.legality import strategy_of
from scalebench_api.record.frozen import frozen_unchanged
from scalebench_api.record.outcome import Outcome
from scalebench_api.record.rank import RankRecord, WindowKind
from scalebench_api.record.trial_record import Check
from scalebench_api.tensorflow import CLASSES, carrier_of
from scalebench_api.trial import InvalidReason, TrialPhase, TrialSpec
from scalebench_api.workload import Backend, Program, Strategy, Updates

SAME_SOFTWARE = "SameSoftware"
SAME_VERSION = "SameVersion"
TCP = "tcp"
"""What carries gradients to parameter servers of program torch."""

WRAPPERS: dict[Strategy | None, str] = {
    Strategy.single: "none",
    Strategy.ddp: "DistributedDataParallel",
    Strategy.dp: "DataParallel",
    Strategy.fsdp: "FSDPModule",
    Strategy.zero1: "DistributedDataParallel + ZeroRedundancyOptimizer",
    Strategy.parameter_server: "ParameterServer",
}
"""Strategy of program torch -> what ``RankRecord.strategy`` must say."""


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
    # Ranks in the wrong place crowd there: that they share its cores is what follows.
    yield _placement(trial, ranks, outcome)
    yield _oversubscribed(ranks, outcome)
    yield _backend(trial, ranks)
    yield _strategy(trial, ranks)
    yield _replicas(trial, ranks)
    yield _samples(trial, ranks)
    yield frozen_unchanged(trial, ranks)
    yield _finite_loss(ranks)
    yield _throttled(ranks)
    yield _neighbours(trial, ranks)
    yield _software(ranks)
    if outcome.engine_version is not None:
        yield _version(ranks[0].versions.get("scalebench"), outcome.engine_version)


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
            return f"rank {rank} ran in pod {pod}, which carries no worker of this job"
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
    if strategy_of(trial.workload) is Strategy.dp:
        return Check(name=name, passed=used == ["none"], detail=f"used {_few(used)}; one process drives every GPU")
    if trial.workload.program is Program.tensorflow:
        on_gpu = not ranks[0].topology.device.startswith("cpu")
        carrier = carrier_of(trial.workload, strategy_of(trial.workload), on_gpu)
        return Check(name=name, passed=used == [carrier], detail=f"used {_few(used)}, asked for {carrier}")
    if trial.workload.program is Program.horovod:
        carrier = horovod.carrier_of(trial.workload, not ranks[0].topology.device.startswith("cpu"))
        return Check(name=name, passed=used == [carrier], detail=f"used {_few(used)}, asked for {carrier}")
    if _served(trial):
        return Check(name=name, passed=used == [TCP], detail=f"used {_few(used)}, asked for parameter servers by {TCP}")
    if want is Backend.auto:
        on_gpu = not ranks[0].topology.device.startswith("cpu")
        want = Backend.nccl if on_gpu else Backend.gloo
    return Check(name=name, passed=used == [want.value], detail=f"used {_few(used)}, asked for {want.value}")


def _strategy(trial: TrialSpec, ranks: Sequence[RankRecord]) -> Check:
    name = InvalidReason.wrong_strategy.value
    workload = trial.workload
    used = sorted({record.strategy or "none" for record in ranks})
    known = {Program.torch: WRAPPERS, Program.tensorflow: CLASSES}.get(workload.program, {})
    want = horovod.WRAPPER if workload.program is Program.horovod else known.get(strategy_of(workload))
    if want is None:
        return Check(name=name, passed=None, detail=f"wrapped by {_few(used)}; nothing to hold it against")
    passed = used == [want]
    return Check(name=name, passed=passed, detail=f"wrapped by {_few(used)}" + ("" if passed else f", not by {want}"))


def _replicas(trial: TrialSpec, ranks: Sequence[RankRecord]) -> Check:
    name = InvalidReason.replicas_diverged.value
    if broken := _untrained(ranks) or _shares(ranks) or _servers(trial, ranks):
        return Check(name=name, passed=False, detail=broken)
    if strategy_of(trial.workload) is Strategy.dp:
        return Check(name=name, passed=None, detail="one set of parameters, copied to every GPU in each step")
    if trial.workload.program is Program.tensorflow and strategy_of(trial.workload) is Strategy.parameter_server:
        return Check(name=name, passed=None, detail="one set of parameters, on the servers")
    sums = {record.topology.rank: record.parameter_checksum for record in ranks}
    if any(value is None for value in sums.values()):
        return Check(name=name, passed=None, detail="no parameter checksum: the program gave no model to compare")
    groups = Counter(sums.values())
    if len(groups) > 1:
        common = groups.most_common(1)[0][0]
        apart = [rank for rank, value in sums.items() if value != common]
        return Check(name=name, passed=False, detail=f"parameters of rank {_few(apart)} differ from the others'")
    detail = f"parameters equal on {len(ranks)} ranks"
    if _served(trial) and trial.workload.parameter_server.updates is Updates.asynchronous:
        # Between two fetches the ranks' parameters differ, and nothing bounds by how much.
        detail += ", as fetched after the last update; no bound on what they differ by before"
    return Check(name=name, passed=True, detail=detail)


def _untrained(ranks: Sequence[RankRecord]) -> str | None:
    same = [r.topology.rank for r in ranks if r.initial_checksum and r.initial_checksum == r.parameter_checksum]
    return f"no parameter of rank {_few(same)} has changed: nothing was trained" if same else None


def _shares(ranks: Sequence[RankRecord]) -> str | None:
    """Ranks that hold shares must hold every parameter once."""
    held = [record.shard_elements for record in ranks if record.shard_elements is not None]
    if not held or sum(held) == ranks[0].parameters:
        return None
    return f"{sum(held)} elements of parameters in {len(held)} shares, and the model has {ranks[0].parameters}"


def _servers(trial: TrialSpec, ranks: Sequence[RankRecord]) -> str | None:
    """Every gradient that a rank sent must have come to every server, and their shares make the model."""
    if not _served(trial):
        return None
    servers, asked = ranks[0].servers, trial.workload.parameter_server.servers
    if len(servers) != asked:
        return f"{len(servers)} parameter servers gave counts, asked for {asked}"
    sent = sum(record.pushes or 0 for record in ranks)
    for each in servers:
        if each.gradients != sent:
            return f"parameter server {each.server} took {each.gradients} gradients, and the workers sent {sent}"
    held = sum(each.parameters for each in servers)
    return None if held == ranks[0].parameters else f"servers hold {held} parameters of {ranks[0].parameters}"


def _samples(trial: TrialSpec, ranks: Sequence[RankRecord]) -> Check:
    """Samples of each window = steps x batch; an item of text counts as its tokens, the same number everywhere."""
    name = InvalidReason.wrong_samples.value
    batch, program = trial.point.batch_per_worker, trial.workload.program
    if batch is None or program in (Program.custom, Program.allreduce):
        return Check(name=name, passed=None, detail="the program counts for itself")
    spared = trial.workload.parameter_server.backup_workers if _served(trial) else 0
    taking = max(1, trial.point.workers - spared)
    windows, seen = Counter[int](), Counter[int]()
    steps: dict[int, int] = {}
    for record in ranks:
        for window in record.windows:
            windows[window.index] += window.samples
            seen[window.index] += 1
            steps[window.index] = window.steps
    wanted = {index: count * batch * taking for index, count in steps.items() if seen[index] == len(ranks)}
    each = 1
    if ranks[0].sample_unit == "tokens" and wanted:
        first = min(wanted)
        each = max(1, windows[first] // max(1, wanted[first]))
    wrong = [index for index, count in wanted.items() if windows[index] != count * each]
    if wrong:
        index = wrong[0]
        detail = f"window {index} has {windows[index]} {ranks[0].sample_unit}"
        detail += f", and {steps[index]} steps x {batch} x {taking} workers are {wanted[index] * each}"
        return Check(name=name, passed=False, detail=detail)
    return Check(name=name, passed=True, detail="steps x batch in every window")


def _served(trial: TrialSpec) -> bool:
    workload = trial.workload
    return workload.program is Program.torch and strategy_of(workload) is Strategy.parameter_server


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


def _version(worker: str | None, engine: str) -> Check:
    """Of an older worker: what the engine's version added had its default, and it did nothing of it."""
    if worker is None:
        detail = f"the worker's version is not known; the engine has scalebench {engine}"
        return Check(name=SAME_VERSION, passed=None, detail=detail)
    if worker == engine:
        return Check(name=SAME_VERSION, passed=True, detail=f"scalebench {engine} everywhere")
    detail = (
        f"the worker's image has scalebench {worker}, the engine {engine}; what only one of them knows was not done"
    )
    return Check(name=SAME_VERSION, passed=False, detail=detail)


def _few(values: Sequence[object], most: int = 6) -> str:
    shown = ", ".join(str(value) for value in values[:most])
    return shown + (f" and {len(values) - most} more" if len(values) > most else "")
