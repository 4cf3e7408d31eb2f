"""One API tier as plain processes: etcd, the control plane, two job operators, kwok. Real components, no containers.

    with Tier() as tier:
        tier.add_nodes(4, gpus=8)
        tier.kubectl("apply", "-f", "experiment.yaml")

Everything lives in one folder, on ports chosen at start, and ends with the process that started it; two tiers at once
do not meet. What a kubelet would do is done by kwok (stages.yaml) and, for pods of trials, by the player (player/).

    python -m tools.devcluster.tier up [--folder F] [--nodes N] [--gpus G]    prints KUBECONFIG, stays until Ctrl-C
"""

import argparse
import atexit
import contextlib
import importlib.util
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from tools.devcluster import control_plane, fake_nodes, toolchain
from tools.devcluster.components import ComponentError
from tools.devcluster.ground import LOOPBACK, PREFIX, Ground
from tools.devcluster.operators import MPI, MPI_LEASE, OPERATORS, STARTERS
from tools.devcluster.rest import ApiError
from tools.devcluster.waiting import READY_S

CRDS = tuple((Path(__file__).parents[2] / "charts/scalecurve/files/crds").glob("scalecurve.dev_*.yaml"))


def lacking(operators: Sequence[str] = OPERATORS, kwok: bool = True, player: bool = True) -> str | None:
    """Why no tier can start on this machine, in one line; None when one can."""
    absent = [command for command in ("openssl", "setpriv") if not shutil.which(command)]
    if absent:
        return f"the cluster tests need the commands {' and '.join(absent)}"
    names = ["etcd", "k8s", *operators, *(["kwok"] if kwok else [])]
    if missing := toolchain.missing(names):
        return f"not built: {', '.join(missing)}; `make cluster-tools` builds them in about ten minutes (needs Go)"
    if player and importlib.util.find_spec("aiohttp") is None:
        return "the cluster tests need aiohttp, a dependency of kopf: pip install -e '.[operator]'"
    return None


class Tier(Ground):
    """A running API tier. Components are named etcd, apiserver, controller-manager, scheduler, mpi-operator,
    training-operator, jobset, trainer, kueue, kwok, player; flags given for a component follow ours and win.
    """

    def __init__(
        self,
        folder: Path | None = None,
        operators: Sequence[str] = OPERATORS,
        kwok: bool = True,
        player: bool = True,
        flags: Mapping[str, Sequence[str]] | None = None,
        crds: Sequence[Path] = CRDS,
        address: str = LOOPBACK,
    ) -> None:
        """`address`, of this machine, is where the API server is, so that other machines may be let reach it."""
        if unknown := [name for name in operators if name not in STARTERS]:
            raise ValueError(f"operators: {', '.join(unknown)}; allowed are {', '.join(STARTERS)}")
        self._temporary = folder is None
        where = Path(tempfile.mkdtemp(prefix=PREFIX)) if folder is None else folder.absolute()
        super().__init__(where, address, flags or {})
        self._operators, self._kwok, self._player = tuple(operators), kwok, player
        self._crds = crds

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
        self.occupy()
        control_plane.start_etcd(self)
        self.certify()
        control_plane.start_apiserver(self)
        self.components["apiserver"].wait(READY_S)
        theirs = [crd for name in self._operators for crd in toolchain.crds(name)]
        control_plane.install_crds(self, [*self._crds, *theirs])
        control_plane.start_controller_manager(self)
        control_plane.start_scheduler(self)
        for name, start in STARTERS.items():
            if name in self._operators:
                start(self)
        if self._kwok:
            fake_nodes.start_kwok(self)
        if self._player:
            fake_nodes.start_player(self)
        for component in self.components.values():
            component.wait(READY_S)

    def stop(self, keep: bool = False) -> None:
        """Kill everything, and remove the folder unless it was named or `keep` is set. May be called again."""
        self.ending.close()
        atexit.unregister(self.stop)
        if self._temporary and not keep:
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    # -- use

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
        if component == MPI:
            # Its lease would have to run out first: 15 s.
            with contextlib.suppress(ApiError):
                self.rest.raw("DELETE", MPI_LEASE)
        self.components[component].start()
        self.components[component].wait(READY_S)
        if component in ("etcd", "apiserver") and MPI in self.components:
            self.restart(MPI)

    def add_nodes(
        self, count: int, gpus: int = 8, prefix: str = "node", labels: Mapping[str, str] | None = None
    ) -> list[str]:
        """Fake nodes named `prefix`-0 and on, ready for pods; their names."""
        names = [f"{prefix}-{index}" for index in range(count)]
        fake_nodes.add_nodes(self.rest, names, self.kubelet_port, gpus, labels or {})
        return names

    def remove_nodes(self, names: Sequence[str]) -> None:
        """Delete nodes; pods on them are collected by the controller manager."""
        for name in names:
            self.rest.raw("DELETE", f"/api/v1/nodes/{name}")


def main() -> int:
    parser = argparse.ArgumentParser(description="An API tier on this machine.")
    parser.add_argument("verb", choices=["up"])
    parser.add_argument("--folder", type=Path, help="where its state goes; a temporary folder by default")
    parser.add_argument("--nodes", type=int, default=4, help="fake nodes; default 4")
    parser.add_argument("--gpus", type=int, default=8, help="GPUs of each; default 8")
    chosen = parser.parse_args()
    started = time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        with contextlib.suppress(KeyboardInterrupt), Tier(chosen.folder) as tier:
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
