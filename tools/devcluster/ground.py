"""What the components of one tier stand on: a folder, ports, certificates, and the API server's address."""

import contextlib
import fcntl
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tools.devcluster import toolchain
from tools.devcluster.certificates import Authority
from tools.devcluster.components import Component
from tools.devcluster.ports import Ports
from tools.devcluster.rest import Rest, RunningCluster

LOOPBACK = "127.0.0.1"
MASTERS = ("system:masters",)
PREFIX = "scalecurve-tier-"
"""Of the names of temporary folders."""
_ALIVE = "alive"
"""A file in the folder, locked for as long as its process lives."""


class Ground(RunningCluster):
    """Gives components their place, and takes everything back when `ending` is closed.

    Flags given for a component follow ours and win.
    """

    port: int
    """Of the API server."""
    server: str
    kubelet_port: int
    """Where the player serves the logs of pods on fake nodes."""
    etcd: str
    """Where etcd serves its clients."""
    authority: Authority

    def __init__(self, folder: Path, address: str, flags: Mapping[str, Sequence[str]]) -> None:
        self.folder, self.logs = folder, folder / "logs"
        self.address, self.program = address, toolchain.binary("kubectl")
        self.kubeconfig = folder / "admin.kubeconfig"
        self.notes: list[str] = []
        """What this machine did not allow, and what was done instead."""
        self.components: dict[str, Component] = {}
        self.ports = Ports()
        self.ending = contextlib.ExitStack()
        self.ending.callback(self.ports.release)
        self.ending.callback(self._kill_all)
        self._flags = {name: list(more) for name, more in flags.items()}

    def occupy(self) -> None:
        """Mark the folder as in use, for as long as this process lives, and choose ports."""
        self.logs.mkdir(parents=True, exist_ok=True)
        _remove_left_behind()
        mark = self.ending.enter_context((self.folder / _ALIVE).open("w"))
        fcntl.flock(mark, fcntl.LOCK_EX)
        self.port = self.ports.take()
        self.server = f"https://{self.address}:{self.port}"
        self.kubelet_port = self.ports.take()

    def certify(self) -> None:
        """Make certificates for those who serve, and for an administrator."""
        self.authority = Authority(self.folder / "pki")
        self.authority.kubeconfig(self.kubeconfig, self.server, "admin", MASTERS)
        self.rest = self.ending.enter_context(contextlib.closing(Rest(self.kubeconfig)))
        names = f"IP:127.0.0.1,IP:{self.address},IP:10.96.0.1,DNS:localhost,DNS:kubernetes.default.svc"
        for served in ("apiserver", "kubelet"):
            self.authority.certificate(served, f"/CN={served}", names)
        self.authority.certificate("kubelet-client", "/O=system:masters/CN=apiserver-kubelet-client")

    def add(
        self,
        name: str,
        command: Sequence[str | Path],
        ready: Callable[[], bool],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start a component; it is not waited for."""
        whole = [*command, *self._flags.get(name, [])]
        component = Component(name, whole, self.logs / f"{name}.log", ready, environment)
        self.components[name] = component
        component.start()

    def _kill_all(self) -> None:
        for component in reversed(self.components.values()):
            component.kill()


def _remove_left_behind() -> None:
    """Remove the temporary folders of processes that were killed: 100 MB each."""
    for mark in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/{_ALIVE}"):
        with contextlib.suppress(OSError), mark.open() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(mark.parent, ignore_errors=True)
