"""The network between nodes: a bridge in a namespace of its own, with one leg to each node and one to this machine.

    198.18.0.1   this machine: API server, Prometheus, tests    198.18.0.2   the bridge: CoreDNS
    198.18.0.11  node1, its pods 198.19.1.0/24                  198.18.0.12  node2, its pods 198.19.2.0/24 …

No address is translated, and no rule of this machine's firewall is touched: between nodes there is none, for the bridge
is not in its namespace. Packets to anywhere else are refused at once, so that nobody waits for what cannot answer.
"""

import os
import subprocess
from pathlib import Path

from tools.devcluster.components import output
from tools.devcluster.nodes.machine import LINK
from tools.devcluster.nodes.spaces import Space

HOST, DNS = "198.18.0.1", "198.18.0.2"
_BRIDGE = "nodes"


def node_address(number: int) -> str:
    """Of node `number`, which counts from 1."""
    return f"198.18.0.{10 + number}"


def pod_range(number: int) -> str:
    """Of the pods on node `number`."""
    return f"198.19.{number}.0/24"


class Fabric:
    """The bridge and its legs; ends as a whole."""

    def __init__(self, logs: Path) -> None:
        self.space = Space("fabric", logs)

    def start(self) -> None:
        """Make the bridge, and its leg to this machine. Raises CommandFailed with what `ip` said."""
        self.space.start()
        _ip(
            self.space,
            "link set lo up",
            f"link add {_BRIDGE} type bridge",
            f"addr add {DNS}/24 dev {_BRIDGE}",
            f"link set {_BRIDGE} up",
        )
        self._leg(LINK, None)
        _ip(None, f"addr add {HOST}/24 dev {LINK}", f"link set {LINK} up")

    def join(self, space: Space, number: int, nodes: int) -> None:
        """Connect the space of node `number` of `nodes`, and say on all sides where its pods are."""
        address = node_address(number)
        self._leg("eth0", space, outer=f"node{number}")
        others = [each for each in range(1, nodes + 1) if each != number]
        _ip(
            space,
            "link set lo up",
            f"addr add {address}/24 dev eth0",
            "link set eth0 up",
            *[f"route add {pod_range(each)} via {node_address(each)}" for each in others],
            "route add unreachable default",
        )
        space.run("sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
        _ip(None, f"route add {pod_range(number)} via {address}")
        _ip(self.space, f"route add {pod_range(number)} via {address}")

    def _leg(self, inner: str, into: Space | None, outer: str = "machine") -> None:
        where = into.pid if into else os.getpid()
        _ip(
            self.space,
            f"link add {outer} type veth peer name {inner} netns {where}",
            f"link set {outer} master {_BRIDGE} up",
        )

    def end(self) -> None:
        """Take everything away."""
        self.space.end()
        clear()


def clear() -> None:
    """Remove what a killed run may have left on this machine: the kernel takes an interface away only after a while."""
    subprocess.run(["ip", "link", "delete", LINK], capture_output=True, check=False)


def _ip(space: Space | None, *commands: str) -> None:
    output(*(space.entering() if space else []), "ip", "-batch", "-", text="\n".join(commands))
