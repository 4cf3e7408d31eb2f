"""Where the API server keeps each kind of object that ScaleCurve reads or writes."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from scalecurve_api.spec.job_kinds import Runner
from scalecurve_kube.errors import ClusterError

Object = dict[str, Any]


def is_path_segment(part: str) -> bool:
    """Whether a name stays one segment of a URL path; every name that an API server gives does."""
    return part not in (".", "..") and {"/", "%"}.isdisjoint(part)


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind of object in one API version."""

    group: str
    version: str
    plural: str
    kind: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """URL path of an object or, without ``name``, of the collection; without ``namespace``, cluster-wide.

        Raises:
            ClusterError: for a name that is no segment of a path: it could come from an object that is not ours.
        """
        if unsafe := [part for part in (namespace, name) if not is_path_segment(part)]:
            raise ClusterError(f"{unsafe[0]!r} cannot name an object of kind {self.kind}: not one segment of a path")
        scope = ("namespaces", quote(namespace)) if namespace else ()
        parts = ("apis" if self.group else "api", self.api_version, *scope, self.plural, quote(name), subresource)
        return "/" + "/".join(filter(None, parts))

    def body(self, **metadata: Any) -> Object:
        return {"apiVersion": self.api_version, "kind": self.kind, "metadata": metadata}

    def owner(self, name: str, uid: str, **fields: bool) -> Object:
        return {"apiVersion": self.api_version, "kind": self.kind, "name": name, "uid": uid, **fields}


EXPERIMENTS = Resource("scalecurve.dev", "v1alpha1", "scalingexperiments", "ScalingExperiment")
TRIALS = Resource("scalecurve.dev", "v1alpha1", "scalingtrials", "ScalingTrial")
PODS = Resource("", "v1", "pods", "Pod")
SERVICES = Resource("", "v1", "services", "Service")
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
EVENTS = Resource("", "v1", "events", "Event")
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
NAMESPACES = Resource("", "v1", "namespaces", "Namespace")
NODES = Resource("", "v1", "nodes", "Node")
QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")
CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
WORKLOADS = tuple(Resource("kueue.x-k8s.io", version, "workloads", "Workload") for version in ("v1beta2", "v1beta1"))
"""Kueue's, newest version first."""
ACCESS_REVIEWS = Resource("authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview")


def resource_of(runner: Runner) -> Resource:
    """The resource of a runner's jobs."""
    kind = runner.job_kind
    return Resource(kind.group, kind.version, kind.plural, runner.value)


def owner_uids(body: Object) -> set[str]:
    """Uids of an object's owners."""
    return {owner["uid"] for owner in body["metadata"].get("ownerReferences") or ()}


_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799


def timestamp(seconds: float) -> str:
    """Unix time as RFC 3339 in UTC, to the second; years have four digits."""
    return datetime.fromtimestamp(min(max(seconds, _FIRST_SECOND), _LAST_SECOND), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def unix_time(text: str) -> float:
    """Unix time of an RFC 3339 timestamp."""
    return datetime.fromisoformat(text).timestamp()
