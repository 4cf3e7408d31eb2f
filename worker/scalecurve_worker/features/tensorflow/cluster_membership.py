"""The rendezvous of a trial's processes, and their TensorFlow cluster: workers, chief and parameter servers.

TF_CONFIG is written here, alike on one machine and in the pods of any job: TFJob's own names one worker a pod, and a
pod may carry several. A ``tf.distribute.Server`` runs on threads of its own and never ends; its process ends when the
chief has its record.
"""

import json
import os
import socket
from typing import Any

from scalecurve_api.contract import ATTEMPT_ENV, PODS_ENV, ROLE_ENV
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_worker.features.tensorflow.devices import Devices, topologies_of
from scalecurve_worker.features.tensorflow.framework import tf
from scalecurve_worker.monitor.cpu_load import CpuMeter
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
            f"rank {identity.rank} of {identity.world}: program tensorflow needs MASTER_ADDR and MASTER_PORT "
            f"to connect its ranks; got {host!r} and {port!r}"
        )
    name = f"{trial.name}/{os.environ.get(ATTEMPT_ENV, '1')}"
    return TcpCommunicator(identity.rank, identity.world, host, int(port), name)


WORKER, CHIEF, SERVER = "worker", "chief", "ps"
# What the chief says: a window opens, a window has closed, all is over.
BEGIN, END, STOP = "begin", "end", "stop"


class OwnAddress:
    """A port of this process that stays its own until TensorFlow's server listens there.

    Bound and never listening, with SO_REUSEADDR: the kernel gives the port to nobody who asks for any port, and lets
    gRPC's server, which sets SO_REUSEADDR, have it.
    """

    def __init__(self) -> None:
        in_pod = os.environ.get(PODS_ENV)
        host = socket.gethostbyname(socket.gethostname()) if in_pod else "127.0.0.1"
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("" if in_pod else host, 0))
        self.text = f"{host}:{self._socket.getsockname()[1]}"

    def close(self) -> None:
        self._socket.close()


def tf_config(addresses: dict[str, list[str]], task: str, index: int) -> str:
    """Return TF_CONFIG of one task as JSON; ``addresses`` are those of all tasks, by kind."""
    return json.dumps({"cluster": addresses, "task": {"type": task, "index": index}})


def _task(identity: RankIdentity, role: str) -> tuple[str, int]:
    """What this process is to TensorFlow, by its role, or by its rank where it is a worker; and its index."""
    kind, _, index = role.partition("-")
    if not role:
        return WORKER, identity.rank
    if role == "chief":
        return CHIEF, 0
    if kind == "server" and index.isdigit():
        return SERVER, int(index)
    raise WorkloadError(f"{ROLE_ENV}={role!r}: expected chief or server-0 and so on")


class ClusterMembership:
    """This process among all of its trial."""

    def __init__(self, trial: TrialSpec, identity: RankIdentity) -> None:
        """Join, and tell all where TensorFlow will be reached."""
        self.kind, self._index = _task(identity, os.environ.get(ROLE_ENV, "").strip())
        self.workers = trial.point.workers
        first = {WORKER: 0, CHIEF: self.workers, SERVER: self.workers + 1}[self.kind]
        world = self.workers + len(trial.workload.roles)
        self.communicator: Communicator = meet(trial, RankIdentity(first + self._index, world, identity.local_rank))
        self._address = OwnAddress()
        addresses = self.communicator.all_gather(self._address.text)
        self.addresses = {
            WORKER: addresses[: self.workers],
            CHIEF: addresses[self.workers : self.workers + 1],
            SERVER: addresses[self.workers + 1 :],
        }

    def serve(self, threads: int, on_gpu: bool) -> Any:
        """Start TensorFlow's server in this process, for its chief to use; it ends with the process."""
        gpus = {} if on_gpu else {"GPU": 0}
        config = tf.compat.v1.ConfigProto(
            intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads + 1, device_count=gpus
        )
        cluster = tf.train.ClusterSpec(self.addresses)
        server = tf.distribute.Server(
            cluster, job_name=self.kind, task_index=self._index, protocol="grpc", config=config
        )
        self._address.close()
        return server

    def resolver(self) -> Any:
        os.environ["TF_CONFIG"] = tf_config(self.addresses, self.kind, self._index)
        self._address.close()
        return tf.distribute.cluster_resolver.TFConfigClusterResolver()

    def everybody(self, value: Any = None) -> list[Any]:
        """Gather what every process says in this round, by number: workers, chief, servers."""
        return self.communicator.all_gather(value)


def follow(cluster: ClusterMembership, identity: RankIdentity, devices: Devices) -> None:
    """Serve until the chief says that all is over."""
    server = cluster.serve(devices.threads, devices.on_gpu)
    place = topologies_of(identity, devices)[0]
    cluster.everybody([place.model_dump(mode="json", by_alias=True)] if cluster.kind == WORKER else None)
    meter = CpuMeter(place.cores)
    while True:
        used = meter.used()
        word = cluster.everybody([place.host, place.cores, *(used or [None] * 4)])[cluster.workers]
        if word == BEGIN:
            meter.begin()
        elif word == END:
            meter.end()
        else:
            break
    del server
