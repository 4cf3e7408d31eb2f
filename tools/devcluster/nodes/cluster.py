"""A cluster of real nodes on this machine: pods are containers, and nodes talk over a network.

    with RealCluster(nodes=2, images=[archive]) as cluster:
        cluster.kubectl("apply", "-f", "experiment.yaml")

The control plane and the job operators are those of a tier, as plain processes; each node is kubelet, containerd
and kube-proxy in namespaces of its own (spaces.py), all of them on one network (fabric.py), where CoreDNS answers.
All state is in `cluster/` of the build cache. A machine has one such cluster at a time.
"""

import atexit
import contextlib
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

from tools.devcluster import toolchain
from tools.devcluster.components import Component, ComponentError
from tools.devcluster.nodes import fabric, machine
from tools.devcluster.nodes.fabric import DNS, HOST, Fabric
from tools.devcluster.nodes.image_store import Store
from tools.devcluster.nodes.node import Node, remove_groups, write_settings
from tools.devcluster.nodes.small_images import PAUSE
from tools.devcluster.rest import Rest, RunningCluster
from tools.devcluster.tier import Tier
from tools.devcluster.waiting import wait_until

GPU = "nvidia.com/gpu"


def state() -> Path:
    """The folder that holds everything of the running cluster."""
    return toolchain.cache() / "cluster"


class RealCluster(RunningCluster):
    """A running cluster; `nodes` by name (node1 and on)."""

    def __init__(self, nodes: int = 2, images: Sequence[Path] = ()) -> None:
        if not 1 <= nodes <= 9:
            raise ValueError(f"nodes: {nodes}; allowed are 1 to 9")
        self.folder = state()
        self.logs = self.folder / "logs"
        self._images = images
        self._fabric = Fabric(self.logs)
        self.nodes = {f"node{number}": Node(number, self.folder, self.logs) for number in range(1, nodes + 1)}
        flags = {
            # As it is in a real cluster: a node that is lost is noticed.
            "controller-manager": ["--node-monitor-grace-period=40s"],
            "training-operator": [f"--pytorch-init-container-template-file={self.folder / 'init-container.yaml'}"],
        }
        self.tier = Tier(self.folder / "tier", kwok=False, player=False, flags=flags, crds=(), address=HOST)
        self.kubeconfig, self.program = self.tier.kubeconfig, self.tier.program
        self._keep = False
        self._ending = contextlib.ExitStack()

    # -- start and stop

    def start(self) -> Self:
        """Bring everything up. Raises ComponentError, which says why, where that is not possible."""
        if why := machine.lacking():
            raise ComponentError(why)
        try:
            self._ending.enter_context(machine.lock(self.folder))
        except BlockingIOError as error:
            raise ComponentError(str(error)) from None
        atexit.register(self.stop)
        try:
            remove_left_behind()
            self._start()
        except BaseException:
            self._keep = True
            self.stop()
            raise
        return self

    def _start(self) -> None:
        self._ending.callback(self._remove)
        self.logs.mkdir(parents=True)
        write_settings(self.folder / "init-container.yaml", "init-container.yaml", pause=PAUSE)
        self._ending.callback(remove_groups)
        self._ending.callback(self._fabric.end)
        self._ending.callback(self._end_nodes)
        self._ending.callback(self.tier.stop)
        with ThreadPoolExecutor(max_workers=4) as pool:
            self._fabric.start()
            tier = pool.submit(self.tier.start)
            store = Store()
            images = store.add(self._images)
            nodes = list(self.nodes.values())
            ready = [pool.submit(node.runtime, self._fabric, len(nodes), store, images) for node in nodes]
            tier.result()
            self.rest = self.tier.rest
            self._start_dns()
            for node, runtime in zip(nodes, ready, strict=True):
                runtime.result()
                node.join(self.tier)
        self.wait_until_ready()

    def _start_dns(self) -> None:
        kubeconfig = self.folder / "coredns.kubeconfig"
        self.tier.authority.kubeconfig(kubeconfig, self.tier.server, "coredns", ("system:masters",))
        write_settings(self.folder / "Corefile", "Corefile", dns=DNS, kubeconfig=kubeconfig)
        command: list[str | Path] = [toolchain.binary("coredns"), "-conf", self.folder / "Corefile"]
        self.dns: Component = self._fabric.space.component("coredns", command)
        """`dns.kill()` and `dns.start()` are a cluster without names for a while."""
        self._ending.callback(self.dns.kill)
        self.dns.start()

    def wait_until_ready(self) -> None:
        """Return once every node takes pods: Ready, and without a taint. Raises TimeoutError."""
        wait_until(self.all_ready, f"Ready of {', '.join(self.nodes)}")

    def all_ready(self) -> bool:
        """Whether every node takes pods. Raises ComponentError, with the end of its log, for one that has ended."""
        for node in self.nodes.values():
            for component in node.components.values():
                component.wait(0)
        ready = {
            node["metadata"]["name"]
            for node in self.rest.call("GET", "/api/v1/nodes")["items"]
            if not node["spec"].get("taints")
            and any(each["type"] == "Ready" and each["status"] == "True" for each in node["status"]["conditions"])
        }
        return ready >= set(self.nodes)

    def stop(self) -> None:
        """End everything; the folder stays where the start failed, with the logs. May be called again."""
        self._ending.close()
        atexit.unregister(self.stop)

    def _remove(self) -> None:
        if not self._keep:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _end_nodes(self) -> None:
        for node in self.nodes.values():
            node.end()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    # -- use

    def link(self, node: str, up: bool) -> None:
        """Take a node off the network, or put it back, which returns when it takes pods again."""
        path = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{node}"

        def renewed() -> str:
            return str(self.rest.call("GET", path)["spec"]["renewTime"])

        self._fabric.space.run("ip", "link", "set", node, "up" if up else "down")
        if up:
            # Only after a sign of life: a node may seem Ready that is about to be given up.
            before = renewed()
            wait_until(lambda: renewed() != before, f"a sign of life of {node}")
            self.wait_until_ready()


def set_gpus(rest: Rest, node: str, count: int) -> None:
    """Patch `count` GPUs into the status of a node, where kubelet leaves them."""
    key = GPU.replace("/", "~1")
    patch = [
        {"op": "add", "path": f"/status/{amount}/{key}", "value": str(count)} for amount in ("capacity", "allocatable")
    ]
    rest.call("PATCH", f"/api/v1/nodes/{node}/status", patch, "application/json-patch+json")


def remove_left_behind() -> None:
    """Remove what a killed run left: empty control groups and files. Only who has the lock may."""
    fabric.clear()
    remove_groups()
    shutil.rmtree(state(), ignore_errors=True)
