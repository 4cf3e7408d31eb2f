"""Workers and parameter servers: they lend TensorFlow a server, and read their own CPU time when the chief says so.

A ``tf.distribute.Server`` runs on threads of its own and never ends; this process ends when the chief has its record.
"""

from __future__ import annotations

from scalecurve_worker.monitor.cpu_load import CpuMeter
from scalecurve_worker.process.identity import RankIdentity
from scalecurve_worker.tensorflow.cluster_membership import WORKER, ClusterMembership
from scalecurve_worker.tensorflow.devices import Devices, seats_of

BEGIN, END, STOP = "begin", "end", "stop"
"""What the chief says: a window opens, a window has closed, all is over."""


def follow(cluster: ClusterMembership, identity: RankIdentity, devices: Devices) -> None:
    """Serve until the chief says that all is over."""
    server = cluster.serve(devices.threads, devices.on_gpu)
    seat = seats_of(identity, devices)[0]
    cluster.everybody([seat.model_dump(mode="json", by_alias=True)] if cluster.task.kind == WORKER else None)
    meter = CpuMeter(seat.cores)
    while True:
        used = meter.used()
        word = cluster.from_chief(cluster.everybody([seat.host, seat.cores, *(used or [None] * 4)]))
        if word == BEGIN:
            meter.begin()
        elif word == END:
            meter.end()
        else:
            break
    del server
