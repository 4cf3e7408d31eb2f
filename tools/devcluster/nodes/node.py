"""One real node: containerd, kubelet and kube-proxy in a space of their own, pods below a control group of its own."""

import contextlib
import os
import shutil
import signal
import zlib
from collections.abc import Sequence
from pathlib import Path
from string import Template

from tools.devcluster import toolchain
from tools.devcluster.components import CommandFailed, Component
from tools.devcluster.nodes.fabric import DNS, Fabric, node_address, pod_range
from tools.devcluster.nodes.image_store import Store
from tools.devcluster.nodes.machine import cgroup_mounts
from tools.devcluster.nodes.small_images import PAUSE
from tools.devcluster.nodes.spaces import Space
from tools.devcluster.tier import Tier
from tools.devcluster.waiting import wait_until

_INSIDE = "/run/node"
"""Where a node sees its folder: the name of a socket has room for 108 characters."""
_SETTINGS = Path(__file__).parent / "settings"
_CONTROLLERS = ("cpu", "cpuset", "io", "memory", "hugetlb", "pids")


class Node:
    """Node `number`, which counts from 1 and is called node1. `runtime` before the API server, `join` after it."""

    def __init__(self, number: int, folder: Path, logs: Path) -> None:
        self.number, self.name, self.address = number, f"node{number}", node_address(number)
        self.folder = folder / self.name
        self.space = Space(self.name, logs, isolated=True)
        self.components: dict[str, Component] = {}
        """containerd, kubelet, kube-proxy."""

    # -- start

    def runtime(self, fabric: Fabric, nodes: int, store: Store, images: Sequence[str]) -> None:
        """Bring containerd up, connected to `nodes` - 1 others, with these images of the store and no others."""
        for part in ("cni", "kubelet", "pod-logs", "plugins"):
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        self.space.start()
        self.space.run("mkdir", _INSIDE)
        self.space.run("mount", "--bind", self.folder, _INSIDE)
        fabric.join(self.space, self.number, nodes)
        store.copy(self.folder / "containerd")
        self._write("pods.conflist", "cni/10-pods.conflist", pods=pod_range(self.number))
        self._write("containerd.toml", pause=PAUSE, plugins=toolchain.built("cni-plugins"), runc=shutil.which("runc"))
        self._start("containerd", [toolchain.binary("containerd"), f"--config={_INSIDE}/containerd.toml"])
        wait_until(self._answers, f"containerd on {self.name}")
        if unwanted := [name for name in self.images() if name not in images]:
            self.ctr("images", "rm", *unwanted)

    def join(self, tier: Tier) -> None:
        """Start kubelet and kube-proxy; the node is Ready some seconds later."""
        tier.authority.certificate(f"kubelet-{self.name}", f"/CN={self.name}", f"IP:{self.address},DNS:{self.name}")
        kubeconfigs = {
            "kubelet": (f"system:node:{self.name}", ("system:nodes",)),
            "kube-proxy": ("system:kube-proxy", ()),
        }
        for name, (user, groups) in kubeconfigs.items():
            tier.authority.kubeconfig(self.folder / f"{name}.kubeconfig", tier.server, user, groups)
        self._write("kubelet.yaml", node=self.name, group=make_group(self.name), pki=tier.authority.folder, dns=DNS)
        self._write("kube-proxy.yaml", node=self.name)
        flags = [
            f"--config={_INSIDE}/kubelet.yaml", f"--kubeconfig={_INSIDE}/kubelet.kubeconfig",
            f"--hostname-override={self.name}", f"--node-ip={self.address}", f"--root-dir={_INSIDE}/kubelet",
            f"--cert-dir={_INSIDE}/kubelet/pki",
        ]  # fmt: skip
        self._start("kubelet", [toolchain.binary("kubelet"), *flags])
        self._start("kube-proxy", [toolchain.binary("kube-proxy"), f"--config={_INSIDE}/kube-proxy.yaml"])

    def _write(self, name: str, to: str | None = None, **values: object) -> None:
        write_settings(self.folder / (to or name), name, inside=_INSIDE, **values)

    def _start(self, name: str, command: Sequence[str | Path]) -> None:
        path = f"{toolchain.built('containerd')}:{os.environ.get('PATH', os.defpath)}"  # containerd looks its shim up
        self.components[name] = self.space.component(f"{self.name}-{name}", command, {"PATH": path})
        self.components[name].start()

    # -- use

    def ctr(self, *arguments: str | Path) -> str:
        """Output of a `ctr` command on the pods' images and containers. Raises CommandFailed."""
        return self.space.run(toolchain.binary("ctr"), "--namespace=k8s.io", *arguments)

    def images(self) -> list[str]:
        """Names of the images that it has."""
        return self.ctr("images", "ls", "-q").split()

    def _answers(self) -> bool:
        self.components["containerd"].wait(0)  # raises, with the end of its log, when it has ended
        try:
            self.ctr("version")
        except CommandFailed:
            return False
        return True

    def end(self) -> None:
        """End it with every container on it. May be called again."""
        self.space.end()
        for component in self.components.values():
            component.kill()


def write_settings(to: Path, name: str, **values: object) -> None:
    """One of settings/, with these values of its variables."""
    to.write_text(
        Template((_SETTINGS / name).read_text()).substitute({key: str(value) for key, value in values.items()})
    )


def _group(node: str) -> str:
    """Of a node's control groups; another build cache, perhaps in another container, has other ones."""
    return f"scalecurve-{zlib.crc32(bytes(toolchain.cache())):08x}-{node}"


def make_group(node: str) -> str:
    """Make a node's control groups, in version 1's every hierarchy or in version 2; their path below each mount."""
    for mount in cgroup_mounts():
        group = mount / _group(node)
        group.mkdir(exist_ok=True)
        for name in ("cpuset.cpus", "cpuset.mems"):  # version 1 leaves them empty, and then no process may enter
            if (group / name).exists() and (mount / name).exists():
                (group / name).write_text((mount / name).read_text())
        if (mount / "cgroup.controllers").exists():
            there = (mount / "cgroup.controllers").read_text().split()
            wanted = " ".join(f"+{name}" for name in _CONTROLLERS if name in there)
            for where in (mount, group):
                (where / "cgroup.subtree_control").write_text(wanted)
    return f"/{_group(node)}"


def remove_groups() -> None:
    """Kill what is left in the control groups of any node, and remove them. Raises TimeoutError where some stay."""

    def gone() -> bool:
        left = [group for mount in cgroup_mounts(every=True) for group in mount.glob(_group("*"))]
        for group in left:
            # A directory of a control group goes with its files; only the directories in it have to go before.
            for folder, _, _ in os.walk(group, topdown=False):
                with contextlib.suppress(OSError):
                    Path(folder).rmdir()
                    continue
                _kill(Path(folder) / "cgroup.procs")
        return not left

    wait_until(gone, "the end of every control group", timeout_s=20)


def _kill(processes: Path) -> None:
    with contextlib.suppress(OSError):
        for pid in map(int, processes.read_text().split()):
            if pid:
                os.kill(pid, signal.SIGKILL)
