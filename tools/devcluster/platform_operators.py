"""What platforms of today have installed: JobSet, Kubeflow Trainer v2 on top of it, and Kueue.

Plain processes with an administrator's kubeconfig. Their webhooks are reached at a port of this machine, without a
Service, with a certificate of ours in place of the one that they would make.
"""

import base64
import copy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from tools.devcluster import toolchain
from tools.devcluster.certificates import webhook_pair
from tools.devcluster.ground import Ground
from tools.devcluster.waiting import READY_S, healthy, listens

JOBSET, TRAINER, KUEUE = "jobset", "trainer", "kueue"
NAMES = (JOBSET, TRAINER, KUEUE)
CRDS = {
    JOBSET: ("jobset.x-k8s.io_jobsets.yaml",),
    TRAINER: tuple(
        f"trainer.kubeflow.org_{plural}.yaml" for plural in ("clustertrainingruntimes", "trainingruntimes", "trainjobs")
    ),
    KUEUE: tuple(f"kueue.x-k8s.io_{plural}.yaml" for plural in toolchain.KUEUE_KINDS),
}
_OF_A_JOBSET = {"matchExpressions": [{"key": "jobset.sigs.k8s.io/jobset-name", "operator": "Exists"}]}
_CONVERTED = ("localqueues", "clusterqueues", "cohorts", "workloads", "multikueueclusters")
"""Kinds of Kueue's with a conversion webhook"""
_QUEUED = {"batch/job": "jobs", "jobset.x-k8s.io/jobset": "jobsets", "trainer.kubeflow.org/trainjob": "trainjobs"}
_OF_KUEUE = ("clusterqueues", "cohorts", "resourceflavors", "workloads")
_NOT_OF_THE_SYSTEM = {
    "matchExpressions": [
        {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", "kueue-system"]}
    ]
}
_RUNTIMES = "/apis/trainer.kubeflow.org/v1alpha1/clustertrainingruntimes"


def start_jobset(ground: Ground) -> None:
    """Ready once its webhook listens; it sees pods of JobSets only, as its own installation has it."""
    folder = ground.folder / JOBSET
    pair = _pair(folder, "jobset-webhook-service.jobset-system.svc", "jobset-ca")
    hook, metrics, health = (ground.ports.take() for _ in range(3))

    def changed(webhook: dict[str, Any]) -> dict[str, Any]:
        pods = webhook["rules"][0]["resources"] == ["pods"]
        return webhook | ({"objectSelector": _OF_A_JOBSET} if pods else {})

    _register(ground, JOBSET, hook, pair["ca.crt"], changed)
    configuration = {
        "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "webhook": {"port": hook, "certDir": str(folder)},
        "metrics": {"bindAddress": f"127.0.0.1:{metrics}"},
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
        "clientConnection": {"qps": 1000, "burst": 2000},
    }
    ground.add(
        JOBSET,
        [toolchain.binary("jobset"), f"--kubeconfig={ground.admin}", f"--config={_written(folder, configuration)}"],
        lambda: healthy(f"http://127.0.0.1:{health}", "/readyz") and listens(hook),
    )


def start_trainer(ground: Ground) -> None:
    """It makes JobSets, so JobSet's webhook has to be there."""
    ground.components[JOBSET].wait(READY_S)
    folder = ground.folder / TRAINER
    # controller-runtime's own folder, below TMPDIR: there is no setting for it.
    served = folder / "k8s-webhook-server" / "serving-certs"
    pair = _pair(served, "kubeflow-trainer-controller-manager.kubeflow-system.svc", "trainer-ca")
    hook, metrics, health = (ground.ports.take() for _ in range(3))
    _register(ground, TRAINER, hook, pair["ca.crt"])
    configuration = {
        "apiVersion": "config.trainer.kubeflow.org/v1alpha1",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "certManagement": {"enable": False},
        "webhook": {"port": hook},
        "metrics": {"bindAddress": f"127.0.0.1:{metrics}", "secureServing": False},
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
        "clientConnection": {"qps": 1000, "burst": 2000},
    }
    ground.add(
        TRAINER,
        [toolchain.binary("trainer-controller-manager"), f"--config={_written(folder, configuration)}"],
        lambda: healthy(f"http://127.0.0.1:{health}", "/readyz") and listens(hook),
        {"KUBECONFIG": str(ground.admin), "TMPDIR": str(folder)},
    )
    # Its webhook checks them.
    ground.components[TRAINER].wait(READY_S)
    for runtime in _documents(toolchain.source_file(TRAINER, "torch_distributed.yaml")):
        ground.rest.create(_RUNTIMES, runtime)


def start_kueue(ground: Ground) -> None:
    """It manages Jobs, JobSets and, where Trainer runs, TrainJobs, and starts once their webhooks listen.

    Its rotator keeps a certificate that is in its Secret already and has the Service's name.
    """
    ground.components[JOBSET].wait(READY_S)
    trained = TRAINER in ground.components
    if trained:
        ground.components[TRAINER].wait(READY_S)
    queued = {name: plural for name, plural in _QUEUED.items() if trained or plural != "trainjobs"}
    folder = ground.folder / KUEUE
    pair = _pair(folder, "kueue-webhook-service.kueue-system.svc", "kueue-ca")
    ground.rest.create("/api/v1/namespaces", {"metadata": {"name": "kueue-system"}})
    secret = {"metadata": {"name": "kueue-webhook-server-cert"}, "data": pair}
    ground.rest.create("/api/v1/namespaces/kueue-system/secrets", secret)
    hook, metrics, health = (ground.ports.take() for _ in range(3))
    client = {"url": f"https://127.0.0.1:{hook}/convert", "caBundle": pair["ca.crt"]}
    conversion = {"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]}}
    for plural in _CONVERTED:
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{plural}.kueue.x-k8s.io"
        ground.rest.call("PATCH", path, {"spec": {"conversion": conversion}}, "application/merge-patch+json")

    def changed(webhook: dict[str, Any]) -> dict[str, Any] | None:
        (resource, *_) = webhook["rules"][0]["resources"]
        if resource in _OF_KUEUE:
            return webhook
        return webhook | {"namespaceSelector": _NOT_OF_THE_SYSTEM} if resource in queued.values() else None

    _register(ground, KUEUE, hook, pair["ca.crt"], changed)
    configuration = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": "kueue-system",
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {
            "enable": True,
            "webhookServiceName": "kueue-webhook-service",
            "webhookSecretName": "kueue-webhook-server-cert",
        },
        "webhook": {"port": hook, "certDir": str(folder)},
        "metrics": {"bindAddress": f"127.0.0.1:{metrics}"},
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
        "clientConnection": {"qps": 1000, "burst": 2000},
        "integrations": {"frameworks": list(queued)},
    }
    ground.add(
        KUEUE,
        [
            toolchain.binary("kueue"),
            f"--config={_written(folder, configuration)}",
            # An aggregated API of its own on a fixed port.
            "--feature-gates=VisibilityOnDemand=false",
        ],
        lambda: healthy(f"http://127.0.0.1:{health}", "/readyz") and listens(hook),
        {"KUBECONFIG": str(ground.admin)},
    )


def _pair(folder: Path, name: str, authority: str) -> dict[str, str]:
    """Files of a webhook's certificate in `folder`, in base64."""
    return {file: base64.b64encode(data).decode() for file, data in webhook_pair(folder, name, authority).items()}


def _register(
    ground: Ground,
    upstream: str,
    port: int,
    bundle: str,
    changed: Callable[[dict[str, Any]], dict[str, Any] | None] = lambda webhook: webhook,
) -> None:
    """Make an upstream's webhook configurations, which then reach `port`; those that `changed` drops are left out."""
    for document in _documents(toolchain.source_file(upstream, "manifests.yaml")):
        kind = document["kind"]
        name = f"{upstream}-{'mutating' if kind.startswith('Mutating') else 'validating'}-webhook-configuration"
        webhooks = []
        for source in document["webhooks"]:
            webhook = changed(copy.deepcopy(source))
            if webhook is not None:
                url = f"https://127.0.0.1:{port}{webhook['clientConfig']['service']['path']}"
                webhooks.append(webhook | {"clientConfig": {"url": url, "caBundle": bundle}})
        body = document | {"metadata": {"name": name}, "webhooks": webhooks}
        ground.rest.create(f"/apis/admissionregistration.k8s.io/v1/{kind.lower()}s", body)


def _documents(file: Path) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all(file.read_text()) if document]


def _written(folder: Path, configuration: Mapping[str, Any]) -> Path:
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(dict(configuration)))
    return path
