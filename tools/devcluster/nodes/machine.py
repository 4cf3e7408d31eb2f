"""What real nodes need of this machine, what they change of it, and how that is put back.

As a command:

    python -m tools.devcluster.nodes.machine            say why no nodes can run here, if so
    python -m tools.devcluster.nodes.machine install    install missing commands (Debian, root)

What is done with one machine at a time stands here; what is done with one node, in `node`.
"""

import contextlib
import fcntl
import functools
import ipaddress
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO

from tools import apt
from tools.devcluster import toolchain
from tools.devcluster.tier import lacking as tier_lacks

UPSTREAMS = ("node", "containerd", "cni-plugins", "coredns", "pause")
COMMANDS = {
    "runc": "runc",
    "ip": "iproute2",
    "nft": "nftables",
    "mount": "mount",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "setpriv": "util-linux",
    "openssl": "openssl",
    "busybox": "busybox-static",
}
"""command → Debian package"""
RANGE = ipaddress.ip_network("198.18.0.0/15")
"""Every address of a cluster: RFC 2544 sets this range aside for benchmarks, so no network of a user's has it."""
LINK = "scalecurve0"
"""The one interface that stands in the machine's own network."""
LOCK = Path("/run/scalecurve-nodes.lock")
"""Held for as long as there are nodes on this machine; its text says by whom."""
SYSCTLS = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1_000_000,
    "kernel/keys/root_maxbytes": 25_000_000,
}
"""What kubelet would set for the whole machine if it did not find it so."""
PRIVATE = ("/run", "/var/lib", "/var/log")
"""Folders that programs on a node fill whatever their settings say; a node has its own, in memory."""
_CAPABILITIES = {"CAP_NET_ADMIN": 12, "CAP_SYS_ADMIN": 21}


def lacking() -> str | None:
    """Why no nodes can run on this machine, in one line; None when they can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "real nodes need root on Linux"
    status = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":\t" in line)
    absent = [name for name, bit in _CAPABILITIES.items() if not int(status["CapEff"], 16) >> bit & 1]
    if absent:
        return f"real nodes need {' and '.join(absent)}, which this process lacks"
    if hiding := [folder for folder in PRIVATE if toolchain.cache().is_relative_to(folder)]:
        return f"real nodes have a {hiding[0]} of their own, and the build cache is there: set SCALECURVE_CACHE"
    if packages := absent_packages():
        return f"real nodes need commands of {', '.join(packages)}; `make node-tools` installs them on Debian"
    if missing := toolchain.missing(UPSTREAMS):
        return f"not built: {', '.join(missing)}; `make node-tools` builds them in about five minutes (needs Go)"
    return tier_lacks(kwok=False, player=False) or _range_conflict() or _kernel_lacks()


def absent_packages() -> list[str]:
    """Debian packages of the commands that are not there."""
    return sorted({package for command, package in COMMANDS.items() if not shutil.which(command)})


def _range_conflict() -> str | None:
    routes = json.loads(subprocess.run(["ip", "-j", "route"], capture_output=True, check=True).stdout or "[]")
    for route in routes:
        with contextlib.suppress(ValueError):
            if route.get("dev") != LINK and ipaddress.ip_network(route["dst"], strict=False).overlaps(RANGE):
                return f"the nodes' address range {RANGE} is in use: {route['dst']} dev {route.get('dev')}"
    return None


_TRIALS = {
    "namespaces of mounts, processes and network": "true",
    "bridges": "ip link add b0 type bridge",
    "veth pairs": "ip link add v0 type veth peer name v1",
    "nftables with address translation": """nft '
        table ip t {
            map m { type ipv4_addr . inet_proto . inet_service : verdict; }
            chain c {
                type nat hook postrouting priority 100;
                numgen random mod 2 vmap { 0 : accept, 1 : accept };
                ip saddr 198.18.0.0/15 masquerade;
            }
        }'""",
    "overlay mounts on the file system of the cache": """
        mkdir $FOLDER/l $FOLDER/u $FOLDER/w $FOLDER/m
        mount -t overlay -o lowerdir=$FOLDER/l,upperdir=$FOLDER/u,workdir=$FOLDER/w overlay $FOLDER/m""",
}


@functools.cache
def _kernel_lacks() -> str | None:
    """Each feature is tried, in namespaces that end with the trial."""
    if not cgroup_mounts():
        return "real nodes need control groups mounted under /sys/fs/cgroup"
    toolchain.cache().mkdir(parents=True, exist_ok=True)
    for feature, trial in _TRIALS.items():
        with tempfile.TemporaryDirectory(prefix=".trial-", dir=toolchain.cache()) as folder:
            tried = subprocess.run(
                ["unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc", "sh", "-ec", trial],
                env={**os.environ, "FOLDER": folder}, capture_output=True, text=True, check=False,
            )  # fmt: skip
        if tried.returncode:
            said = (tried.stderr.strip().splitlines() or [f"exit code {tried.returncode}"])[0]
            return f"real nodes need {feature}, which this machine does not allow: {said}"
    return None


def cgroup_mounts(every: bool = False) -> list[Path]:
    """Where a node's control group has to exist: every hierarchy of version 1, or else the one of version 2.

    runc makes groups in `every` hierarchy, the one of version 2 included.
    """
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    ones = [Path(where) for _, where, kind, *_ in mounts if kind == "cgroup"]
    twos = [Path(where) for _, where, kind, *_ in mounts if kind == "cgroup2"]
    return ones + twos if every or not ones else ones


def lock(folder: Path | None = None) -> IO[str]:
    """The right to have nodes on this machine, as an open file that says in which folder they are.

    Raises BlockingIOError naming who has it.
    """
    file = LOCK.open("a+")
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if why := held():
                file.close()
                raise BlockingIOError(why) from None
            time.sleep(0.05)  # somebody only looks, or cleans
        else:
            file.truncate(0)
            if folder:
                print(json.dumps({"pid": os.getpid(), "folder": str(folder)}), file=file, flush=True)
            return file


def held() -> str | None:
    """Who has nodes on this machine, in one line; None when nobody has."""
    if holder := lock_holder():
        who = f"process {holder['pid']}, {holder['folder']}"
        return f"this machine already has nodes ({who}); `make cluster-down` stops them"
    return None


def lock_holder() -> dict[str, str | int] | None:
    """`pid` and `folder` of the cluster that this machine has; None when it has none."""
    with contextlib.suppress(OSError, ValueError), LOCK.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            holder: dict[str, str | int] = json.load(file)
            return holder
    return None


def install() -> None:
    """Install the packages that are missing, where that is possible; elsewhere `lacking` will say what is."""
    packages = absent_packages()
    if packages and os.geteuid() == 0 and shutil.which("apt-get"):
        try:
            apt.install(packages)
        except apt.AptError as error:
            print(error, file=sys.stderr)


def main(arguments: list[str]) -> int:
    if arguments == ["install"]:
        install()
        return 0
    if why := lacking():
        print(why, file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
