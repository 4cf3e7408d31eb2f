"""Where the processes of a trial meet, and TensorFlow's cluster made of them.

TF_CONFIG is written here, alike on one machine and in the pods of any job: TFJob's own names one worker a pod, and a
pod may carry several.
"""

from __future__ import annotations

import json
import os
import socket

from scalecurve_api.contract import ATTEMPT_ENV, PODS_ENV
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_worker.process.failure import WorkloadError
from scalecurve_worker.process.identity import RankIdentity
from scalecurve_worker.rendezvous.communicator import Communicator, SingleProcess
from scalecurve_worker.rendezvous.tcp import TcpCommunicator


def meet(trial: TrialSpec, identity: RankIdentity) -> Communicator:
    """Join the other processes of the trial."""
    if identity.world == 1:
        return SingleProcess()
    host, port = os.environ.get("MASTER_ADDR", "").strip(), os.environ.get("MASTER_PORT", "").strip()
    if not host or not port.isdigit():
        raise WorkloadError(
            f"rank {identity.rank} of {identity.world}: MASTER_ADDR and MASTER_PORT say where the ranks of program "
            f"tensorflow meet; given {host!r} and {port!r}"
        )
    return TcpCommunicator(
        identity.rank, identity.world, host, int(port), f"{trial.name}/{os.environ.get(ATTEMPT_ENV, '1')}"
    )


class OwnAddress:
    """A port of this process that stays its own until TensorFlow's server listens there.

    Bound and never listening, with SO_REUSEADDR: the kernel gives the port to nobody who asks for any port, and lets
    gRPC's server, which sets SO_REUSEADDR, have it.
    """

    def __init__(self) -> None:
        in_pod = os.environ.get(PODS_ENV)
        host = socket.gethostbyname(socket.gethostname()) if in_pod else "127.0.0.1"
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("" if in_pod else host, 0))
        self.text = f"{host}:{self._socket.getsockname()[1]}"

    def close(self) -> None:
        self._socket.close()


def tf_config(addresses: dict[str, list[str]], task: str, index: int) -> str:
    """TF_CONFIG of one task: ``addresses`` of all, by kind of task."""
    return json.dumps({"cluster": addresses, "task": {"type": task, "index": index}})
