"""``MPIJob`` of mpi-operator: a launcher that runs mpirun, and workers that run sshd.

- The launcher's pod comes of a batch/v1 Job, whose backoffLimit would be 6, and whose deadline counts from its start:
  not while workers are waited for. When the deadline ends it its pod is deleted, and what it left is lost.
- Rank 0 runs in worker 0, but its output and its end arrive at the launcher, so the record is there.
- A job that fails the operator's own validation gets an Event and no status ever: it reads as starting for ever.
- A worker that is deleted is created anew under its old name; mpirun fails meanwhile, and so does the job.
- Under a queue the launcher is let go together with its workers, WaitForWorkersReady or not: a suspended job has no
  workers, so all of them count as ready (``mpi_job_controller.go``, v0.8.2). Its entry has to wait for sshd itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scalecurve_api import contract
from scalecurve_api.spec import object_names as objects
from scalecurve_operator.runners import kubeflow
from scalecurve_operator.runners.job_state import Reading
from scalecurve_operator.runners.pod_template import COORDINATOR_PORT, LAUNCHER, template, worker_template
from scalecurve_operator.runners.request import Request
from scalecurve_operator.runners.runner_kind import Manifest

HOSTFILE = "/etc/mpi/hostfile"
SSH_PORT = 2222
"""Above 1024: sshd runs as an ordinary user, without any capability."""
SSH_FOLDER = "/home/mpiuser/.ssh"
SSHD_ENTRY = ("python", "-m", "scalecurve_worker.launch.sshd")
_REPLICAS = "mpiReplicaSpecs"
# Enough for mpirun's connections to 512 pods and one record; it waits while the workers compute.
_LAUNCHER_RESOURCES = {
    "requests": {"cpu": "100m", "memory": "256Mi"},
    "limits": {"cpu": "1", "memory": "2Gi"},
}


class MPIJob:
    """Worker pods of slotsPerWorker ranks, beside a launcher that carries none."""

    kind = "MPIJob"
    group = kubeflow.GROUP
    version = "v2beta1"
    plural = "mpijobs"

    def render(self, request: Request) -> Manifest:
        """The job. No pod of it runs as root, even to lock memory: ranks that sshd starts would not gain by it."""
        meet = {contract.COORDINATOR_ENV: f"{request.job}-worker-0.{request.job}:{COORDINATOR_PORT}"}
        launcher = template(
            request,
            "launcher",
            LAUNCHER,
            # Open MPI 5 reads no host file that the operator's variables name: all ranks would run in the launcher,
            # and the job would succeed (kubeflow/mpi-operator#842).
            env={**meet, contract.HOSTFILE_ENV: HOSTFILE},
            resources=_LAUNCHER_RESOURCES,
            root=False,
        )
        worker = worker_template(
            request,
            "worker",
            env=meet,
            command=SSHD_ENTRY,
            root=False,
            ports=[{"name": "ssh", "containerPort": SSH_PORT}],
            readinessProbe={"tcpSocket": {"port": SSH_PORT}, "periodSeconds": 1},
        )
        spec = {
            "slotsPerWorker": request.workers_per_pod,
            "launcherCreationPolicy": "WaitForWorkersReady",
            "sshAuthMountPath": SSH_FOLDER,
            _REPLICAS: {
                "Launcher": kubeflow.replicas(1, launcher),
                "Worker": kubeflow.replicas(request.pods, worker),
            },
        }
        return kubeflow.job(self.kind, self.version, request, spec, backoffLimit=0)

    def companions(self, request: Request, job: Mapping[str, Any]) -> list[Manifest]:
        """None: the operator makes the Service, the host file and the keys."""
        return []

    def read(self, job: Mapping[str, Any]) -> Reading:
        """By conditions and counts."""
        return kubeflow.read(job, _REPLICAS)

    def pods(self, request: Request) -> int:
        """Those that carry workers, and the launcher."""
        return request.pods + 1

    def recording_pod(self, pods: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
        """The launcher."""
        return next(
            (pod for pod in pods if (pod["metadata"].get("labels") or {}).get(objects.ROLE_LABEL) == LAUNCHER), None
        )
