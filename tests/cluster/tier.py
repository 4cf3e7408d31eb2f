"""One API tier as plain processes: etcd, the control plane, two job operators, kwok. Real components, no containers.

    with Tier() as tier:
        tier.add_nodes(4, gpus=8)
        tier.kubectl("apply", "-f", "experiment.yaml")

Everything lives in one folder, on ports chosen at start, and ends with the process that started it; two tiers at once
do not meet. What a kubelet would do is done by kwok (stages.yaml) and, for pods of trials, by the player (player.py).

    python tests/cluster/tier.py up [--folder F] [--nodes N] [--gpus G]    prints KUBECONFIG, stays until Ctrl-C
"""

from __future__ import annotations

import argparse
import atexit
import base64
import contextlib
import fcntl
import http.client
import importlib.util
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import toolchain
from certificates import Authority, webhook_pair
from components import Component, ComponentError
from ports import Ports
from rest import ApiError, Rest

HERE = Path(__file__).parent
CRDS = HERE.parent.parent / "manifests" / "crds"
OPERATORS = ("mpi", "training")
FAKE = "kwok.x-k8s.io/node"
"""Annotation of nodes that kwok plays."""
WEBHOOK_FILES = Path("/tmp/k8s-webhook-server/serving-certs")
_PREFIX = "scalebench-tier-"
_ALIVE = "alive"
"""A file in the folder, locked for as long as its process lives."""
_READY_S = 120.0  # two cores may have much else to do
_MASTERS = ("system:masters",)
_LOOPBACK = "127.0.0.1"

__all__ = ["ApiError", "ComponentError", "Tier", "lacking"]


def lacking(operators: Sequence[str] = OPERATORS, kwok: bool = True, player: bool = True) -> str | None:
    """Why no tier can start on this machine, in one line; None when one can."""
    absent = [command for command in ("openssl", "setpriv") if not shutil.which(command)]
    if absent:
        return f"the cluster tests need the commands {' and '.join(absent)}"
    names = ["etcd", "k8s", *(f"{name}-operator" for name in operators), *(["kwok"] if kwok else [])]
    if missing := toolchain.missing(names):
        return f"not built: {', '.join(missing)}; `make cluster-tools` builds them in about ten minutes, where Go is"
    if player and importlib.util.find_spec("aiohttp") is None:
        return "the cluster tests need aiohttp, which kopf brings: pip install -e '.[operator]'"
    return None


class Tier:
    """A running API tier. Components are named etcd, apiserver, controller-manager, scheduler, mpi-operator,
    training-operator, kwok, player; flags given for a component follow ours and win.
    """

    def __init__(
        self,
        folder: Path | None = None,
        operators: Sequence[str] = OPERATORS,
        kwok: bool = True,
        player: bool = True,
        flags: Mapping[str, Sequence[str]] | None = None,
        crds: Sequence[Path] = (CRDS,),
        address: str = _LOOPBACK,
    ) -> None:
        """`address`, of this machine, is where the API server is, so that other machines may be let reach it."""
        unknown = [name for name in operators if name not in OPERATORS]
        if unknown:
            raise ValueError(f"operators: {', '.join(unknown)}; allowed are {', '.join(OPERATORS)}")
        self._temporary = folder is None
        self.folder = Path(tempfile.mkdtemp(prefix=_PREFIX)) if folder is None else folder.absolute()
        self.logs = self.folder / "logs"
        self.notes: list[str] = []
        """What this machine did not allow, and what was done instead."""
        self.components: dict[str, Component] = {}
        self._operators, self._kwok, self._player = tuple(operators), kwok, player
        self._flags = {name: list(more) for name, more in (flags or {}).items()}
        self._crds = crds
        self.address = address
        self._ports = Ports()
        self._ending = contextlib.ExitStack()
        self._ending.callback(self._ports.release)
        self._ending.callback(self._kill_all)

    # -- start and stop

    def start(self) -> Self:
        """Bring everything up. Raises ComponentError, with the end of a log, when something does not start."""
        if why := lacking(self._operators, self._kwok, self._player):
            raise ComponentError(why)
        atexit.register(self.stop)
        try:
            self._start()
        except BaseException:
            self.stop(keep=True)
            raise
        return self

    def _start(self) -> None:
        self.logs.mkdir(parents=True, exist_ok=True)
        _remove_left_behind()
        mark = self._ending.enter_context((self.folder / _ALIVE).open("w"))
        fcntl.flock(mark, fcntl.LOCK_EX)
        self.port = self._ports.take()
        self.server = f"https://{self.address}:{self.port}"
        self.kubelet_port = self._ports.take()
        """Where the player serves the logs of pods on fake nodes."""
        with ThreadPoolExecutor(max_workers=4) as pool:
            webhook = pool.submit(self._webhook_files) if "training" in self._operators else None
            self._start_etcd()
            self.authority = Authority(self.folder / "pki")
            self.admin = self.authority.kubeconfig(self.folder / "admin.kubeconfig", self.server, "admin", _MASTERS)
            self.rest = self._ending.enter_context(contextlib.closing(Rest(self.admin)))
            for served in (("apiserver", "kube-apiserver"), ("kubelet", "kubelet")):
                names = f"IP:127.0.0.1,IP:{self.address},IP:10.96.0.1,DNS:localhost,DNS:kubernetes.default.svc"
                self.authority.certificate(served[0], f"/CN={served[1]}", names)
            self.authority.certificate("kubelet-client", "/O=system:masters/CN=apiserver-kubelet-client")
            self._start_apiserver()
            for name, user, groups in (
                ("controller-manager", "system:kube-controller-manager", _MASTERS),
                ("scheduler", "system:kube-scheduler", ()),
            ):
                self.authority.kubeconfig(self.folder / f"{name}.kubeconfig", self.server, user, groups)
            self.components["apiserver"].wait(_READY_S)
            self._install_crds()
            # After the CRDs: the garbage collector looks for new kinds only every 30 s, and until then what a deleted
            # job owned stays.
            self._start_controller_manager()
            self._start_scheduler()
            for namespace in ("mpi-operator", "kubeflow"):
                self.rest.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
            if "mpi" in self._operators:
                self._start_mpi_operator()
            if webhook is not None:
                self._start_training_operator(webhook.result())
            if self._kwok:
                self._start_kwok()
            if self._player:
                self._start_player()
            for component in self.components.values():
                component.wait(_READY_S)

    def stop(self, keep: bool = False) -> None:
        """Kill everything, and remove the folder unless it was named or `keep` is set. May be called again."""
        self._ending.close()
        atexit.unregister(self.stop)
        if self._temporary and not keep:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _kill_all(self) -> None:
        for component in reversed(self.components.values()):
            component.kill()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # -- use

    @property
    def kubeconfig(self) -> Path:
        """Of an administrator."""
        return self.admin

    def kubectl(self, *arguments: str, text: str | None = None, kubeconfig: Path | None = None) -> str:
        """Output of a kubectl command, given `text` on its standard input. Raises CalledProcessError, noting stderr."""
        command = [str(toolchain.binary("kubectl")), f"--kubeconfig={kubeconfig or self.admin}", *arguments]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        if done.returncode:
            error = subprocess.CalledProcessError(done.returncode, command, done.stdout, done.stderr)
            error.add_note(done.stderr.strip())
            raise error
        return done.stdout

    def user(self, name: str, groups: Sequence[str] = ()) -> Path:
        """A kubeconfig whose client certificate says `name`; a service account is system:serviceaccount:NS:NAME."""
        parts = name.split(":")
        if parts[:2] == ["system", "serviceaccount"] and len(parts) == 4:
            groups = [*groups, "system:serviceaccounts", f"system:serviceaccounts:{parts[2]}"]
        path = self.folder / f"user-{'-'.join(part for part in parts if part)}.kubeconfig"
        return self.authority.kubeconfig(path, self.server, name, groups)

    def kill(self, component: str) -> None:
        """Kill one component with SIGKILL and wait until it is gone."""
        self.components[component].kill()

    def restart(self, component: str) -> None:
        """Kill it where it runs, start it on the same port, wait until it is ready.

        With the API server or etcd mpi-operator starts anew, too: it ends when it cannot renew its lease for five
        seconds, and in a cluster its Deployment would see to that.
        """
        self.kill(component)
        if component == "mpi-operator":
            # Its lease would have to run out first: 15 s.
            with contextlib.suppress(ApiError):
                self.rest.raw("DELETE", _MPI_LEASE)
        self.components[component].start()
        self.components[component].wait(_READY_S)
        if component in ("etcd", "apiserver") and "mpi-operator" in self.components:
            self.restart("mpi-operator")

    def namespace(self, name: str) -> str:
        """Make a namespace, and wait until pods may be created in it."""
        self.rest.create("/api/v1/namespaces", {"metadata": {"name": name}})
        account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        wait_until(lambda: self._found(account), f"service account default in {name}")
        return name

    def add_nodes(
        self,
        count: int,
        gpus: int = 8,
        prefix: str = "node",
        labels: Mapping[str, str] | None = None,
        allocatable: Mapping[str, str] | None = None,
    ) -> list[str]:
        """Fake nodes named `prefix`-0 and on, ready for pods; their names."""
        amounts = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": str(gpus), **(allocatable or {})}
        names = [f"{prefix}-{index}" for index in range(count)]
        with ThreadPoolExecutor(max_workers=4) as pool:
            list(pool.map(lambda name: self._add_node(name, amounts, labels or {}), names))
        awaited = set(names)

        def schedulable() -> bool:
            nodes = self.rest.call("GET", "/api/v1/nodes")["items"]
            return awaited <= {node["metadata"]["name"] for node in nodes if not node["spec"].get("taints")}

        wait_until(schedulable, f"{count} schedulable nodes")
        return names

    def _add_node(self, name: str, amounts: Mapping[str, str], labels: Mapping[str, str]) -> None:
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        ready = {"type": "Ready", "status": "True", "reason": "Played", "message": ""}
        node = {
            "metadata": {
                "name": name,
                "labels": {"kubernetes.io/hostname": name, **labels},
                "annotations": {FAKE: "fake"},
            },
            "status": {
                "capacity": amounts,
                "allocatable": amounts,
                "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}, {"type": "Hostname", "address": name}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": self.kubelet_port}},
                "conditions": [{**ready, "lastHeartbeatTime": now, "lastTransitionTime": now}],
            },
        }
        self.rest.create("/api/v1/nodes", node)

    def remove_nodes(self, names: Sequence[str]) -> None:
        """Delete nodes; pods on them are collected by the controller manager."""
        for name in names:
            self.rest.raw("DELETE", f"/api/v1/nodes/{name}")

    # -- components

    def _add(
        self,
        name: str,
        command: Sequence[str | Path],
        ready: Callable[[], bool],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        whole = [*command, *self._flags.get(name, [])]
        component = Component(name, whole, self.logs / f"{name}.log", ready, environment)
        self.components[name] = component
        component.start()

    def _start_etcd(self) -> None:
        client, peer = (f"http://127.0.0.1:{self._ports.take()}" for _ in range(2))
        self._etcd = client
        data = self.folder / "etcd"
        data.mkdir(mode=0o700, exist_ok=True)
        self._add(
            "etcd",
            [
                toolchain.binary("etcd"), "--name=e", f"--data-dir={data}", "--unsafe-no-fsync", "--log-level=warn",
                f"--listen-client-urls={client}", f"--advertise-client-urls={client}", f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=e={peer}",
                "--quota-backend-bytes=4294967296",
            ],
            lambda: _healthy(client, "/health"),
        )  # fmt: skip

    def _start_apiserver(self) -> None:
        pki = self.authority.folder
        self._add(
            "apiserver",
            [
                toolchain.binary("kube-apiserver"), f"--etcd-servers={self._etcd}",
                f"--bind-address={self.address}", f"--secure-port={self.port}", f"--advertise-address={self.address}",
                # A loopback address cannot be an endpoint.
                f"--endpoint-reconciler-type={'none' if self.address == _LOOPBACK else 'lease'}",
                "--service-cluster-ip-range=10.96.0.0/16", f"--client-ca-file={self.authority.crt}",
                f"--tls-cert-file={pki}/apiserver.crt", f"--tls-private-key-file={pki}/apiserver.key",
                "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
                f"--service-account-key-file={pki}/sa.pub", f"--service-account-signing-key-file={pki}/sa.key",
                f"--kubelet-certificate-authority={self.authority.crt}",
                f"--kubelet-client-certificate={pki}/kubelet-client.crt",
                f"--kubelet-client-key={pki}/kubelet-client.key", "--kubelet-preferred-address-types=InternalIP",
                "--authorization-mode=Node,RBAC", "--allow-privileged=true",
                "--enable-priority-and-fairness=false", "--profiling=false",
            ],
            self._apiserver_ready,
        )  # fmt: skip

    def _apiserver_ready(self) -> bool:
        try:
            return self.rest.raw("GET", "/readyz") == b"ok"
        except ApiError:
            return False

    def _install_crds(self) -> None:
        files = [
            file for folder in self._crds for file in (sorted(folder.glob("*.yaml")) if folder.is_dir() else [folder])
        ]
        if "mpi" in self._operators:
            files.append(toolchain.source_file("mpi-operator", "kubeflow.org_mpijobs.yaml"))
        if "training" in self._operators:
            files += [
                toolchain.source_file("training-operator", f"kubeflow.org_{kind}.yaml")
                for kind in ("tfjobs", "pytorchjobs")
            ]
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        for file in files:
            group, _, plural = file.stem.rpartition("_")
            self.rest.apply(f"{path}/{plural}.{group}", file.read_bytes())

        def established() -> bool:
            crds = self.rest.call("GET", path)["items"]
            return len(crds) >= len(files) and all(
                any(
                    each["type"] == "Established" and each["status"] == "True"
                    for each in crd["status"].get("conditions") or []
                )
                for crd in crds
            )

        wait_until(established, "Established of every CRD")

    def _start_controller_manager(self) -> None:
        kubeconfig, pki = self.folder / "controller-manager.kubeconfig", self.authority.folder
        port = self._ports.take()
        self._add(
            "controller-manager",
            [
                toolchain.binary("kube-controller-manager"), f"--kubeconfig={kubeconfig}",
                f"--authentication-kubeconfig={kubeconfig}", f"--authorization-kubeconfig={kubeconfig}",
                f"--service-account-private-key-file={pki}/sa.key", f"--root-ca-file={self.authority.crt}",
                "--leader-elect=false", "--bind-address=127.0.0.1", f"--secure-port={port}",
                # Kept out of the way of what is measured: client limits, and nodes that seem lost on a busy machine.
                "--kube-api-qps=1000", "--kube-api-burst=2000", "--concurrent-job-syncs=20",
                "--node-monitor-grace-period=600s",
            ],
            lambda: _healthy(f"https://127.0.0.1:{port}", "/healthz")
            and self._found("/api/v1/namespaces/default/serviceaccounts/default"),
        )  # fmt: skip

    def _start_scheduler(self) -> None:
        kubeconfig, port = self.folder / "scheduler.kubeconfig", self._ports.take()
        self._add(
            "scheduler",
            [
                toolchain.binary("kube-scheduler"), f"--kubeconfig={kubeconfig}", "--leader-elect=false",
                f"--authentication-kubeconfig={kubeconfig}", f"--authorization-kubeconfig={kubeconfig}",
                "--bind-address=127.0.0.1", f"--secure-port={port}", "--kube-api-qps=1000", "--kube-api-burst=2000",
            ],
            lambda: _healthy(f"https://127.0.0.1:{port}", "/readyz"),
        )  # fmt: skip

    def _start_mpi_operator(self) -> None:
        command: list[str | Path] = [
            toolchain.binary("mpi-operator"), "--lock-namespace=mpi-operator", "--kube-api-qps=1000",
            "--kube-api-burst=2000",
            # A second limiter, 10 pods a second by default: 64 workers would start in 13 s.
            "--controller-queue-rate-limit=1000", "--controller-queue-burst=2000", "--threadiness=8",
        ]  # fmt: skip
        apart: list[str | Path] = [sys.executable, HERE / "own_network.py", f"{self.address}:{self.port}"]
        probe = subprocess.run([*apart, "true"], capture_output=True, check=False)
        kubeconfig = self.admin
        if probe.returncode == 0:
            command = [*apart, *command]
            inside = f"https://{_LOOPBACK}:{self.port}"
            kubeconfig = self.authority.kubeconfig(self.folder / "mpi-operator.kubeconfig", inside, "admin", _MASTERS)
        else:
            self.notes.append("no network namespace is allowed: mpi-operator takes port 8080, one tier at a time")
            lock = self._ending.enter_context((Path(tempfile.gettempdir()) / "scalebench-mpi-operator.lock").open("w"))
            fcntl.flock(lock, fcntl.LOCK_EX)
        self._add("mpi-operator", command, lambda: self._found(_MPI_LEASE), {"KUBECONFIG": str(kubeconfig)})

    def _webhook_files(self) -> dict[str, bytes]:
        folder = self.folder / "webhook" / "k8s-webhook-server" / "serving-certs"
        return webhook_pair(folder, "training-operator.kubeflow.svc", "training-operator-ca")

    def _start_training_operator(self, pair: Mapping[str, bytes]) -> None:
        # The server reads its pair from the folder for temporary files, which TMPDIR names, so each tier has its own.
        # Its certificate rotator only asks whether a file of that name exists below /tmp, which is hard-coded.
        WEBHOOK_FILES.mkdir(parents=True, exist_ok=True)
        (WEBHOOK_FILES / "tls.crt").touch()
        webhook, health = self._ports.take(), self._ports.take()
        encoded = {name: base64.b64encode(content).decode() for name, content in pair.items()}
        secret = {"metadata": {"name": "training-operator-webhook-cert"}, "data": encoded}
        self.rest.create("/api/v1/namespaces/kubeflow/secrets", secret)
        self.rest.create(
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
            {
                "metadata": {"name": "validator.training-operator.kubeflow.org"},
                "webhooks": [
                    _validator(kind, f"https://127.0.0.1:{webhook}", encoded["ca.crt"])
                    for kind in ("tfjob", "pytorchjob")
                ],
            },
        )
        self._add(
            "training-operator",
            [
                toolchain.binary("training-operator"), "--enable-scheme=tfjob", "--enable-scheme=pytorchjob",
                f"--metrics-bind-address=127.0.0.1:{self._ports.take()}",
                f"--health-probe-bind-address=127.0.0.1:{health}", f"--webhook-server-port={webhook}",
                "--kube-api-qps=1000", "--kube-api-burst=2000", "--controller-threads=4", "--zap-log-level=info",
            ],
            lambda: _healthy(f"http://127.0.0.1:{health}", "/readyz") and _listens(webhook),
            {"KUBECONFIG": str(self.admin), "TMPDIR": str(self.folder / "webhook")},
        )  # fmt: skip

    def _start_kwok(self) -> None:
        port = self._ports.take()
        self._add(
            "kwok",
            [
                toolchain.binary("kwok"), f"--kubeconfig={self.admin}", f"--config={HERE / 'stages.yaml'}",
                "--manage-all-nodes=false", f"--manage-nodes-with-annotation-selector={FAKE}=fake",
                "--cidr=10.0.0.1/8", "--node-ip=127.0.0.1", f"--node-port={self.kubelet_port}",
                "--node-lease-duration-seconds=200", f"--server-address=127.0.0.1:{port}",
            ],
            lambda: _healthy(f"http://127.0.0.1:{port}", "/healthz"),
        )  # fmt: skip

    def _start_player(self) -> None:
        command = [sys.executable, HERE / "player.py", self.admin, f"--port={self.kubelet_port}"]
        certificate = self.authority.folder / "kubelet.crt"
        self._add("player", [*command, f"--certificate={certificate}"], lambda: _listens(self.kubelet_port))

    def _found(self, path: str) -> bool:
        try:
            self.rest.raw("GET", path)
        except ApiError:
            return False
        return True


_MPI_LEASE = "/apis/coordination.k8s.io/v1/namespaces/mpi-operator/leases/mpi-operator"


def _remove_left_behind() -> None:
    """Remove the temporary folders of processes that were killed: 100 MB each."""
    for mark in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_ALIVE}"):
        with contextlib.suppress(OSError), mark.open() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(mark.parent, ignore_errors=True)


def wait_until(met: Callable[[], bool], what: str, timeout_s: float = _READY_S) -> None:
    """Return once `met` is true. Raises TimeoutError naming `what`."""
    deadline = time.monotonic() + timeout_s
    while not met():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {timeout_s:g} s for {what}")
        time.sleep(0.02)


def _validator(kind: str, server: str, bundle: str) -> dict[str, Any]:
    return {
        "name": f"validator.{kind}.training-operator.kubeflow.org",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": f"{server}/validate-kubeflow-org-v1-{kind}", "caBundle": bundle},
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "rules": [
            {
                "apiGroups": ["kubeflow.org"],
                "apiVersions": ["v1"],
                "operations": ["CREATE", "UPDATE"],
                "resources": [f"{kind}s"],
            }
        ],
    }


def _healthy(server: str, path: str) -> bool:
    """Whether a GET answers 200; who serves is not asked, for these certificates are made up at start."""
    scheme, _, address = server.partition("://")
    if scheme == "https":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection: http.client.HTTPConnection = http.client.HTTPSConnection(address, timeout=5, context=context)
    else:
        connection = http.client.HTTPConnection(address, timeout=5)
    with contextlib.closing(connection):
        try:
            connection.request("GET", path)
            return connection.getresponse().status == 200
        except http.client.HTTPException:
            return False


def _listens(port: int) -> bool:
    with socket.create_connection(("127.0.0.1", port), timeout=5):
        return True


@contextlib.contextmanager
def _until_interrupted() -> Iterator[None]:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with contextlib.suppress(KeyboardInterrupt):
        yield


def main() -> int:
    parser = argparse.ArgumentParser(description="An API tier on this machine.")
    parser.add_argument("verb", choices=["up"])
    parser.add_argument("--folder", type=Path, help="where its state goes; a temporary folder by default")
    parser.add_argument("--nodes", type=int, default=4, help="fake nodes; default 4")
    parser.add_argument("--gpus", type=int, default=8, help="GPUs of each; default 8")
    chosen = parser.parse_args()
    started = time.monotonic()
    with _until_interrupted():
        try:
            with Tier(chosen.folder) as tier:
                tier.add_nodes(chosen.nodes, chosen.gpus)
                for note in tier.notes:
                    print(note, file=sys.stderr)
                print(f"up in {time.monotonic() - started:.1f} s; Ctrl-C ends it", file=sys.stderr)
                print(f"export KUBECONFIG={tier.kubeconfig}", flush=True)
                signal.pause()
        except ComponentError as error:
            print(error, file=sys.stderr)
            return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
