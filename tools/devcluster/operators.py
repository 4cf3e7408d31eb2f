"""Operators of jobs: mpi-operator and training-operator, and what platforms of today have installed: JobSet, Kubeflow
Trainer v2 on top of it, and Kueue.

Plain processes with an administrator's kubeconfig. Their webhooks are reached at a port of this machine, without a
Service, with a certificate of ours in place of the one that they would make.
"""

import copy
import fcntl
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tools.devcluster import toolchain
from tools.devcluster.certificates import webhook_pair
from tools.devcluster.ground import LOOPBACK, MASTERS, Ground
from tools.devcluster.rest import MERGE
from tools.devcluster.waiting import READY_S, healthy, listens

OPERATORS = MPI, TRAINING = "mpi-operator", "training-operator"
PLATFORM = JOBSET, TRAINER, KUEUE = "jobset", "trainer", "kueue"
MPI_LEASE = "/apis/coordination.k8s.io/v1/namespaces/mpi-operator/leases/mpi-operator"
_OWN_NETWORK = Path(__file__).with_name("own_network.py")
_SERVED = "k8s-webhook-server/serving-certs"
"""controller-runtime's own folder for certificates, below TMPDIR"""
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


def start_mpi_operator(ground: Ground) -> None:
    """In a network namespace of its own where that is allowed, for its port is fixed."""
    command: list[str | Path] = [
        toolchain.binary("mpi-operator"), "--lock-namespace=mpi-operator", "--kube-api-qps=1000",
        "--kube-api-burst=2000",
        # A second limiter, 10 pods a second by default: 64 workers would start in 13 s.
        "--controller-queue-rate-limit=1000", "--controller-queue-burst=2000", "--threadiness=8",
    ]  # fmt: skip
    apart: list[str | Path] = [sys.executable, _OWN_NETWORK, f"{ground.address}:{ground.port}"]
    probe = subprocess.run([*apart, "true"], capture_output=True, check=False)
    kubeconfig = ground.kubeconfig
    if probe.returncode == 0:
        command = [*apart, *command]
        inside = f"https://{LOOPBACK}:{ground.port}"
        kubeconfig = ground.authority.kubeconfig(ground.folder / "mpi-operator.kubeconfig", inside, "admin", MASTERS)
    else:
        ground.notes.append("no network namespace is allowed: mpi-operator takes port 8080, one tier at a time")
        lock = ground.ending.enter_context((Path(tempfile.gettempdir()) / "scalecurve-mpi-operator.lock").open("w"))
        fcntl.flock(lock, fcntl.LOCK_EX)
    ground.rest.create("/api/v1/namespaces", {"metadata": {"name": "mpi-operator"}})
    ground.add("mpi-operator", command, lambda: ground.found(MPI_LEASE), {"KUBECONFIG": str(kubeconfig)})


def start_training(ground: Ground) -> None:
    """Its certificate rotator only asks whether a file of that name exists below /tmp, which is hard-coded."""
    for_the_rotator = Path("/tmp") / _SERVED / "tls.crt"
    for_the_rotator.parent.mkdir(parents=True, exist_ok=True)
    for_the_rotator.touch()
    training = _Operator(ground, TRAINING, "training-operator.kubeflow.svc", _SERVED)
    training.keep_pair("kubeflow", "training-operator-webhook-cert")
    rule = {"apiGroups": ["kubeflow.org"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"]}
    webhooks = [
        {
            "name": f"validator.{kind}.training-operator.kubeflow.org",
            "admissionReviewVersions": ["v1"],
            "clientConfig": training.client(f"/validate-kubeflow-org-v1-{kind}"),
            "sideEffects": "None",
            "rules": [rule | {"resources": [f"{kind}s"]}],
        }
        for kind in ("tfjob", "pytorchjob")
    ]
    body = {"metadata": {"name": "validator.training-operator.kubeflow.org"}, "webhooks": webhooks}
    ground.rest.create("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", body)
    training.start(
        TRAINING,
        [
            "--enable-scheme=tfjob", "--enable-scheme=pytorchjob", "--controller-threads=4", "--zap-log-level=info",
            "--kube-api-qps=1000", "--kube-api-burst=2000", f"--webhook-server-port={training.hook}",
            f"--metrics-bind-address={training.metrics}", f"--health-probe-bind-address={training.health}",
        ],
    )  # fmt: skip


def start_jobset(ground: Ground) -> None:
    """Ready once its webhook listens; it sees pods of JobSets only, as its own installation has it."""

    def select_jobset_pods(webhook: Object) -> Object:
        pods = webhook["rules"][0]["resources"] == ["pods"]
        return webhook | ({"objectSelector": _OF_A_JOBSET} if pods else {})

    jobset = _Operator(ground, JOBSET, "jobset-webhook-service.jobset-system.svc")
    jobset.register(select_jobset_pods)
    configuration = {
        "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
        "internalCertManagement": {"enable": False},
        "webhook": {"certDir": str(jobset.certificates)},
    }
    jobset.start(JOBSET, [jobset.configured(configuration), f"--kubeconfig={ground.kubeconfig}"])


def start_trainer(ground: Ground) -> None:
    """It makes JobSets, so JobSet's webhook has to be there."""
    ground.components[JOBSET].wait(READY_S)
    trainer = _Operator(ground, TRAINER, "kubeflow-trainer-controller-manager.kubeflow-system.svc", _SERVED)
    trainer.register()
    configuration = {
        "apiVersion": "config.trainer.kubeflow.org/v1alpha1",
        "certManagement": {"enable": False},
        "metrics": {"secureServing": False},
    }
    trainer.start("trainer-controller-manager", [trainer.configured(configuration)])
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
    kueue.keep_pair("kueue-system", "kueue-webhook-server-cert")
    client = kueue.client("/convert")
    conversion = {"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]}}
    for plural in _CONVERTED:
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{plural}.kueue.x-k8s.io"
        ground.rest.call("PATCH", path, {"spec": {"conversion": conversion}}, MERGE)

    def select_queued_kinds(webhook: Object) -> Object | None:
        (resource, *_) = webhook["rules"][0]["resources"]
        if resource in _OF_KUEUE:
            return webhook
        return webhook | {"namespaceSelector": _NOT_OF_THE_SYSTEM} if resource in queued.values() else None

    kueue.register(select_queued_kinds)
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
    kueue.start(KUEUE, [kueue.configured(configuration), "--feature-gates=VisibilityOnDemand=false"])


class _Operator:
    """One with a webhook: its folder, its certificate, and its ports."""

    def __init__(self, ground: Ground, name: str, service: str, certificates: str = "") -> None:
        self._ground, self._name, self._folder = ground, name, ground.folder / name
        self.certificates = self._folder / certificates
        self._pair = webhook_pair(self.certificates, service, f"{name}-ca")
        self.hook = ground.ports.take()
        self.metrics, self.health = (f"127.0.0.1:{ground.ports.take()}" for _ in range(2))

    def client(self, path: str) -> Object:
        """How the API server reaches a path of its webhook."""
        return {"url": f"https://127.0.0.1:{self.hook}{path}", "caBundle": self._pair["ca.crt"]}

    def keep_pair(self, namespace: str, name: str) -> None:
        """Put its certificate into a Secret of a namespace of its own."""
        self._ground.rest.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        secret = {"metadata": {"name": name}, "data": self._pair}
        self._ground.rest.create(f"/api/v1/namespaces/{namespace}/secrets", secret)

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

    def configured(self, configuration: Mapping[str, Any]) -> str:
        """The flag that names its configuration, of what all have in common and what is given."""
        common: Object = {
            "kind": "Configuration",
            "leaderElection": {"leaderElect": False},
            "webhook": {"port": self.hook},
            "metrics": {"bindAddress": self.metrics},
            "health": {"healthProbeBindAddress": self.health},
            "clientConnection": {"qps": 1000, "burst": 2000},
        }
        merged = {**common, **configuration}
        for key in ("webhook", "metrics"):
            merged[key] = {**common[key], **configuration.get(key, {})}
        written = self._folder / "config.yaml"
        written.write_text(yaml.safe_dump(merged))
        return f"--config={written}"

    def start(self, binary: str, flags: Sequence[str]) -> None:
        """Start it; ready once its webhook listens."""
        self._ground.add(
            self._name,
            [toolchain.binary(binary), *flags],
            lambda: healthy(f"http://{self.health}", "/readyz") and listens(self.hook),
            {"KUBECONFIG": str(self._ground.kubeconfig), "TMPDIR": str(self._folder)},
        )


def _documents(file: Path) -> list[Object]:
    return [document for document in yaml.safe_load_all(file.read_text()) if document]


STARTERS = {
    MPI: start_mpi_operator,
    TRAINING: start_training,
    JOBSET: start_jobset,
    TRAINER: start_trainer,
    KUEUE: start_kueue,
}
"""In this order, for some need another."""
