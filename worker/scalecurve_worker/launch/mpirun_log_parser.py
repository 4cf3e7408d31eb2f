"""Parses mpirun's stderr for lost ranks and nodes. Pure.

Open MPI 4 and 5 say the same things, the one as mpirun and ORTE, the other as prterun and PRTE. Open MPI 5 exits with
code 0 after it has lost a node: without its words such a run would pass for one that ended well.
"""

import re
import signal
from collections.abc import Iterable, Sequence

from scalecurve_api.record.rank import RankFailure
from scalecurve_api.spec.trial import FailedReason

_KILLED = re.compile(r"process rank (\d+) with PID \d+ on node (\S+) exited on signal (\d+)")
_LOST = re.compile(r"lost communication with a remote daemon.{0,400}?Remote daemon ?: \S+ on node (\S+)")
_NOT_BEGUN = re.compile(r"daemon failed to report back after being spawned.{0,600}?Remote host: (\S+)")
_DISCONNECTED = re.compile(r"peer process has unexpectedly disconnected.{0,900}?Peer host: (\S+)")
_LOST_MESSAGE = "mpirun lost pod {}: it was deleted or killed, or its node does not answer"
_NOT_BEGUN_MESSAGE = "mpirun could not start ranks in pod {}: it exited, or cannot connect back"
_DISCONNECTED_MESSAGE = "a rank in pod {} disconnected without finalizing MPI: it crashed or was killed"
_WORKER = re.compile(r"-worker-(\d+)$")


def lost_ranks(lines: Iterable[str], workers: int) -> list[RankFailure]:
    """Return the ranks that were lost, killed ones first; ``workers`` is how many a pod has.

    A lost pod's first rank stands for the pod.
    """
    text = " ".join(" ".join(lines).split())
    lost = []
    for rank, host, number in _KILLED.findall(text):
        name = signal.Signals(int(number)).name if int(number) in set(signal.Signals) else f"signal {number}"
        message = f"killed by {name} in pod {host}"
        lost.append(RankFailure(rank=int(rank), reason=FailedReason.rank_killed.value, message=message))
    rest = ((_LOST, _LOST_MESSAGE), (_NOT_BEGUN, _NOT_BEGUN_MESSAGE), (_DISCONNECTED, _DISCONNECTED_MESSAGE))
    for pattern, message in rest:
        lost += [
            RankFailure(
                rank=_first_rank(host, workers), reason=FailedReason.rank_failed.value, message=message.format(host)
            )
            for host in pattern.findall(text)
        ]
    return lost


def nearest_cause_first(reported: Sequence[RankFailure], lost: Sequence[RankFailure]) -> list[RankFailure]:
    """Order what ranks reported themselves and what mpirun lost, the cause before its consequences.

    A killed rank can report nothing, and its peers only see its connection break. What a rank could still say itself
    came before mpirun noticed.
    """
    spoke = {failure.rank for failure in reported}
    killed = [each for each in lost if each.reason == FailedReason.rank_killed and each.rank not in spoke]
    return [*killed, *reported, *(each for each in lost if each not in killed)]


def _first_rank(host: str, workers: int) -> int:
    match = _WORKER.search(host.partition(".")[0])
    return int(match[1]) * workers if match else 0
