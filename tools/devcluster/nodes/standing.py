"""A cluster of real nodes that stays until it is ended: `make cluster-up`, `make cluster-down`.

    python -m tools.devcluster.nodes.standing up [--nodes N] [IMAGE...]
    python -m tools.devcluster.nodes.standing down

`up` leaves it in the background, and prints its KUBECONFIG. An image is an archive or a name of images/; by default it
has all of those that are built. Where it is up already, images that are named are added. `down` ends it, or removes
what a killed one left.
"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.devcluster import ROOT, toolchain
from tools.devcluster.components import CommandFailed, ComponentError, output
from tools.devcluster.nodes import machine
from tools.devcluster.nodes.cluster import RealCluster, remove_left_behind, state
from tools.devcluster.nodes.image_store import DISCARDING, archives_of
from tools.devcluster.nodes.spaces import entering

_END_S = 60.0


def up(nodes: int, archives: Sequence[Path]) -> int:
    """Bring a cluster up in the background; prints how to reach it."""
    started = time.monotonic()
    log = toolchain.cache() / "cluster-up.log"
    command = [sys.executable, "-m", "tools.devcluster.nodes.standing", f"--nodes={nodes}", "hold", *map(str, archives)]
    with log.open("w") as file:
        holder = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=file, text=True,
            start_new_session=True,
        )  # fmt: skip
    assert holder.stdout is not None
    if not holder.stdout.readline():
        print(log.read_text().strip(), file=sys.stderr)
        return 3
    print(f"{nodes} nodes up in {time.monotonic() - started:.1f} s; `make cluster-down` stops them", file=sys.stderr)
    _say()
    return 0


def add(held: Mapping[str, str | int], archives: Sequence[Path]) -> int:
    """Add images to every node of the cluster that is up; prints how to reach it."""
    if held["folder"] != str(state()) or not _ready_file().exists():
        print(f"process {held['pid']} has nodes in {held['folder']}; `make cluster-down` stops them", file=sys.stderr)
        return 3
    for archive in archives:
        for pid in sorted((state() / "logs").glob("node*-space.pid")):
            ctr = [str(toolchain.binary("ctr")), "--namespace=k8s.io", "images", "import", *DISCARDING]
            try:
                output(*entering(int(pid.read_text()), isolated=True), *ctr, archive.resolve())
            except CommandFailed as error:
                print(f"{archive}: {error.stderr.strip().splitlines()[-1]}", file=sys.stderr)
                return 2
    print(f"already up{', now with these images' if archives else ''}", file=sys.stderr)
    _say()
    return 0


def _say() -> None:
    print(f"export KUBECONFIG={state()}/tier/admin.kubeconfig", flush=True)


def _ready_file() -> Path:
    return state() / "ready"


def hold(nodes: int, archives: Sequence[Path]) -> int:
    """Have a cluster until SIGTERM; prints one line when it is up."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        with RealCluster(nodes, archives):
            _ready_file().touch()
            print("up", flush=True)
            sys.stdout.close()
            while True:
                signal.pause()
    except (CommandFailed, ComponentError, OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 3


def down() -> int:
    """End the cluster that is up, if one is, and remove what a killed one left."""
    if os.geteuid() != 0:
        print("real nodes need root on Linux", file=sys.stderr)
        return 3
    started = time.monotonic()
    ask: signal.Signals | None = signal.SIGTERM
    while held := machine.lock_holder():
        if ask:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(held["pid"]), ask)
        ask = signal.SIGKILL if time.monotonic() > started + _END_S else None
        time.sleep(0.1)
    with machine.lock():
        remove_left_behind()
    print("no nodes are running, and nothing is left of any", file=sys.stderr)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description="A cluster of real nodes on this machine.")
    parser.add_argument("verb", choices=["up", "hold", "down"], help="hold: as up, but not in the background")
    parser.add_argument("images", nargs="*", help="archives (docker, OCI) or names of images/; else all that are built")
    parser.add_argument("--nodes", type=int, default=2, help="real nodes; default 2")
    chosen = parser.parse_intermixed_args()
    if chosen.verb == "down":
        return down()
    try:
        archives = archives_of(chosen.images)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    if chosen.verb == "hold":
        return hold(chosen.nodes, archives)
    if held := machine.lock_holder():
        return add(held, archives if chosen.images else ())
    return up(chosen.nodes, archives)


if __name__ == "__main__":
    sys.exit(main())
