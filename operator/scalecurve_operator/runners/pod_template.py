"""The pod that carries workers, the same under every job kind."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scalecurve_api import contract
from scalecurve_api.model import canonical_json
from scalecurve_api.programs.env_source import EnvSource
from scalecurve_api.spec import object_names as objects
from scalecurve_api.spec.quantity import times, value
from scalecurve_api.validation.pod_template import MAIN_CONTAINER
from scalecurve_operator.runners import strategic_merge
from scalecurve_operator.runners.affinity import restore_terms, slice_annotations, worker_affinity
from scalecurve_operator.runners.job_request import JobRequest, JobRequestError

POD_ENTRY = ("python", "-m", "scalecurve_worker.launch.pod")
WORKER, LAUNCHER, CHIEF, SERVER = "worker", "launcher", "chief", "ps"  # values of the role label
OUT = "/scalecurve/out"
COORDINATOR_PORT = 29500
USER = 1000  # Every image's user, whatever it says itself: ``runAsNonRoot`` alone would refuse images that say root
GRACE_SECONDS = 10
_MAX_VARIABLE = 120_000  # Linux starts no program with a variable of 128 KiB or more (MAX_ARG_STRLEN)
_OUT_SIZE = "8Gi"  # Step journals and samples of monitors, of all workers of a pod
_CACHES = "/tmp/.cache"  # Home folders are in the image, which is read-only
_HOST_RESOURCES = ("cpu", "memory", "ephemeral-storage")


def worker_template(request: JobRequest, container: str, **fields: Any) -> dict[str, Any]:
    """A pod with its share of the workers; ``fields`` as for ``template``."""
    resources = _resources(request.trial.resources.limits, request.workers_per_pod)
    if request.metrics_port and not request.trial.workload.roles:
        fields["ports"] = [*fields.get("ports", ()), *metrics_ports(request, request.workers_per_pod)]
    pod = _template(request, container, WORKER, resources=resources, **fields)
    if slices := slice_annotations(request):
        pod["metadata"]["annotations"] = {**pod["metadata"].get("annotations", {}), **slices}
    placed = worker_affinity(request)
    pod["spec"].update(placed)
    patched = _apply_patch(request, pod)
    if placed.get("affinity") and patched["spec"].get("affinity"):
        patched["spec"]["affinity"] = restore_terms(placed["affinity"], patched["spec"]["affinity"])
    return patched


def template(request: JobRequest, container: str, role: str, **fields: Any) -> dict[str, Any]:
    """A pod without workers; ``fields`` as for ``_template``."""
    return _apply_patch(request, _template(request, container, role, **fields))


def _apply_patch(request: JobRequest, pod: dict[str, Any]) -> dict[str, Any]:
    """The user's own patch comes last; what it may not change, ``template_problems`` refuses."""
    patch = request.spec.pod.template
    main = pod["spec"]["containers"][0]["name"]
    return strategic_merge.merged(pod, strategic_merge.renamed(patch, MAIN_CONTAINER, main)) if patch else pod


def _template(
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
    volumes, mounts = _volumes(request, resources.get("limits", {}).get("memory"))
    spec: dict[str, Any] = {
        "automountServiceAccountToken": False,
        # Variables for every Service of the namespace would reach the ranks, however many there are.
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "securityContext": _pod_security(root, pod.platform_user),
        "containers": [
            {
                "name": container,
                "image": request.image,
                "command": list(command),
                "env": [*environment(request, env or {}), *_key_sources(request)],
                **_whole_sources(request),
                "resources": dict(resources),
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": not pod.writable_root,
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
    spec.update(_pod_option_fields(request))
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


def host_process_resources(request: JobRequest) -> dict[str, Any]:
    """Resources of a process that drives no device: a worker's share of the host."""
    limits = request.trial.resources.limits
    return _resources({name: limits[name] for name in limits if name in _HOST_RESOURCES}, 1)


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
        "XDG_CACHE_HOME": _CACHES,
        "TRITON_CACHE_DIR": f"{_CACHES}/triton",
        **extra,
    }
    if (cpus := trial.resources.limits.get("cpu")) is not None:
        # The same for one worker as for many: torchrun sets 1 when it starts several, and none when it starts one.
        variables[contract.THREADS_ENV] = str(max(1, math.floor(value(cpus))))
    if request.metrics_port:
        variables[contract.METRICS_PORT_ENV] = str(request.metrics_port)
    if request.secret:
        variables[contract.SECRET_ENV] = request.secret
    if request.linger_seconds:
        variables[contract.METRICS_LINGER_ENV] = f"{request.linger_seconds:g}"
    if request.spec.results:
        variables[contract.RESULTS_ENV] = request.spec.results.path
    variables |= {name: text for name, text in trial.workload.env.items() if not contract.places(name)}
    return [
        # The kubelet reads $(NAME) as a reference, and $$ as $.
        *({"name": name, "value": text.replace("$", "$$")} for name, text in variables.items()),
        {"name": contract.POD_NAME_ENV, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": contract.NODE_NAME_ENV, "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
    ]


def _key_sources(request: JobRequest) -> list[dict[str, Any]]:
    """One variable from one key each."""
    return [
        {"name": source.variable, "valueFrom": {f"{kind}KeyRef": {"name": name, "key": source.key, **optional}}}
        for source, kind, name, optional in _sources(request)
        if source.key is not None
    ]


def _whole_sources(request: JobRequest) -> dict[str, Any]:
    whole = []
    for source, kind, name, optional in _sources(request):
        if source.key is None:
            reference = {f"{kind}Ref": {"name": name, **optional}}
            whole.append({**({"prefix": source.prefix} if source.prefix else {}), **reference})
            # Nobody but the kubelet knows the keys, and so which variables hold a secret: hence a second copy of them.
            # Numbered, for two Secrets may have one key.
            whole += [{"prefix": f"{contract.HIDDEN_PREFIX}{len(whole)}_", **reference}] if kind == "secret" else []
    return {"envFrom": whole} if whole else {}


def _sources(request: JobRequest) -> Iterator[tuple[EnvSource, str, str | None, dict[str, bool]]]:
    for source in request.trial.workload.env_from:
        kind, name = ("secret", source.secret) if source.secret else ("configMap", source.config_map)
        yield source, kind, name, {"optional": True} if source.optional else {}


def _trial(request: JobRequest) -> str:
    # The pod passes the full trial to its ranks, again in a variable.
    size = len(canonical_json(request.trial.wire()))
    if size > _MAX_VARIABLE:
        problem = f"the trial has {size} bytes, at most {_MAX_VARIABLE} are allowed"
        raise JobRequestError(f"spec.workload: {problem}; keep long commands and variables in files of the image")
    return canonical_json(request.trial.sent())


def _resources(limits: Mapping[str, int | float | str], count: int) -> dict[str, Any]:
    """Resources of ``count`` workers; requests equal limits, so that neighbors cannot squeeze a pod."""
    multiples = {}
    for name, limit in limits.items():
        try:
            multiples[name] = times(limit, count)
        except ValueError as error:
            raise JobRequestError(f"spec.resources.limits.{name}: {error}") from None
    return {"limits": multiples, "requests": dict(multiples)} if multiples else {}


def _pod_security(root: bool, platform_user: bool) -> dict[str, Any]:
    if platform_user and not root:
        return {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    uid = 0 if root else USER
    user = {"runAsUser": uid, "runAsGroup": uid}
    # Without the policy the kubelet walks an entire data set to change its owner before the pod starts.
    ordinary = {"runAsNonRoot": True, **user, "fsGroup": USER, "fsGroupChangePolicy": "OnRootMismatch"}
    return {**(user if root else ordinary), "seccompProfile": {"type": "RuntimeDefault"}}


def _volumes(request: JobRequest, memory: Any = None) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    pod, results = request.spec.pod, request.spec.results
    # The runtime's own /dev/shm has 64 MiB: NCCL and data loaders die of a bus error. What is in it counts as memory.
    sizes = {"shm": pod.shared_memory or memory, "out": _OUT_SIZE, "tmp": pod.scratch}
    volumes: list[dict[str, Any]] = [
        {
            "name": name,
            "emptyDir": {
                **({"medium": "Memory"} if name == "shm" else {}),
                **({"sizeLimit": size} if size else {}),
            },
        }
        for name, size in sizes.items()
    ]
    folders = (("shm", "/dev/shm"), ("out", OUT), ("tmp", "/tmp"))
    mounts: list[dict[str, Any]] = [{"name": name, "mountPath": path} for name, path in folders]
    claims = [(f"claim-{index}", claim.claim, claim.path, claim.read_only) for index, claim in enumerate(pod.claims)]
    if results:
        claims.append(("results", results.claim, results.path, False))
    for name, claim, path, read_only in claims:
        volumes.append({"name": name, "persistentVolumeClaim": {"claimName": claim}})
        mounts.append({"name": name, "mountPath": path, **({"readOnly": True} if read_only else {})})
    return volumes, mounts


def _pod_option_fields(request: JobRequest) -> dict[str, Any]:
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
