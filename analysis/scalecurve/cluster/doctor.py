"""Checks of a cluster and of whether an experiment can start there, each with an action."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import FunctionType
from typing import Any

from scalecurve.cluster import capacity, platforms
from scalecurve.render.progress import clock
from scalecurve.render.table import Column, Table
from scalecurve_api.planning.plan import make_plan
from scalecurve_api.planning.runner_choice import RunnerChoice, choices, choose
from scalecurve_api.registry import Registry
from scalecurve_api.spec.experiment import ExperimentSpec, ScalingExperiment, TrainingRuntime
from scalecurve_api.spec.job_kinds import Runner
from scalecurve_api.text import count
from scalecurve_kube.blocking import BlockingCluster
from scalecurve_kube.errors import ApiStatusError
from scalecurve_kube.resources import ACCESS_REVIEWS, CLAIMS, LEASES, NAMESPACES, NODES, PODS, QUOTAS, Object, Resource

LEASE = "scalecurve-operator"
SERVED = "scalecurve.dev/namespaces"
"""Annotation of the chart's Lease: the namespaces that its operator serves; empty is all."""
_GROUP, _VERSION = "scalecurve.dev", "v1alpha1"
_OLDEST_MINOR = 29  # rules over the old and the new object (CEL) are generally available from here
_INSTALL = "helm install scalecurve charts/scalecurve -n scalecurve-system --create-namespace --set namespaces={TEAM}"
_SERVE = "add it to the chart's value namespaces: helm upgrade --reuse-values --set namespaces={...}"
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
class DoctorContext:
    """The cluster, and the experiment that is to start in it, if one is given."""

    cluster: BlockingCluster
    experiment: ScalingExperiment | None = None
    choice: RunnerChoice | None = None  # None without an experiment, and where nothing that can carry it is installed

    @property
    def spec(self) -> ExperimentSpec | None:
        return self.experiment.spec if self.experiment else None

    @property
    def runner(self) -> Runner | None:
        return self.choice.runner if self.choice else None


Check = Callable[[DoctorContext], Iterator[ClusterCheck]]


def doctor(cluster: BlockingCluster, experiment: ScalingExperiment | None = None) -> list[ClusterCheck]:
    """Run every check; raises ClusterError when the cluster does not answer at all."""
    checks = list(_server(DoctorContext(cluster)))
    context = _choose_runner(cluster, experiment) if experiment is not None else DoctorContext(cluster)
    for what, check in CHECKS.loadable().items():
        try:
            checks += check(context)
        except ApiStatusError as refused:
            do = "could not be checked; request permission to read it"
            checks.append(ClusterCheck(what, refused.message, None, do))
    return checks


def table(cluster: BlockingCluster, findings: list[ClusterCheck]) -> Table:
    """One row per finding."""
    columns = (Column("what", "What"), Column("found", "Found"), Column("good", "OK", "flag"), Column("do", "Action"))
    rows = tuple((check.what, check.found, check.good, check.do or None) for check in findings)
    return Table("cluster", f"Namespace {cluster.namespace} of {cluster.name}", columns, rows)


def _choose_runner(cluster: BlockingCluster, experiment: ScalingExperiment) -> DoctorContext:
    """The experiment with the runner that an operator would choose here."""
    options = choices(make_plan(experiment))
    installed = [option.runner for option in options if experiment.spec.runner or _serves_kind(cluster, option.runner)]
    choice = choose(options, installed)
    if choice is None:
        return DoctorContext(cluster, experiment)
    spec = experiment.spec.model_copy(update={"runner": choice.runner})
    return DoctorContext(cluster, experiment.model_copy(update={"spec": spec}), choice)


def _serves_kind(cluster: BlockingCluster, runner: Runner) -> bool:
    kind = runner.job_kind
    return kind.plural in _plurals(cluster, kind.group, kind.version)


def _server(context: DoctorContext) -> Iterator[ClusterCheck]:
    version = context.cluster.request("GET", "/version")
    digits = "".join(letter for letter in str(version.get("minor", "")) if letter.isdigit())
    old = digits.isdigit() and int(digits) < _OLDEST_MINOR
    do = f"ScaleCurve needs Kubernetes 1.{_OLDEST_MINOR} or newer" if old else ""
    yield ClusterCheck("API server", str(version.get("gitVersion", "unknown version")), not old, do)


def _definitions(context: DoctorContext) -> Iterator[ClusterCheck]:
    group = context.cluster.lookup(f"/apis/{_GROUP}")
    versions = [entry["version"] for entry in (group or {}).get("versions", [])]
    if _VERSION not in versions:
        served = f"served in {', '.join(versions)}, not {_VERSION}" if versions else "not installed"
        yield ClusterCheck("definitions", served, False, _INSTALL)
        return
    kinds = _plurals(context.cluster, _GROUP, _VERSION)
    missing = [plural for plural in ("scalingexperiments", "scalingtrials") if plural not in kinds]
    if missing:
        yield ClusterCheck("definitions", f"{', '.join(missing)} not installed", False, _INSTALL)
    else:
        yield ClusterCheck("definitions", f"scalingexperiments, scalingtrials in {', '.join(versions)}")


def _operator(context: DoctorContext) -> Iterator[ClusterCheck]:
    leases = context.cluster.list(LEASES, all_namespaces=True, fieldSelector=f"metadata.name={LEASE}")
    if not leases:
        yield ClusterCheck("operator", "never ran here", False, _INSTALL)
    namespace = context.cluster.namespace
    for lease in leases:
        check = _holder(lease, datetime.now(UTC))
        served = (lease["metadata"].get("annotations") or {}).get(SERVED)
        if check.good and served and namespace not in served.split(","):
            # Another operator may serve it: one that serves others is no fault by itself.
            elsewhere = f"{check.found}; serves {served}, not {namespace}"
            check = ClusterCheck("operator", elsewhere, False if len(leases) == 1 else None, _SERVE)
        yield check


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


def _runners(context: DoctorContext) -> Iterator[ClusterCheck]:
    if context.choice is not None:
        yield ClusterCheck("runner", f"{context.choice.runner.value}: {context.choice.reason}")
    elif context.experiment is not None:
        options = choices(make_plan(context.experiment))
        needed_by = dict.fromkeys(option.runner.job_kind.installed_by for option in options)
        yield ClusterCheck("runner", "nothing that can carry the program", False, f"install {', or '.join(needed_by)}")
    for runner in Runner:
        kind, needed = runner.job_kind, runner is context.runner
        if _serves_kind(context.cluster, runner):
            yield ClusterCheck(f"runner {runner.value}", f"{kind.plural}.{kind.group}/{kind.version}")
        else:
            do = f"install {kind.installed_by}"
            do += ", or set spec.runner: auto" if needed else ""
            yield ClusterCheck(f"runner {runner.value}", "not installed", False if needed else None, do)


def _runtime(context: DoctorContext) -> Iterator[ClusterCheck]:
    """Of a TrainJob, which the trainer refuses to create without it."""
    if (
        context.spec is None
        or context.runner is not Runner.train_job
        or not _serves_kind(context.cluster, context.runner)
    ):
        return
    runtime, kind = context.spec.training_runtime or TrainingRuntime(), Runner.train_job.job_kind
    resource = Resource(kind.group, kind.version, f"{runtime.kind.lower()}s", runtime.kind)
    found = context.cluster.list(resource, all_namespaces=runtime.kind == "ClusterTrainingRuntime")
    names = sorted(each["metadata"]["name"] for each in found)
    if runtime.name in names:
        yield ClusterCheck("training runtime", f"{runtime.kind} {runtime.name}")
        return
    do = f"set spec.trainingRuntime.name to {' or '.join(names)}" if names else f"create a {runtime.kind}"
    yield ClusterCheck("training runtime", f"no {runtime.kind} {runtime.name}", False, do)


def _nodes(context: DoctorContext) -> Iterator[ClusterCheck]:
    cluster, spec = context.cluster, context.spec
    every = cluster.list(NODES, all_namespaces=True)
    busy: list[Object] = []
    unknown = ""
    try:
        busy = cluster.list(PODS, all_namespaces=True, fieldSelector="status.phase!=Succeeded,status.phase!=Failed")
    except ApiStatusError:
        unknown = "; no permission to see what is in use"
    nodes = capacity.usable_nodes(every, busy, spec)
    selected = " matching spec.pod" if spec and (spec.pod.node_selector or spec.pod.tolerations) else ""
    offered = [
        f"{nodes_of} with {amount} {what}"
        for what, counts in sorted(capacity.devices(nodes, spec.resources.limits if spec else ()).items())
        if "/" in what
        for amount, nodes_of in sorted(counts.items(), reverse=True)
        if amount
    ]
    summary = f"{len(nodes)} of {len(every)} ready for pods{selected}: {', '.join(offered) or 'no devices'}{unknown}"
    do = "check spec.pod.nodeSelector and tolerations, and kubectl get nodes"
    yield ClusterCheck("nodes", summary, bool(nodes), "" if nodes else do)
    for fit in capacity.fits(spec, nodes) if spec else ():
        yield _layout(fit)


def _platforms(context: DoctorContext) -> Iterator[ClusterCheck]:
    nodes = context.cluster.list(NODES, all_namespaces=True)
    served = context.cluster.lookup("/apis") or {}
    found = platforms.detected(nodes, {group["name"] for group in served.get("groups") or ()})
    for platform in found:
        used = context.spec is not None and platforms.uses(context.spec, platform)
        do = "" if used else f"start from --overlay {platforms.OVERLAYS}/{platform.name}.yaml"
        yield ClusterCheck(f"platform {platform.name}", platform.found, True if used else None, do)
    if (none := platforms.fabric(nodes)) is not None:
        yield ClusterCheck("fabric", none, None, "results are of this network; no overlay is needed")


def _layout(fit: capacity.Fit) -> ClusterCheck:
    asked = ", ".join(f"{amount:f} {what}" for what, amount in fit.needs.items() if what != "pods")
    need = f"needs {count(fit.nodes, 'node')}" + (f" with {asked} each" if asked else "")
    what = f"layout {fit.layout}"
    if fit.ever < fit.nodes:
        do = f"drop {fit.layout}, lower spec.resources, or add nodes"
        return ClusterCheck(what, f"{need}; {fit.ever} have that in total", False, do)
    if fit.now < fit.nodes:
        return ClusterCheck(what, f"{need}; {fit.now} have that free now", None, "its trials wait for others to end")
    return ClusterCheck(what, f"{need}; {fit.now} have that free now")


def _quota(context: DoctorContext) -> Iterator[ClusterCheck]:
    quotas = context.cluster.list(QUOTAS)
    if not quotas:
        yield ClusterCheck("quota", f"none in {context.cluster.namespace}")
        return
    names = ", ".join(quota["metadata"]["name"] for quota in quotas)
    if context.spec is None:
        yield ClusterCheck("quota", names, None, "pass an experiment to compare")
        return
    never, now = capacity.find_quota_excess(context.spec, quotas)
    for sentence in never:
        yield ClusterCheck("quota", sentence, False, "request less, or have the quota raised")
    for sentence in now:
        yield ClusterCheck("quota", sentence, None, "its trials wait for others to end")
    if not never and not now:
        yield ClusterCheck("quota", f"{names}: the largest point fits")


def _rights(context: DoctorContext) -> Iterator[ClusterCheck]:
    cluster = context.cluster
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


def _security(context: DoctorContext) -> Iterator[ClusterCheck]:
    namespace = context.cluster.lookup(NAMESPACES.path(name=context.cluster.namespace))
    if namespace is None:
        do = f"kubectl create namespace {context.cluster.namespace}"
        yield ClusterCheck("namespace", f"{context.cluster.namespace} does not exist", False, do)
        return
    level = (namespace["metadata"].get("labels") or {}).get("pod-security.kubernetes.io/enforce", "privileged")
    pod = context.spec.pod if context.spec else None
    asked = {"spec.pod.hostNetwork": pod.host_network, "spec.pod.lockMemory": pod.lock_memory} if pod else {}
    over = [name for name, wanted in asked.items() if wanted]
    if over and level != "privileged":
        do = f"remove it, or label the namespace pod-security.kubernetes.io/enforce=privileged (it has {level})"
        yield ClusterCheck("Pod Security", f"{level} refuses {' and '.join(over)}", False, do)
    else:
        yield ClusterCheck("Pod Security", f"enforces {level}: trial pods comply")


def _queue(context: DoctorContext) -> Iterator[ClusterCheck]:
    if context.spec is None or context.spec.queue is None:
        return
    cluster, name = context.cluster, context.spec.queue
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


def _claims(context: DoctorContext) -> Iterator[ClusterCheck]:
    if context.spec is None:
        return
    mounted = [mount.claim for mount in context.spec.pod.claims]
    mounted += [context.spec.results.claim] if context.spec.results else []
    for name in dict.fromkeys(mounted):
        claim = context.cluster.get(CLAIMS, name)
        if claim is None:
            do = "create it, or set another in the spec"
            yield ClusterCheck("claim", f"no PersistentVolumeClaim {name}", False, do)
            continue
        modes = ", ".join(claim["spec"].get("accessModes") or [])
        several = capacity.largest(context.spec)
        alone = "Many" not in modes and several is not None and several.nodes > 1
        do = "pods on several nodes mount it: use ReadWriteMany or ReadOnlyMany" if alone else ""
        yield ClusterCheck("claim", f"{name}: {modes}", not alone, do)


def _plurals(cluster: BlockingCluster, group: str, version: str) -> list[str]:
    document = cluster.lookup(f"/apis/{group}/{version}")
    return [str(resource["name"]) for resource in (document or {}).get("resources", [])]


CHECKS: Registry[Check] = Registry(
    "scalecurve.cluster_checks",
    "cluster check",
    FunctionType,
    {
        "definitions": _definitions,
        "operator": _operator,
        "runners": _runners,
        "training runtime": _runtime,
        "nodes": _nodes,
        "platform": _platforms,
        "quota": _quota,
        "permission": _rights,
        "Pod Security": _security,
        "queue": _queue,
        "claim": _claims,
    },
)
