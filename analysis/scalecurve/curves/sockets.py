"""Collectives that sockets carried although a faster network was there, or was looked for: the cause of slow nodes."""

from collections.abc import Iterator, Sequence

from scalecurve.bundle.open import Bundle
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.text import few, listed

_SOCKET = "Socket"
_REMEDY = "give pods or jobs the RDMA devices (/dev/infiniband)"
_REMEDY_EFA = "install EFA's plugin of NCCL (aws-ofi-nccl), and give pods or jobs the devices"


def socket_lines(bundles: Sequence[Bundle]) -> tuple[str, ...]:
    """A line for each cause, with the worker counts that it holds for, of runs and of imports."""
    counts: dict[str, set[int]] = {}
    for bundle in bundles:
        for trial in bundle.trials:
            for cause in dict.fromkeys(_causes(trial.record)) if trial.record else ():
                counts.setdefault(cause, set()).add(trial.spec.point.workers)
    return tuple(
        f"sockets carried the collectives at {listed(sorted(workers), 'worker')} ({cause}"
        for cause, workers in counts.items()
    )


def _causes(record: TrialRecord) -> Iterator[str]:
    """Why sockets: what NCCL did not find, or what the machine has and it did not use; then what to do."""
    for way in record.transports:
        if way is None or way.library != "nccl" or not _has_socket_transport(record, way.channels, way.network):
            continue
        found = [*(f"{name}: no device found" for name in way.lacking)]
        found += [f"the machine has {few(way.adapters)}"] if way.adapters else []
        if found:
            remedy = _REMEDY_EFA if any("EFA" in adapter for adapter in way.adapters) else _REMEDY
            yield f"{'; '.join(found)}): {remedy}"


def _has_socket_transport(record: TrialRecord, channels: dict[str, int], network: str | None) -> bool:
    """Whether sockets are in use: by NCCL's connections, or, where those are not known, by its network of nodes."""
    if channels:
        return f"NET/{_SOCKET}" in channels
    return network == _SOCKET and record.trial.point.nodes > 1
