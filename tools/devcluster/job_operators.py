"""The two job operators of kubeflow.org: mpi-operator, and training-operator with its webhook."""

import fcntl
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tools.devcluster import toolchain
from tools.devcluster.certificates import webhook_pair
from tools.devcluster.ground import LOOPBACK, MASTERS, Ground
from tools.devcluster.waiting import healthy, listens

OPERATORS = ("mpi", "training")
MPI_LEASE = "/apis/coordination.k8s.io/v1/namespaces/mpi-operator/leases/mpi-operator"
WEBHOOK_FILES = Path("/tmp/k8s-webhook-server/serving-certs")
_OWN_NETWORK = Path(__file__).with_name("own_network.py")


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


def start_training_operator(ground: Ground) -> None:
    """Its webhook is reached at a port, without a Service.

    The server reads its pair from the folder for temporary files, which TMPDIR names, so each tier has its own. Its
    certificate rotator only asks whether a file of that name exists below /tmp, which is hard-coded.
    """
    WEBHOOK_FILES.mkdir(parents=True, exist_ok=True)
    (WEBHOOK_FILES / "tls.crt").touch()
    webhook, health = ground.ports.take(), ground.ports.take()
    temporary = ground.folder / "webhook"
    served = temporary / "k8s-webhook-server" / "serving-certs"
    pair = webhook_pair(served, "training-operator.kubeflow.svc", "training-operator-ca")
    ground.rest.create("/api/v1/namespaces", {"metadata": {"name": "kubeflow"}})
    secret = {"metadata": {"name": "training-operator-webhook-cert"}, "data": pair}
    ground.rest.create("/api/v1/namespaces/kubeflow/secrets", secret)
    server = f"https://127.0.0.1:{webhook}"
    ground.rest.create(
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
        {
            "metadata": {"name": "validator.training-operator.kubeflow.org"},
            "webhooks": [_validator(kind, server, pair["ca.crt"]) for kind in ("tfjob", "pytorchjob")],
        },
    )
    ground.add(
        "training-operator",
        [
            toolchain.binary("training-operator"), "--enable-scheme=tfjob", "--enable-scheme=pytorchjob",
            f"--metrics-bind-address=127.0.0.1:{ground.ports.take()}",
            f"--health-probe-bind-address=127.0.0.1:{health}", f"--webhook-server-port={webhook}",
            "--kube-api-qps=1000", "--kube-api-burst=2000", "--controller-threads=4", "--zap-log-level=info",
        ],
        lambda: healthy(f"http://127.0.0.1:{health}", "/readyz") and listens(webhook),
        {"KUBECONFIG": str(ground.kubeconfig), "TMPDIR": str(temporary)},
    )  # fmt: skip


def _validator(kind: str, server: str, bundle: str) -> dict[str, Any]:
    rule = {"apiGroups": ["kubeflow.org"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"]}
    return {
        "name": f"validator.{kind}.training-operator.kubeflow.org",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": f"{server}/validate-kubeflow-org-v1-{kind}", "caBundle": bundle},
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "rules": [rule | {"resources": [f"{kind}s"]}],
    }
