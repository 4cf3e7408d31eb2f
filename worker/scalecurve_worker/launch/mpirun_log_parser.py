"""Parses mpirun's stderr for lost ranks and nodes. Pure.

Open MPI 4 and 5 say the same things, the one as mpirun and ORTE, the other as prterun and PRTE. Open MPI 5 exits with
code 0 after it has lost a node: without its words such a run would pass for one that ended well.
"""

import re
import signal
from collections.abc import Iterable, Iterator

from scalecurve_api.record.rank import RankFailure
from scalecurve_api.spec.trial import FailedReason

_KILLED = re.compile(r"process rank (\d+) with PID \d+ on node (\S+) exited on signal (\d+)")
_LOST = re.compile(r"lost communication with a remote daemon.{0,400}?Remote daemon ?: \S+ on node (\S+)")
_NOT_BEGUN = re.compile(r"daemon failed to report back after being spawned.{0,600}?Remote host: (\S+)")
_WORKER = re.compile(r"-worker-(\d+)$")


def lost_ranks(lines: Iterable[str], workers: int) -> list[RankFailure]:
    """What was lost, the first first; ``workers`` is how many a pod has, and a lost pod's first rank speaks for it."""
    return list(_lost_ranks(" ".join(" ".join(lines).split()), workers))


def _lost_ranks(text: str, workers: int) -> Iterator[RankFailure]:
    for rank, host, number in _KILLED.findall(text):
        message = f"killed by {_name(int(number))} in pod {host}"
        yield RankFailure(rank=int(rank), reason=FailedReason.rank_killed.value, message=message)
    for host in _LOST.findall(text):
        message = f"mpirun lost pod {host}: it was deleted or killed, or its node does not answer"
        yield RankFailure(rank=_first_rank(host, workers), reason=FailedReason.rank_failed.value, message=message)
    for host in _NOT_BEGUN.findall(text):
        message = f"mpirun could not start ranks in pod {host}: it exited, or cannot connect back"
        yield RankFailure(rank=_first_rank(host, workers), reason=FailedReason.rank_failed.value, message=message)


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _first_rank(host: str, workers: int) -> int:
    match = _WORKER.search(host.partition(".")[0])
    return int(match[1]) * workers if match else 0
