"""``MPIJob`` of mpi-operator: a launcher that runs mpirun, and workers that run sshd.

- The launcher's pod belongs to a batch/v1 Job, whose backoffLimit defaults to 6 and whose deadline starts with the
  launcher, not while it waits for workers. When the deadline ends the Job, its pod and its log are deleted.
- Rank 0 runs in worker 0, but its output and exit status arrive at the launcher, so the record is there.
- A job that fails the operator's own validation gets an Event and never a status: it reads as starting forever.
- A deleted worker is replaced under its old name; mpirun fails meanwhile, and so does the job.
- In a queue the launcher is released together with its workers, WaitForWorkersReady or not: a suspended job has no
  workers, so all of them count as ready (``mpi_job_controller.go``, v0.8.2). Its entry has to wait for sshd itself.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from scalecurve_api import contract
from scalecurve_api.spec.job_kinds import Runner
from scalecurve_operator.runners.job_request import JobRequest
from scalecurve_operator.runners.kubeflow import KubeflowRunner, replicas
from scalecurve_operator.runners.pod_status import role_of
from scalecurve_operator.runners.pod_template import COORDINATOR_PORT, LAUNCHER, template, worker_template
from scalecurve_operator.runners.runner_kind import Manifest

HOSTFILE = "/etc/mpi/hostfile"
SSH_PORT = 2222  # Above 1024: sshd runs as an ordinary user, without any capability
SSH_FOLDER = "/home/mpiuser/.ssh"
SSHD_ENTRY = ("python", "-m", "scalecurve_worker.launch.sshd")
# Enough for mpirun's connections to 512 pods and one record; it waits while the workers compute.
_LAUNCHER_RESOURCES = {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"cpu": "1", "memory": "2Gi"}}


class MPIJob(KubeflowRunner):
    """Worker pods of slotsPerWorker ranks, and a launcher that carries none."""

    runner = Runner.mpi_job
    replica_specs = "mpiReplicaSpecs"

    def render(self, request: JobRequest) -> Manifest:
        """No pod runs as root, even to lock memory: ranks that sshd starts would not benefit."""
        meet = {contract.COORDINATOR_ENV: f"{request.job}-worker-0.{request.job}:{COORDINATOR_PORT}"}
        # Open MPI 5 ignores the host file that the operator's variables name: all ranks would run in the launcher, and
        # the job would succeed (kubeflow/mpi-operator#842).
        launcher = launcher_template(request, {**meet, contract.HOSTFILE_ENV: HOSTFILE})
        worker = sshd_template(request, meet)
        return self.job(
            request,
            {"Launcher": replicas(1, launcher), "Worker": replicas(request.pods, worker)},
            {"backoffLimit": 0},
            slotsPerWorker=request.workers_per_pod,
            launcherCreationPolicy="WaitForWorkersReady",
            sshAuthMountPath=SSH_FOLDER,
        )

    def pods(self, request: JobRequest) -> int:
        return request.pods + self.runner.job_kind.launcher_pods

    def recording_pod(self, pods: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
        return next((pod for pod in pods if role_of(pod) == LAUNCHER), None)


def launcher_template(request: JobRequest, env: Mapping[str, str]) -> Manifest:
    """The pod that runs mpirun."""
    return template(request, "launcher", LAUNCHER, env=env, resources=_LAUNCHER_RESOURCES, root=False)


def sshd_template(request: JobRequest, env: Mapping[str, str]) -> Manifest:
    """A pod in which mpirun starts ranks."""
    return worker_template(
        request,
        "worker",
        env=env,
        command=SSHD_ENTRY,
        root=False,
        ports=[{"name": "ssh", "containerPort": SSH_PORT}],
        readinessProbe={"tcpSocket": {"port": SSH_PORT}, "periodSeconds": 1},
    )
