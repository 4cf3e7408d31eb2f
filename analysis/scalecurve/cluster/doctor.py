"""Checks of a cluster and of whether an experiment can start there, each with an action."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from scalecurve.cluster import capacity
from scalecurve.render.progress import clock
from scalecurve.render.table import Column, Table
from scalecurve_api.spec.experiment import ExperimentSpec, ScalingExperiment
from scalecurve_api.spec.job_kinds import DEFAULT_RUNNER, Runner
from scalecurve_kube.blocking import BlockingCluster
from scalecurve_kube.errors import Refused
from scalecurve_kube.resources import (
    ACCESS_REVIEWS,
    CLAIMS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    QUOTAS,
    Object,
    Resource,
)

LEASE = "scalecurve-operator"
_GROUP, _VERSION = "scalecurve.dev", "v1alpha1"
_OLDEST_MINOR = 29
"""Rules over the old and the new object (CEL) are generally available from here."""
_INSTALL = "helm install scalecurve charts/scalecurve -n scalecurve-system --create-namespace"
_RIGHTS = (
    ("create", _GROUP, "scalingexperiments", "start experiments"),
    ("list", _GROUP, "scalingtrials", "see their points"),
    ("get", "", "configmaps", "pull their records"),
)


@dataclass(frozen=True)
class ClusterCheck:
    """``good`` is False if it blocks the experiment, None if it is optional or could not be checked."""

    what: str
    found: str
    good: bool | None = True
    do: str = ""


@dataclass(frozen=True)
class Patient:
    """The cluster, and the experiment that is to start in it, if one is given."""

    cluster: BlockingCluster
    experiment: ScalingExperiment | None = None

    @property
    def spec(self) -> ExperimentSpec | None:
        return self.experiment.spec if self.experiment else None

    @property
    def runner(self) -> Runner | None:
        return (self.experiment.spec.runner or DEFAULT_RUNNER) if self.experiment else None


def doctor(cluster: BlockingCluster, experiment: ScalingExperiment | None = None) -> list[ClusterCheck]:
    """Run every check.

    Raises:
        ClusterError: when the cluster does not answer at all.
    """
    patient = Patient(cluster, experiment)
    checks = list(_server(patient))
    for what, look in _LOOKS:
        try:
            checks += look(patient)
        except Refused as refused:
            checks.append(
                ClusterCheck(what, refused.message, None, "could not be checked; request permission to read it")
            )
    return checks


def table(cluster: BlockingCluster, findings: list[ClusterCheck]) -> Table:
    """One row per finding."""
    columns = (Column("what", "What"), Column("found", "Found"), Column("good", "OK", "flag"), Column("do", "Action"))
    rows = tuple((check.what, check.found, check.good, check.do or None) for check in findings)
    return Table("cluster", f"Namespace {cluster.namespace} of {cluster.name}", columns, rows)


def _server(patient: Patient) -> Iterator[ClusterCheck]:
    version = patient.cluster.request("GET", "/version")
    digits = "".join(letter for letter in str(version.get("minor", "")) if letter.isdigit())
    old = digits.isdigit() and int(digits) < _OLDEST_MINOR
    do = f"ScaleCurve needs Kubernetes 1.{_OLDEST_MINOR} or newer" if old else ""
    yield ClusterCheck("API server", str(version.get("gitVersion", "unknown version")), not old, do)


def _definitions(patient: Patient) -> Iterator[ClusterCheck]:
    group = patient.cluster.lookup(f"/apis/{_GROUP}")
    versions = [entry["version"] for entry in (group or {}).get("versions", [])]
    if _VERSION not in versions:
        served = f"served in {', '.join(versions)}, not {_VERSION}" if versions else "not installed"
        yield ClusterCheck("definitions", served, False, _INSTALL)
        return
    kinds = _plurals(patient.cluster, _GROUP, _VERSION)
    missing = [plural for plural in ("scalingexperiments", "scalingtrials") if plural not in kinds]
    if missing:
        yield ClusterCheck("definitions", f"{', '.join(missing)} not installed", False, _INSTALL)
    else:
        yield ClusterCheck("definitions", f"scalingexperiments, scalingtrials in {', '.join(versions)}")


def _operator(patient: Patient) -> Iterator[ClusterCheck]:
    leases = _leases(patient.cluster)
    if not leases:
        yield ClusterCheck("operator", "never ran here", False, _INSTALL)
    for lease in leases:
        yield _holder(lease, datetime.now(UTC))


def _leases(cluster: BlockingCluster) -> list[Object]:
    return cluster.list(LEASES, all_namespaces=True, fieldSelector=f"metadata.name={LEASE}")


def _holder(lease: Mapping[str, Any], now: datetime) -> ClusterCheck:
    spec, namespace = lease.get("spec") or {}, lease["metadata"]["namespace"]
    who = spec.get("holderIdentity")
    logs = f"kubectl -n {namespace} get pods; kubectl -n {namespace} logs -l app.kubernetes.io/component=operator"
    if not who or not spec.get("renewTime"):
        return ClusterCheck("operator", f"in {namespace}: stopped: its lease has no holder", False, logs)
    age = (now - datetime.fromisoformat(spec["renewTime"].replace("Z", "+00:00"))).total_seconds()
    patience = max(30.0, 3.0 * float(spec.get("leaseDurationSeconds") or 10))
    state = f"{who} in {namespace}, last seen {clock(age)} ago"
    if age > patience:
        return ClusterCheck("operator", f"{state}: stopped, or clocks differ", False, logs)
    return ClusterCheck("operator", state)


def _runners(patient: Patient) -> Iterator[ClusterCheck]:
    for runner in Runner:
        kind, needed = runner.job_kind, runner is patient.runner
        if kind.plural in _plurals(patient.cluster, kind.group, kind.version):
            yield ClusterCheck(f"runner {runner.value}", f"{kind.plural}.{kind.group}/{kind.version}")
        else:
            do = f"install {kind.installed_by}" + (
                ", or set spec.runner: Job, which needs no operator" if needed else ""
            )
            yield ClusterCheck(f"runner {runner.value}", "not installed", False if needed else None, do)


def _nodes(patient: Patient) -> Iterator[ClusterCheck]:
    cluster, spec = patient.cluster, patient.spec
    every = cluster.list(NODES, all_namespaces=True)
    busy: list[Object] = []
    unknown = ""
    try:
        busy = cluster.list(PODS, all_namespaces=True, fieldSelector="status.phase!=Succeeded,status.phase!=Failed")
    except Refused:
        unknown = "; no permission to see what is in use"
    nodes = capacity.usable_nodes(every, busy, spec)
    selected = " matching spec.pod" if spec and (spec.pod.node_selector or spec.pod.tolerations) else ""
    offered = [
        f"{count} with {amount} {what}"
        for what, counts in sorted(capacity.devices(nodes, spec.resources.limits if spec else ()).items())
        if "/" in what
        for amount, count in sorted(counts.items(), reverse=True)
        if amount
    ]
    summary = f"{len(nodes)} of {len(every)} ready for pods{selected}: {', '.join(offered) or 'no devices'}{unknown}"
    do = "check spec.pod.nodeSelector and tolerations, and kubectl get nodes"
    yield ClusterCheck("nodes", summary, bool(nodes), "" if nodes else do)
    for fit in capacity.fits(spec, nodes) if spec else ():
        yield _layout(fit)


def _layout(fit: capacity.Fit) -> ClusterCheck:
    asked = ", ".join(f"{amount:f} {what}" for what, amount in fit.needs.items() if what != "pods")
    need = f"needs {_nodes_of(fit.nodes)}" + (f" with {asked} each" if asked else "")
    what = f"layout {fit.layout}"
    if fit.ever < fit.nodes:
        do = f"drop {fit.layout}, lower spec.resources, or add nodes"
        return ClusterCheck(what, f"{need}; {fit.ever} have that in total", False, do)
    if fit.now < fit.nodes:
        return ClusterCheck(what, f"{need}; {fit.now} have that free now", None, "its trials wait for others to end")
    return ClusterCheck(what, f"{need}; {fit.now} have that free now")


def _nodes_of(count: int) -> str:
    return f"{count} node{'s' if count != 1 else ''}"


def _quota(patient: Patient) -> Iterator[ClusterCheck]:
    quotas = patient.cluster.list(QUOTAS)
    if not quotas:
        yield ClusterCheck("quota", f"none in {patient.cluster.namespace}")
        return
    names = ", ".join(quota["metadata"]["name"] for quota in quotas)
    if patient.spec is None:
        yield ClusterCheck("quota", names, None, "pass an experiment to compare")
        return
    never, now = capacity.over_quota(patient.spec, quotas)
    for sentence in never:
        yield ClusterCheck("quota", sentence, False, "request less, or have the quota raised")
    for sentence in now:
        yield ClusterCheck("quota", sentence, None, "its trials wait for others to end")
    if not never and not now:
        yield ClusterCheck("quota", f"{names}: the largest point fits")


def _rights(patient: Patient) -> Iterator[ClusterCheck]:
    cluster = patient.cluster
    for verb, group, resource, purpose in _RIGHTS:
        asked = {"namespace": cluster.namespace, "verb": verb, "group": group, "resource": resource}
        review = {**ACCESS_REVIEWS.body(), "spec": {"resourceAttributes": asked}}
        review = cluster.request("POST", ACCESS_REVIEWS.path(), review)
        name = f"{verb} {resource}" + (f".{group}" if group else "")
        if (review.get("status") or {}).get("allowed"):
            yield ClusterCheck("permission", f"you may {name}")
        else:
            do = f"request the role edit in {cluster.namespace}, to {purpose}"
            yield ClusterCheck("permission", f"you may not {name}", False if verb == "create" else None, do)


def _security(patient: Patient) -> Iterator[ClusterCheck]:
    namespace = patient.cluster.lookup(NAMESPACES.path(name=patient.cluster.namespace))
    if namespace is None:
        do = f"kubectl create namespace {patient.cluster.namespace}"
        yield ClusterCheck("namespace", f"{patient.cluster.namespace} does not exist", False, do)
        return
    level = (namespace["metadata"].get("labels") or {}).get("pod-security.kubernetes.io/enforce", "privileged")
    pod = patient.spec.pod if patient.spec else None
    asked = {"spec.pod.hostNetwork": pod.host_network, "spec.pod.lockMemory": pod.lock_memory} if pod else {}
    over = [name for name, wanted in asked.items() if wanted]
    if over and level != "privileged":
        do = f"remove it, or label the namespace pod-security.kubernetes.io/enforce=privileged (it has {level})"
        yield ClusterCheck("Pod Security", f"{level} refuses {' and '.join(over)}", False, do)
    else:
        yield ClusterCheck("Pod Security", f"enforces {level}: trial pods comply")


def _queue(patient: Patient) -> Iterator[ClusterCheck]:
    if patient.spec is None or patient.spec.queue is None:
        return
    cluster, name = patient.cluster, patient.spec.queue
    group = cluster.lookup("/apis/kueue.x-k8s.io")
    if group is None:
        yield ClusterCheck("queue", "Kueue is not installed", False, "install Kueue, or remove spec.queue")
        return
    version = group["preferredVersion"]["version"]
    queue = cluster.get(Resource("kueue.x-k8s.io", version, "localqueues", "LocalQueue"), name)
    if queue is None:
        yield ClusterCheck("queue", f"no local queue {name} in {cluster.namespace}", False, "kubectl get localqueues")
        return
    conditions = (queue.get("status") or {}).get("conditions") or []
    stopped = next((c for c in conditions if c.get("type") == "Active" and c.get("status") == "False"), None)
    waiting = (queue.get("status") or {}).get("pendingWorkloads", 0)
    state = f"{name}: {waiting} workloads wait" + (f"; inactive: {stopped.get('message', '')}" if stopped else "")
    yield ClusterCheck("queue", state, stopped is None, f"kubectl describe localqueue {name}" if stopped else "")


def _claims(patient: Patient) -> Iterator[ClusterCheck]:
    if patient.spec is None:
        return
    mounted = [mount.claim for mount in patient.spec.pod.claims]
    mounted += [patient.spec.results.claim] if patient.spec.results else []
    for name in dict.fromkeys(mounted):
        claim = patient.cluster.get(CLAIMS, name)
        if claim is None:
            yield ClusterCheck(
                "claim", f"no PersistentVolumeClaim {name}", False, "create it, or set another in the spec"
            )
            continue
        modes = ", ".join(claim["spec"].get("accessModes") or [])
        several = capacity.largest(patient.spec)
        alone = "Many" not in modes and several is not None and several.nodes > 1
        do = "pods on several nodes mount it: use ReadWriteMany or ReadOnlyMany" if alone else ""
        yield ClusterCheck("claim", f"{name}: {modes}", not alone, do)


def _plurals(cluster: BlockingCluster, group: str, version: str) -> list[str]:
    document = cluster.lookup(f"/apis/{group}/{version}")
    return [str(resource["name"]) for resource in (document or {}).get("resources", [])]


_LOOKS: tuple[tuple[str, Callable[[Patient], Iterator[ClusterCheck]]], ...] = (
    ("definitions", _definitions),
    ("operator", _operator),
    ("runners", _runners),
    ("nodes", _nodes),
    ("quota", _quota),
    ("permission", _rights),
    ("Pod Security", _security),
    ("queue", _queue),
    ("claim", _claims),
)
