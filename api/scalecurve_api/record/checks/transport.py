"""Check of what carried the collectives of a run."""

from collections.abc import Iterator, Sequence

from scalecurve_api.record.rank import RankRecord
from scalecurve_api.record.transport import Transport
from scalecurve_api.record.trial_record import Check
from scalecurve_api.spec.trial import InvalidReason, TrialSpec
from scalecurve_api.text import few

FASTEST_FIRST = ("P2P", "SHM", "NET/IB", "NET/Socket")
_TRANSPORT = InvalidReason.wrong_transport.value


def transport(trial: TrialSpec, ranks: Sequence[RankRecord]) -> Check | None:
    """None where neither a transport was seen nor one is expected."""
    seen = {record.topology.rank: record.transport for record in ranks if record.transport is not None}
    expected = trial.expect.transport
    if not seen:
        if not expected or trial.point.workers == 1:
            return None
        return Check(name=_TRANSPORT, passed=None, detail=f"expected {few(expected)}; no rank reported what it used")
    used = sorted({kind for each in seen.values() for kind in each.channels})
    if expected:
        others = [kind for kind in used if kind not in expected]
        if others:
            return Check(name=_TRANSPORT, passed=False, detail=f"used {few(others)}, expected {few(expected)}")
        return Check(name=_TRANSPORT, passed=True, detail=f"used {few(used)}")
    slower = sorted({line for rank, each in seen.items() for line in _slower(rank, each)})
    if slower:
        return Check(name=_TRANSPORT, passed=False, detail=f"a faster transport was not used: {few(slower, 3)}")
    return Check(name=_TRANSPORT, passed=True, detail=f"used {few(used)}")


def _slower(rank: int, way: Transport) -> Iterator[str]:
    for peer, used in way.peers.items():
        fastest = way.visible.get(peer)
        if fastest not in FASTEST_FIRST:
            continue
        better = FASTEST_FIRST[: FASTEST_FIRST.index(fastest) + 1]
        slow = [kind for kind in used.split(", ") if kind in FASTEST_FIRST and kind not in better]
        if slow:
            pair = f"{min(rank, int(peer))}-{max(rank, int(peer))}"
            yield f"ranks {pair} used {few(slow)} and have {fastest}"
