"""What an interval holds for: how many sessions on how many machines."""

from collections.abc import Iterable, Sequence

from scalecurve.bundle.measurement import MeasuredSeries
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.text import count


def scope(series: MeasuredSeries) -> str:
    """``within one session on one machine``, or ``over 3 sessions on 3 machines``."""
    records = [record for point in series.points for record in point.timed]
    if records and all(record.imported for record in records):
        return "as its source states"
    sessions = len({record.trial.session for record in records})
    machines = count_machines(records)
    where = "one machine" if machines == 1 else f"{machines} machines"
    return f"within one session on {where}" if sessions <= 1 else f"over {count(sessions, 'session')} on {where}"


def count_machines(records: Iterable[TrialRecord]) -> int:
    """Hosts by name; machines of different sessions may share a name and are then told apart by their devices."""
    by_session: dict[tuple[int, str], set[str]] = {}
    for record in records:
        for rank in record.topology:
            devices = by_session.setdefault((record.trial.session, rank.node or rank.host), set())
            devices.update([rank.device] if rank.device and rank.device.startswith("GPU-") else [])
    machines: list[tuple[str, set[str]]] = []
    for (_, host), devices in by_session.items():
        same = next((known for name, known in machines if name == host and _may_be_one(known, devices)), None)
        if same is None:
            machines.append((host, devices))
        else:
            same |= devices
    return max(1, len(machines))


def _may_be_one(first: set[str], second: set[str]) -> bool:
    return not first or not second or bool(first & second)


def spelled_sessions(sessions: Sequence[int]) -> str:
    """``session 2``; empty where there is only the first."""
    return "" if set(sessions) == {0} else " in session " + ", ".join(str(session + 1) for session in sessions)
