"""The job of an attempt: what is asked of its runner, where it is kept, who owns it, how it is found."""

from __future__ import annotations

from scalecurve_api.spec.object_names import labels
from scalecurve_kube.client import Object, Resource
from scalecurve_operator.cache.object_cache import JobSeen, Key
from scalecurve_operator.cache.trial_index import Ledger
from scalecurve_operator.runners import Request, RunnerKind
from scalecurve_operator.settings import Settings


def resource_of(runner: RunnerKind) -> Resource:
    """Where the API server keeps this kind of job."""
    return Resource(runner.group, runner.version, runner.plural, runner.kind)


def request_of(settings: Settings, key: Key, ledger: Ledger, name: str, attempt: int) -> Request:
    """What a runner needs to know of an attempt of the trial ``name``."""
    trial = ledger.trial(name)
    return Request(
        experiment=key.name,
        namespace=key.namespace,
        spec=ledger.spec,
        trial=trial,
        trial_object=name,
        attempt=attempt,
        images=settings.images,
        record_bytes=settings.record_bytes,
        nodes=tuple(ledger.nodes.get(trial.point.series, ())),
        metrics_port=settings.worker_metrics_port,
        linger_seconds=settings.linger_seconds,
    )


def owner_reference(resource: Resource, name: str, uid: str) -> Object:
    """Ties an object to its owner, without whose deletion waiting for it: OpenShift asks for further rights then."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": name,
        "uid": uid,
        "blockOwnerDeletion": False,
    }


def owners(body: Object) -> set[str]:
    """Uids of an object's owners."""
    return {owner["uid"] for owner in body["metadata"].get("ownerReferences") or ()}


def labelled(key: Key, job: JobSeen, trial: str) -> Object:
    """A remembered job with the labels by which it is found."""
    return {"metadata": {**job.body["metadata"], "labels": labels(key.name, trial, job.attempt)}}


def selector(request: Request) -> str:
    """Finds the pods of an attempt."""
    return ",".join(f"{name}={value}" for name, value in request.labels.items() if name.startswith("scalecurve.dev/"))
