"""One real node: containerd, kubelet and kube-proxy in a space of their own, pods below a control group of its own."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import zlib
from collections.abc import Sequence
from pathlib import Path

from tools.devcluster import toolchain
from tools.devcluster.components import Component
from tools.devcluster.nodes.fabric import DNS, Fabric, node_address, pod_range
from tools.devcluster.nodes.image_store import Store
from tools.devcluster.nodes.machine import cgroup_mounts
from tools.devcluster.nodes.small_images import PAUSE
from tools.devcluster.nodes.spaces import Space
from tools.devcluster.tier import Tier
from tools.devcluster.waiting import wait_until

_INSIDE = "/run/node"
"""Where a node sees its folder: the name of a socket has room for 108 characters."""
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
        self._write("cni/10-nodes.conflist", self._cni())
        (self.folder / "containerd.toml").write_text(self._containerd())
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
        self._write("kubelet.json", self._kubelet(tier, make_group(self.name)))
        self._write("kube-proxy.json", self._kube_proxy())
        flags = [
            f"--config={_INSIDE}/kubelet.json", f"--kubeconfig={_INSIDE}/kubelet.kubeconfig",
            f"--hostname-override={self.name}", f"--node-ip={self.address}", f"--root-dir={_INSIDE}/kubelet",
            f"--cert-dir={_INSIDE}/kubelet/pki",
        ]  # fmt: skip
        self._start("kubelet", [toolchain.binary("kubelet"), *flags])
        self._start("kube-proxy", [toolchain.binary("kube-proxy"), f"--config={_INSIDE}/kube-proxy.json"])

    def _start(self, name: str, command: Sequence[str | Path]) -> None:
        path = f"{toolchain.built('containerd')}:{os.environ.get('PATH', os.defpath)}"  # containerd looks its shim up
        self.components[name] = self.space.component(f"{self.name}-{name}", command, {"PATH": path})
        self.components[name].start()

    # -- use

    def ctr(self, *arguments: str | Path) -> str:
        """Output of a `ctr` command on the pods' images and containers. Raises CalledProcessError, noting stderr."""
        return self.space.run(toolchain.binary("ctr"), "--namespace=k8s.io", *arguments)

    def images(self) -> list[str]:
        """Names of the images that it has."""
        return self.ctr("images", "ls", "-q").split()

    def _answers(self) -> bool:
        self.components["containerd"].wait(0)  # raises, with the end of its log, when it has ended
        try:
            self.ctr("version")
        except subprocess.CalledProcessError:
            return False
        return True

    def end(self) -> None:
        """End it with every container on it. May be called again."""
        self.space.end()
        for component in self.components.values():
            component.kill()

    # -- settings

    def _write(self, name: str, document: object) -> None:
        (self.folder / name).write_text(json.dumps(document, indent=1))  # every JSON document is YAML

    def _cni(self) -> object:
        ranges = [[{"subnet": pod_range(self.number)}]]
        routes = [{"dst": "0.0.0.0/0"}]
        addresses = {"type": "host-local", "dataDir": f"{_INSIDE}/addresses", "ranges": ranges, "routes": routes}
        bridge = {"type": "bridge", "bridge": "pods", "isGateway": True, "hairpinMode": True, "ipam": addresses}
        return {"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge]}

    def _containerd(self) -> str:
        return f"""version = 3
root = "{_INSIDE}/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.internal.v1.opt"]
[plugins.'io.containerd.cri.v1.images']
  discard_unpacked_layers = true
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = "{PAUSE}"
[plugins.'io.containerd.cri.v1.runtime']
  # Some machines give root no CAP_SYS_RESOURCE: runc could not set the pause container's -998.
  restrict_oom_score_adj = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = ["{toolchain.built("cni-plugins")}"]
  conf_dir = "{_INSIDE}/cni"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
    BinaryName = "{shutil.which("runc")}"
    SystemdCgroup = false
"""

    def _kubelet(self, tier: Tier, group: str) -> object:
        authority = tier.authority
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "failCgroupV1": False,
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": group,
            "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": str(authority.crt)},
            },
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": f"{authority.folder}/kubelet-{self.name}.crt",
            "tlsPrivateKeyFile": f"{authority.folder}/kubelet-{self.name}.key",
            "clusterDNS": [DNS],
            "clusterDomain": "cluster.local",
            "resolvConf": "",
            "podLogsDir": f"{_INSIDE}/pod-logs",
            "volumePluginDir": f"{_INSIDE}/plugins",
            "imageGCHighThresholdPercent": 100,  # images cannot be pulled again
            "evictionHard": {
                "memory.available": "100Mi",
                "nodefs.available": "1%",
                "imagefs.available": "1%",
                "nodefs.inodesFree": "1%",
            },
            "failSwapOn": False,
        }

    def _kube_proxy(self) -> object:
        return {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": "nftables",
            # Replies between pods of one bridge would not pass where their addresses are translated back.
            "nftables": {"masqueradeAll": True},
            "clientConnection": {"kubeconfig": f"{_INSIDE}/kube-proxy.kubeconfig"},
            "hostnameOverride": self.name,
            "conntrack": {"maxPerCore": 0},
            "healthzBindAddress": "127.0.0.1:10256",
            "metricsBindAddress": "127.0.0.1:10249",
        }


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
