"""Where the API server keeps each kind of object that ScaleCurve reads or writes."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from scalecurve_api.spec.job_kinds import Runner

Object = dict[str, Any]


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
        """URL path of an object or, without ``name``, of the collection; without ``namespace``, cluster-wide."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        scope = f"/namespaces/{quote(namespace)}" if namespace else ""
        return "/".join(
            [root + scope, self.plural, *([quote(name)] if name else []), *([subresource] if subresource else [])]
        )

    def body(self, **metadata: Any) -> Object:
        """A new object of this kind with this metadata."""
        return {"apiVersion": self.api_version, "kind": self.kind, "metadata": metadata}

    def owner(self, name: str, uid: str, **fields: bool) -> Object:
        """An owner reference to an object of this kind."""
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
ACCESS_REVIEWS = Resource("authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview")


def resource_of(runner: Runner) -> Resource:
    """The resource of a runner's jobs."""
    kind = runner.job_kind
    return Resource(kind.group, kind.version, kind.plural, runner.value)


def owner_uids(body: Object) -> set[str]:
    """Uids of an object's owners."""
    return {owner["uid"] for owner in body["metadata"].get("ownerReferences") or ()}


def timestamp(seconds: float) -> str:
    """Unix time as RFC 3339 in UTC, to the second."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def unix_time(text: str) -> float:
    """Unix time of an RFC 3339 timestamp."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
