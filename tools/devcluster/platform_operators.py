"""What platforms of today have installed: JobSet, Kubeflow Trainer v2 on top of it, and Kueue.

Plain processes with an administrator's kubeconfig. Their webhooks are reached at a port of this machine, without a
Service, with a certificate of ours in place of the one that they would make.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tools.devcluster import toolchain
from tools.devcluster.certificates import webhook_pair
from tools.devcluster.ground import Ground
from tools.devcluster.rest import MERGE
from tools.devcluster.waiting import READY_S, healthy, listens

JOBSET, TRAINER, KUEUE = "jobset", "trainer", "kueue"
NAMES = (JOBSET, TRAINER, KUEUE)
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

Object = dict[str, Any]


def start_jobset(ground: Ground) -> None:
    """Ready once its webhook listens; it sees pods of JobSets only, as its own installation has it."""

    def changed(webhook: Object) -> Object:
        pods = webhook["rules"][0]["resources"] == ["pods"]
        return webhook | ({"objectSelector": _OF_A_JOBSET} if pods else {})

    jobset = _Operator(ground, JOBSET, "jobset-webhook-service.jobset-system.svc")
    jobset.register(changed)
    configuration = {
        "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
        "internalCertManagement": {"enable": False},
        "webhook": {"certDir": str(jobset.certificates)},
    }
    jobset.start(JOBSET, configuration, [f"--kubeconfig={ground.kubeconfig}"])


def start_trainer(ground: Ground) -> None:
    """It makes JobSets, so JobSet's webhook has to be there."""
    ground.components[JOBSET].wait(READY_S)
    # controller-runtime's own folder, below TMPDIR: there is no setting for it.
    trainer = _Operator(
        ground, TRAINER, "kubeflow-trainer-controller-manager.kubeflow-system.svc", "k8s-webhook-server/serving-certs"
    )
    trainer.register()
    configuration = {
        "apiVersion": "config.trainer.kubeflow.org/v1alpha1",
        "certManagement": {"enable": False},
        "metrics": {"secureServing": False},
    }
    trainer.start("trainer-controller-manager", configuration)
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
    queued = {name: plural for name, plural in _QUEUED.items() if trained or plural != "trainjobs"}
    kueue = _Operator(ground, KUEUE, "kueue-webhook-service.kueue-system.svc")
    ground.rest.create("/api/v1/namespaces", {"metadata": {"name": "kueue-system"}})
    secret = {"metadata": {"name": "kueue-webhook-server-cert"}, "data": kueue.pair}
    ground.rest.create("/api/v1/namespaces/kueue-system/secrets", secret)
    client = kueue.client("/convert")
    conversion = {"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]}}
    for plural in _CONVERTED:
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{plural}.kueue.x-k8s.io"
        ground.rest.call("PATCH", path, {"spec": {"conversion": conversion}}, MERGE)

    def changed(webhook: Object) -> Object | None:
        (resource, *_) = webhook["rules"][0]["resources"]
        if resource in _OF_KUEUE:
            return webhook
        return webhook | {"namespaceSelector": _NOT_OF_THE_SYSTEM} if resource in queued.values() else None

    kueue.register(changed)
    configuration = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "namespace": "kueue-system",
        "internalCertManagement": {
            "enable": True,
            "webhookServiceName": "kueue-webhook-service",
            "webhookSecretName": "kueue-webhook-server-cert",
        },
        "webhook": {"certDir": str(kueue.certificates)},
        "integrations": {"frameworks": list(queued)},
    }
    # An aggregated API of its own would be on a fixed port.
    kueue.start(KUEUE, configuration, ["--feature-gates=VisibilityOnDemand=false"])


class _Operator:
    """One of them: its folder, the certificate of its webhook in base64, and its ports."""

    def __init__(self, ground: Ground, name: str, service: str, certificates: str = "") -> None:
        self._ground, self._name, self._folder = ground, name, ground.folder / name
        self.certificates = self._folder / certificates
        self.pair = webhook_pair(self.certificates, service, f"{name}-ca")
        self._hook, self._metrics, self._health = (ground.ports.take() for _ in range(3))

    def client(self, path: str) -> Object:
        """How the API server reaches a path of its webhook."""
        return {"url": f"https://127.0.0.1:{self._hook}{path}", "caBundle": self.pair["ca.crt"]}

    def register(self, changed: Callable[[Object], Object | None] = lambda webhook: webhook) -> None:
        """Make its webhook configurations; those that `changed` drops are left out."""
        for document in _documents(toolchain.source_file(self._name, "manifests.yaml")):
            kind = document["kind"]
            name = f"{self._name}-{'mutating' if kind.startswith('Mutating') else 'validating'}-webhook-configuration"
            webhooks = [
                webhook | {"clientConfig": self.client(source["clientConfig"]["service"]["path"])}
                for source in document["webhooks"]
                if (webhook := changed(copy.deepcopy(source))) is not None
            ]
            body = document | {"metadata": {"name": name}, "webhooks": webhooks}
            self._ground.rest.create(f"/apis/admissionregistration.k8s.io/v1/{kind.lower()}s", body)

    def start(self, binary: str, configuration: Mapping[str, Any], flags: Sequence[str] = ()) -> None:
        """Start it; ready once its webhook listens."""
        common: Object = {
            "kind": "Configuration",
            "leaderElection": {"leaderElect": False},
            "webhook": {"port": self._hook},
            "metrics": {"bindAddress": f"127.0.0.1:{self._metrics}"},
            "health": {"healthProbeBindAddress": f"127.0.0.1:{self._health}"},
            "clientConnection": {"qps": 1000, "burst": 2000},
        }
        merged = {**common, **configuration}
        for key in ("webhook", "metrics"):
            merged[key] = {**common[key], **configuration.get(key, {})}
        written = self._folder / "config.yaml"
        written.write_text(yaml.safe_dump(merged))
        self._ground.add(
            self._name,
            [toolchain.binary(binary), f"--config={written}", *flags],
            lambda: healthy(f"http://127.0.0.1:{self._health}", "/readyz") and listens(self._hook),
            {"KUBECONFIG": str(self._ground.kubeconfig), "TMPDIR": str(self._folder)},
        )


def _documents(file: Path) -> list[Object]:
    return [document for document in yaml.safe_load_all(file.read_text()) if document]
