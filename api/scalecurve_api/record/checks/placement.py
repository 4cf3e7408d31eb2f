"""Checks of where the ranks of a run were, and of what disturbed them."""

from collections import Counter
from collections.abc import Mapping, Sequence

from scalecurve_api.record.outcome import Outcome
from scalecurve_api.record.rank import RankRecord
from scalecurve_api.record.trial_record import Check
from scalecurve_api.spec.trial import InvalidReason, TrialSpec
from scalecurve_api.text import few, plural


def oversubscribed(ranks: Sequence[RankRecord], outcome: Outcome) -> Check:
    """No two ranks on one core or one GPU."""
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
    names = _names(outcome.requested_devices)
    shared = sorted(f"{names.get(part, part)} on {host}" for (host, part), count in used.items() if count > 1)
    if shared:
        return Check(name=name, passed=False, detail=f"more than one rank on {few(shared)}")
    return Check(name=name, passed=True, detail="no rank shares a device")


def placement(trial: TrialSpec, ranks: Sequence[RankRecord], outcome: Outcome) -> Check:
    """The requested layout, on the nodes that the cluster reports and the assigned devices."""
    name = InvalidReason.wrong_placement.value
    point = trial.point
    if elsewhere := _elsewhere(ranks, outcome.placement):
        return Check(name=name, passed=False, detail=elsewhere)
    places = _places(ranks, outcome.placement)
    counts = sorted(places.values())
    if len(places) != point.nodes or counts != [point.workers_per_node] * point.nodes:
        detail = f"ranks per place: {dict(sorted(places.items()))}; expected layout {point.layout}"
        return Check(name=name, passed=False, detail=detail)
    if outcome.requested_devices:
        used = [record.topology.device for record in ranks]
        if used != outcome.requested_devices:
            return Check(name=name, passed=False, detail=_describe_devices(trial, ranks, outcome.requested_devices))
    return Check(name=name, passed=True, detail=f"layout {point.layout}")


def _describe_devices(trial: TrialSpec, ranks: Sequence[RankRecord], assigned: Sequence[str]) -> str:
    """Which ranks ran on which devices, and what a script that does not choose its own lacks."""
    names = _names(assigned)
    by_device: dict[str, list[int]] = {}
    for record in ranks:
        by_device.setdefault(record.topology.device, []).append(record.topology.rank)
    ran = (
        f"{plural(len(on), 'rank')} {few(on)} ran on {names.get(device, device)}" for device, on in by_device.items()
    )
    text = f"{few(ran)} of {ranks[0].topology.host}; assigned: {few(names.get(device, device) for device in assigned)}"
    if drives_all := one_process_for_all(ranks):
        return f"{text}; {drives_all}"
    if len(by_device) == 1 < len(ranks) and next(iter(by_device)) in names and not trial.workload.built_in:
        text += "; the script ignores LOCAL_RANK: torch.cuda.set_device(int(os.environ['LOCAL_RANK']))"
    return text


def one_process_for_all(ranks: Sequence[RankRecord]) -> str | None:
    """How a script is measured that drives all GPUs from one process, where ranks are such scripts."""
    if len(ranks) == 1 or any(record.strategy != "DataParallel" for record in ranks):
        return None
    return (
        "the script uses nn.DataParallel, one process for all GPUs that it sees, and was started once for each: "
        "scalecurve run --processes 1, or workload.singleProcess: true, starts it once and measures it; "
        "DistributedDataParallel is faster, and measured as it is"
    )


def _names(assigned: Sequence[str]) -> dict[str, str]:
    """GPUs by the number that the program knows them by; other devices keep their names."""
    return {device: f"GPU {number}" for number, device in enumerate(dict.fromkeys(assigned)) if device[:3] != "cpu"}


def _elsewhere(ranks: Sequence[RankRecord], placement: Mapping[str, str]) -> str | None:
    """What a rank reports of its pod and node that the cluster contradicts; ``placement`` is pod -> node."""
    if not placement:
        return None
    for record in ranks:
        rank, pod, node = record.topology.rank, record.topology.pod, record.topology.node
        if pod is None:
            continue
        if pod not in placement:
            return f"rank {rank} ran in pod {pod}, which carries no worker of this job"
        if node is not None and node != placement[pod]:
            return f"rank {rank} reports node {node}, but the cluster has its pod {pod} on {placement[pod]}"
    return None


def _places(ranks: Sequence[RankRecord], placement: Mapping[str, str]) -> Counter[str]:
    """Ranks by node where every rank's node is known, since a node may hold several pods; otherwise by host."""
    nodes = [placement.get(record.topology.pod or "") or record.topology.node for record in ranks]
    if all(nodes):
        return Counter(node for node in nodes if node)
    return Counter(record.topology.pod or record.topology.host for record in ranks)


def throttled(ranks: Sequence[RankRecord]) -> Check:
    """No clocks throttled by heat or by hardware."""
    name = InvalidReason.throttled.value
    if all(record.device_samples is None for record in ranks):
        return Check(name=name, passed=None, detail="no device clocks to read")
    hot = {
        record.topology.rank: record.device_samples.throttle_reasons
        for record in ranks
        if record.device_samples is not None and record.device_samples.throttle_reasons
    }
    if hot:
        text = "; ".join(f"rank {rank}: {', '.join(reasons)}" for rank, reasons in sorted(hot.items()))
        return Check(name=name, passed=False, detail=f"clocks were throttled: {text}")
    if unread := [record.topology.rank for record in ranks if record.device_samples is None]:
        return Check(name=name, passed=None, detail=f"no device clocks to read on rank {few(unread)}")
    return Check(name=name, passed=True, detail="no thermal or hardware slowdown seen")


def neighbors(trial: TrialSpec, ranks: Sequence[RankRecord]) -> Check:
    """No other process on the device, and few beside a rank on its cores."""
    name = InvalidReason.noisy_neighbor.value
    others = [r.topology.rank for r in ranks if r.device_samples is not None and r.device_samples.other_processes]
    if others:
        return Check(name=name, passed=False, detail=f"other processes on the device of rank {few(others)}")
    return _check_limit(trial, ranks, name, "foreign_load", "stolen_load")


def stolen(trial: TrialSpec, ranks: Sequence[RankRecord]) -> Check:
    """The hypervisor did not take the machine's cores."""
    return _check_limit(trial, ranks, InvalidReason.cpu_steal.value, "stolen_load", "foreign_load")


_TAKERS = {"foreign_load": "other processes", "stolen_load": "the hypervisor"}


def _check_limit(trial: TrialSpec, ranks: Sequence[RankRecord], name: str, share: str, other: str) -> Check:
    """A share of the cores is within the limit; so is its sum with a smaller ``other``, for both slow a rank down."""
    taken = []
    for record in ranks:
        if (load := getattr(record, share)) is not None:
            less = getattr(record, other) or 0.0
            taken.append((load + less if load >= less else load, record.topology.rank, load, less))
    if not taken:
        return Check(name=name, passed=None, detail=f"what {_TAKERS[share]} took of these cores could not be read")
    most, rank, load, less = max(taken)
    limit = trial.measure.max_foreign_load
    besides = f", and {_TAKERS[other]} {less:.0%}" if most > limit >= load else ""
    detail = f"{_TAKERS[share]} took {load:.0%} of the cores of rank {rank}{besides}, allowed {limit:.0%}"
    on_cpu = ranks[0].topology.device.startswith("cpu")
    return Check(name=name, passed=not on_cpu or most <= limit or limit >= 1, detail=detail)
