"""The processes of a trial with parameter servers: N workers, then a chief, then the servers, all in one hub."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

from scalecurve_api.contract import ROLE_ENV
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_worker.process.failure import WorkloadError
from scalecurve_worker.process.identity import RankIdentity
from scalecurve_worker.rendezvous.communicator import Communicator
from scalecurve_worker.tensorflow.cluster import OwnAddress, meet
from scalecurve_worker.tensorflow.framework import tf

WORKER, CHIEF, SERVER = "worker", "chief", "ps"


@dataclass(frozen=True)
class Task:
    """What this process is to TensorFlow: a kind of task, and its index among those."""

    kind: str
    index: int


def task_of(identity: RankIdentity, role: str) -> Task:
    """This process's task, by its role, or by its rank where it is a worker."""
    kind, _, index = role.partition("-")
    if not role:
        return Task(WORKER, identity.rank)
    if role == "chief":
        return Task(CHIEF, 0)
    if kind == "server" and index.isdigit():
        return Task(SERVER, int(index))
    raise WorkloadError(f"{ROLE_ENV}={role!r}: expected chief or server-0 and so on")


class ClusterMembership:
    """This process among all of its trial."""

    def __init__(self, trial: TrialSpec, identity: RankIdentity) -> None:
        """Join, and tell all where TensorFlow will be reached."""
        self.task = task_of(identity, os.environ.get(ROLE_ENV, "").strip())
        self.workers = trial.point.workers
        servers = len(trial.workload.roles) - 1
        numbers = {WORKER: self.task.index, CHIEF: self.workers, SERVER: self.workers + 1 + self.task.index}
        world = self.workers + 1 + servers
        everyone = RankIdentity(numbers[self.task.kind], world, identity.local_rank)
        self.communicator: Communicator = meet(trial, everyone)
        self._address = OwnAddress()
        addresses = self.communicator.all_gather(self._address.text)
        self.addresses = {
            WORKER: addresses[: self.workers],
            CHIEF: addresses[self.workers : self.workers + 1],
            SERVER: addresses[self.workers + 1 :],
        }

    def serve(self, threads: int, on_gpu: bool) -> Any:
        """TensorFlow's server of this process, for its chief to use; it ends with the process."""
        config = tf.compat.v1.ConfigProto(
            intra_op_parallelism_threads=threads,
            inter_op_parallelism_threads=threads + 1,
            device_count={} if on_gpu else {"GPU": 0},
        )
        server = tf.distribute.Server(
            tf.train.ClusterSpec(self.addresses),
            job_name=self.task.kind,
            task_index=self.task.index,
            protocol="grpc",
            config=config,
        )
        self._address.close()
        return server

    def resolver(self) -> Any:
        os.environ["TF_CONFIG"] = json.dumps(
            {"cluster": self.addresses, "task": {"type": self.task.kind, "index": self.task.index}}
        )
        self._address.close()
        return tf.distribute.cluster_resolver.TFConfigClusterResolver()

    def everybody(self, value: Any = None) -> list[Any]:
        """What every process says in this round, by number: workers, chief, servers."""
        return self.communicator.all_gather(value)

    def from_chief(self, values: list[Any]) -> Any:
        return values[self.workers]
