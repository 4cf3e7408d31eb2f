"""The pod that carries workers, the same under every job kind."""

from collections.abc import Mapping, Sequence
from decimal import ROUND_FLOOR
from typing import Any

from scalecurve_api import contract
from scalecurve_api.model import canonical_json
from scalecurve_api.spec import object_names as objects
from scalecurve_api.spec.quantity import times, value
from scalecurve_operator.runners.affinity import worker_affinity
from scalecurve_operator.runners.job_request import JobRequest, JobRequestError

POD_ENTRY = ("python", "-m", "scalecurve_worker.launch.pod")
WORKER = "worker"
LAUNCHER = "launcher"
CHIEF = "chief"
SERVER = "ps"
"""Values of the role label."""

OUT = "/scalecurve/out"
COORDINATOR_PORT = 29500
USER = 1000
"""Every image's user, whatever it says itself: ``runAsNonRoot`` alone would refuse images that say root."""
GRACE_SECONDS = 10
_MAX_VARIABLE = 120_000
"""Linux starts no program with a variable of 128 KiB or more (MAX_ARG_STRLEN)."""
_HOST_RESOURCES = ("cpu", "memory", "ephemeral-storage")


def worker_template(request: JobRequest, container: str, **fields: Any) -> dict[str, Any]:
    """A pod with its share of the workers; ``fields`` as for ``template``."""
    resources = worker_resources(request, request.workers_per_pod)
    if request.metrics_port and not request.trial.workload.roles:
        fields["ports"] = [*fields.get("ports", ()), *metrics_ports(request, request.workers_per_pod)]
    pod = template(request, container, WORKER, resources=resources, **fields)
    pod["spec"].update(worker_affinity(request))
    return pod


def template(
    request: JobRequest,
    container: str,
    role: str,
    *,
    resources: Mapping[str, Any],
    env: Mapping[str, str] | None = None,
    command: Sequence[str] = POD_ENTRY,
    root: bool | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """Pod template of one container; ``fields`` are added to the container as they are.

    By default it runs as root only to lock memory: an added capability reaches no other user's processes.
    """
    pod = request.spec.pod
    root = pod.lock_memory if root is None else root
    volumes, mounts = _volumes(request)
    spec: dict[str, Any] = {
        "automountServiceAccountToken": False,
        # Variables for every Service of the namespace would reach the ranks, however many there are.
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "securityContext": _pod_security(root),
        "containers": [
            {
                "name": container,
                "image": request.image,
                "command": list(command),
                "env": environment(request, env or {}),
                "resources": dict(resources),
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"], **({"add": ["IPC_LOCK"]} if pod.lock_memory else {})},
                },
                "terminationMessagePolicy": "File",
                "volumeMounts": mounts,
                **fields,
            }
        ],
        "volumes": volumes,
    }
    if pod.image_pull_policy:
        spec["containers"][0]["imagePullPolicy"] = pod.image_pull_policy
    spec.update(_scheduling(request))
    return {
        "metadata": {
            "labels": {**pod.labels, **request.labels, objects.ROLE_LABEL: role},
            **({"annotations": dict(pod.annotations)} if pod.annotations else {}),
        },
        "spec": spec,
    }


def metrics_ports(request: JobRequest, workers: int) -> list[dict[str, Any]]:
    """One per worker that the pod records; a PodMonitor selects them by name."""
    return [{"name": f"metrics-{index}", "containerPort": request.metrics_port + index} for index in range(workers)]


def worker_resources(request: JobRequest, count: int) -> dict[str, Any]:
    """Resources of ``count`` workers; requests equal limits, so that neighbors cannot squeeze a pod.

    Raises:
        JobRequestError: for a limit that is not a quantity.
    """
    return _resources({name: _times(request, name, count) for name in request.trial.resources.limits})


def host_process_resources(request: JobRequest) -> dict[str, Any]:
    """Resources of a process that drives no device: a worker's share of the host."""
    names = [name for name in request.trial.resources.limits if name in _HOST_RESOURCES]
    return _resources({name: _times(request, name, 1) for name in names})


def environment(request: JobRequest, extra: Mapping[str, str]) -> list[dict[str, Any]]:
    """Variables of a container. The pod entry passes the user's to the ranks; here they are for people to see."""
    trial = request.trial
    variables = {
        contract.TRIAL_ENV: _trial(request),
        contract.ENGINE_VERSION_ENV: request.engine_version,
        contract.ATTEMPT_ENV: str(request.attempt),
        contract.PODS_ENV: str(request.pods),
        contract.OUT_ENV: OUT,
        contract.BUDGET_ENV: str(request.record_bytes),
        **extra,
    }
    if "cpu" in trial.resources.limits:
        variables[contract.THREADS_ENV] = str(_threads(request))
    if request.metrics_port:
        variables[contract.METRICS_PORT_ENV] = str(request.metrics_port)
    if request.linger_seconds:
        variables[contract.METRICS_LINGER_ENV] = f"{request.linger_seconds:g}"
    if request.spec.results:
        variables[contract.RESULTS_ENV] = request.spec.results.path
    variables |= {name: text for name, text in trial.workload.env.items() if not contract.places(name)}
    return [
        *({"name": name, "value": literal(text)} for name, text in variables.items()),
        {"name": contract.POD_NAME_ENV, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": contract.NODE_NAME_ENV, "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
    ]


def _trial(request: JobRequest) -> str:
    # The pod passes the full trial to its ranks, again in a variable.
    size = len(canonical_json(request.trial.wire()))
    if size > _MAX_VARIABLE:
        raise JobRequestError(
            f"spec.workload: the trial has {size} bytes, at most {_MAX_VARIABLE} are allowed; "
            "keep long commands and variables in files of the image"
        )
    return canonical_json(request.trial.sent())


def literal(text: str) -> str:
    """Escaped for the kubelet, which reads ``$(NAME)`` as a reference and ``$$`` as ``$``."""
    return text.replace("$", "$$")


def _threads(request: JobRequest) -> int:
    """The same for one worker as for many: torchrun sets 1 when it starts several, and none when it starts one."""
    cores = value(request.trial.resources.limits["cpu"])
    return max(1, int(cores.to_integral_value(ROUND_FLOOR)))


def _times(request: JobRequest, name: str, count: int) -> str:
    try:
        return times(request.trial.resources.limits[name], count)
    except ValueError as error:
        raise JobRequestError(f"spec.resources.limits.{name}: {error}") from None


def _resources(limits: dict[str, str]) -> dict[str, Any]:
    return {"limits": limits, "requests": dict(limits)} if limits else {}


def _pod_security(root: bool) -> dict[str, Any]:
    profile = {"seccompProfile": {"type": "RuntimeDefault"}}
    if root:
        return {"runAsUser": 0, "runAsGroup": 0, **profile}
    return {
        "runAsNonRoot": True,
        "runAsUser": USER,
        "runAsGroup": USER,
        "fsGroup": USER,
        # Without it the kubelet walks an entire data set to change its owner before the pod starts.
        "fsGroupChangePolicy": "OnRootMismatch",
        **profile,
    }


def _volumes(request: JobRequest) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    pod, results = request.spec.pod, request.spec.results
    memory = {"medium": "Memory", **({"sizeLimit": pod.shared_memory} if pod.shared_memory else {})}
    volumes: list[dict[str, Any]] = [
        # The runtime's own /dev/shm has 64 MiB: NCCL and data loaders die of a bus error.
        {"name": "shm", "emptyDir": memory},
        {"name": "out", "emptyDir": {}},
        {"name": "tmp", "emptyDir": {}},
    ]
    mounts: list[dict[str, Any]] = [
        {"name": "shm", "mountPath": "/dev/shm"},
        {"name": "out", "mountPath": OUT},
        {"name": "tmp", "mountPath": "/tmp"},
    ]
    for index, claim in enumerate(pod.claims):
        name = f"claim-{index}"
        volumes.append({"name": name, "persistentVolumeClaim": {"claimName": claim.claim}})
        mounts.append({"name": name, "mountPath": claim.path, **({"readOnly": True} if claim.read_only else {})})
    if results:
        volumes.append({"name": "results", "persistentVolumeClaim": {"claimName": results.claim}})
        mounts.append({"name": "results", "mountPath": results.path})
    return volumes, mounts


def _scheduling(request: JobRequest) -> dict[str, Any]:
    pod = request.spec.pod
    fields: dict[str, Any] = {
        "nodeSelector": dict(pod.node_selector),
        "tolerations": [toleration.wire() for toleration in pod.tolerations],
        "imagePullSecrets": [{"name": name} for name in pod.image_pull_secrets],
        "serviceAccountName": pod.service_account_name,
        "priorityClassName": pod.priority_class_name,
        "schedulerName": pod.scheduler_name,
        "runtimeClassName": pod.runtime_class_name,
    }
    if pod.host_network:
        fields |= {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    return {name: value for name, value in fields.items() if value}
