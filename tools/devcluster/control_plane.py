"""etcd, the API server with its CRDs, the controller manager and the scheduler."""

from collections.abc import Sequence
from pathlib import Path

from tools.devcluster import toolchain
from tools.devcluster.ground import LOOPBACK, MASTERS, Ground
from tools.devcluster.rest import ApiError
from tools.devcluster.waiting import healthy, wait_until

_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def start_etcd(ground: Ground) -> None:
    """Without fsync: no test outlives its machine."""
    client, peer = (f"http://127.0.0.1:{ground.ports.take()}" for _ in range(2))
    ground.etcd = client
    data = ground.folder / "etcd"
    data.mkdir(mode=0o700, exist_ok=True)
    ground.add(
        "etcd",
        [
            toolchain.binary("etcd"), "--name=e", f"--data-dir={data}", "--unsafe-no-fsync", "--log-level=warn",
            f"--listen-client-urls={client}", f"--advertise-client-urls={client}", f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=e={peer}",
            "--quota-backend-bytes=4294967296",
        ],
        lambda: healthy(client, "/health"),
    )  # fmt: skip


def start_apiserver(ground: Ground) -> None:
    """Ready once its own health check says so."""
    pki = ground.authority.folder

    def ready() -> bool:
        try:
            return ground.rest.raw("GET", "/readyz") == b"ok"
        except ApiError:
            return False

    ground.add(
        "apiserver",
        [
            toolchain.binary("kube-apiserver"), f"--etcd-servers={ground.etcd}",
            f"--bind-address={ground.address}", f"--secure-port={ground.port}",
            f"--advertise-address={ground.address}",
            # A loopback address cannot be an endpoint.
            f"--endpoint-reconciler-type={'none' if ground.address == LOOPBACK else 'lease'}",
            "--service-cluster-ip-range=10.96.0.0/16", f"--client-ca-file={ground.authority.crt}",
            f"--tls-cert-file={pki}/apiserver.crt", f"--tls-private-key-file={pki}/apiserver.key",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--service-account-key-file={pki}/sa.pub", f"--service-account-signing-key-file={pki}/sa.key",
            f"--kubelet-certificate-authority={ground.authority.crt}",
            f"--kubelet-client-certificate={pki}/kubelet-client.crt",
            f"--kubelet-client-key={pki}/kubelet-client.key", "--kubelet-preferred-address-types=InternalIP",
            "--authorization-mode=Node,RBAC", "--allow-privileged=true",
            "--enable-priority-and-fairness=false", "--profiling=false",
        ],
        ready,
    )  # fmt: skip


def install_crds(ground: Ground, crds: Sequence[Path]) -> None:
    """Install those of files and folders, and wait until they are established."""
    files = [file for each in crds for file in (sorted(each.glob("*.yaml")) if each.is_dir() else [each])]
    for file in files:
        group, _, plural = file.stem.rpartition("_")
        ground.rest.apply(f"{_CRDS}/{plural}.{group}", file.read_bytes())

    def is_established() -> bool:
        conditions = [crd["status"].get("conditions") or [] for crd in ground.rest.call("GET", _CRDS)["items"]]
        met = [any(each["type"] == "Established" and each["status"] == "True" for each in of) for of in conditions]
        return len(met) >= len(files) and all(met)

    wait_until(is_established, "Established of every CRD")


def start_controller_manager(ground: Ground) -> None:
    """Start it after the CRDs: its garbage collector looks for new kinds only every 30 s, and until then what a deleted
    job owned stays. Ready once a namespace has its service account.
    """
    pki = ground.authority.folder
    _start_client(
        ground,
        "controller-manager",
        MASTERS,
        [
            f"--service-account-private-key-file={pki}/sa.key", f"--root-ca-file={ground.authority.crt}",
            # Nodes must not seem lost on a busy machine.
            "--concurrent-job-syncs=20", "--node-monitor-grace-period=24h",
        ],
        "/healthz",
        "/api/v1/namespaces/default/serviceaccounts/default",
    )  # fmt: skip


def start_scheduler(ground: Ground) -> None:
    """Kubernetes' own."""
    _start_client(ground, "scheduler", (), [], "/readyz", "/api")


def _start_client(
    ground: Ground, name: str, groups: Sequence[str], flags: Sequence[str], health: str, sign: str
) -> None:
    """A client of the API server's, without its usual limits; ready once healthy, and once the server has `sign`."""
    port = ground.ports.take()
    kubeconfig = ground.folder / f"{name}.kubeconfig"
    ground.authority.kubeconfig(kubeconfig, ground.server, f"system:kube-{name}", groups)
    ground.add(
        name,
        [
            toolchain.binary(f"kube-{name}"), f"--kubeconfig={kubeconfig}", "--leader-elect=false",
            f"--authentication-kubeconfig={kubeconfig}", f"--authorization-kubeconfig={kubeconfig}",
            "--bind-address=127.0.0.1", f"--secure-port={port}", "--kube-api-qps=1000", "--kube-api-burst=2000", *flags,
        ],
        lambda: healthy(f"https://127.0.0.1:{port}", health) and ground.found(sign),
    )  # fmt: skip
