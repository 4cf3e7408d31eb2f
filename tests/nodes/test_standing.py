"""A cluster that stays until it is ended, and what one leaves behind that was killed: nothing.

All of it happens in namespaces beside the machine's own, with a build cache of its own, for a machine has one cluster.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.devcluster import ROOT, toolchain
from tools.devcluster.nodes import machine, small_images
from tools.devcluster.nodes.spaces import Space
from tools.devcluster.waiting import wait_until


class Elsewhere:
    """A machine beside this one: same files, other processes, interfaces and mounts."""

    def __init__(self, space: Space, cache: Path) -> None:
        self.space, self.cache = space, cache
        self._of_others = set(self._mounts())  # of the machine: they may go meanwhile

    def _mounts(self) -> list[str]:
        return self.space.run("cat", "/proc/self/mounts").splitlines()

    def standing(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        command = [
            "env",
            f"SCALECURVE_CACHE={self.cache}",
            f"PYTHONPATH={ROOT}",  # entering a mount namespace leaves the working folder
            sys.executable,
            "-m",
            "tools.devcluster.nodes.standing",
            *arguments,
        ]
        whole = [*self.space.entering(), *map(str, command)]
        return subprocess.run(whole, capture_output=True, text=True, check=False, timeout=250, cwd=ROOT)

    def holder(self) -> int:
        return int(json.loads(self.space.run("cat", machine.LOCK))["pid"])

    def processes(self) -> list[str]:
        """Commands, but for those of this moment and for the one that holds the namespaces."""
        ours = self.space.run("busybox", "ps", "-o", "args").splitlines()[1:]
        return [each for each in ours if not each.startswith("busybox ps ") and not each.endswith("/pause")]

    def kubectl(self, *arguments: str) -> str:
        kubeconfig = f"--kubeconfig={self.cache}/cluster/tier/admin.kubeconfig"
        return self.space.run(toolchain.binary("kubectl"), kubeconfig, *arguments)

    def traces(self) -> dict[str, object]:
        """What a cluster may leave, besides processes."""
        groups = [name for mount in machine.cgroup_mounts(every=True) for name in os.listdir(mount)]
        return {
            "links": [link["ifname"] for link in json.loads(self.space.run("ip", "-j", "link"))],
            "routes": json.loads(self.space.run("ip", "-j", "route") or "[]"),
            "mounts": [each for each in self._mounts() if each not in self._of_others],
            "groups": sorted(name for name in groups if name.startswith("scalecurve-") and name not in _OTHERS),
            "sysctls": [Path("/proc/sys", name).read_text() for name in machine.SYSCTLS],
            "folder": (self.cache / "cluster").exists(),
        }


_OTHERS = {name for mount in machine.cgroup_mounts(every=True) for name in os.listdir(mount)}
"""Control groups that a cluster of this machine's own may have."""


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Elsewhere]:
    if why := machine.lacking():
        pytest.skip(why)
    cache = tmp_path / "cache"
    (cache / "images").mkdir(parents=True)
    for name in toolchain.UPSTREAMS:
        (cache / toolchain.built(name).name).symlink_to(toolchain.built(name))
    space = Space("elsewhere", tmp_path, isolated=True)
    space.start()
    try:
        space.run("ip", "link", "set", "lo", "up")
        yield Elsewhere(space, cache)
    finally:
        space.end()


@pytest.mark.timeout(900)
def test_up_again_killed_up_and_down(elsewhere: Elsewhere) -> None:
    before = elsewhere.traces()
    up = elsewhere.standing("up", "--nodes=1", small_images.busybox())
    assert (up.returncode, up.stdout) == (0, f"export KUBECONFIG={elsewhere.cache}/cluster/tier/admin.kubeconfig\n"), up
    elsewhere.kubectl(
        "run", "sleeper", f"--image={small_images.BUSYBOX}", "--command", "--", "busybox", "sleep", "1000"
    )
    elsewhere.kubectl("wait", "pod/sleeper", "--for=condition=Ready", "--timeout=240s")
    assert any("sleep 1000" in each for each in elsewhere.processes())
    assert elsewhere.traces()["sysctls"] == before["sysctls"]

    again = elsewhere.standing("up")
    assert (again.returncode, again.stdout) == (0, up.stdout), again
    assert again.stderr == "already up\n"

    # The kernel ends what a killed cluster was, containers and mounts included; files wait for the next one.
    elsewhere.space.run("kill", "-9", str(elsewhere.holder()))
    wait_until(lambda: not elsewhere.processes(), "every process to be gone")
    left = elsewhere.traces()
    assert (left["mounts"], left["folder"]) == (before["mounts"], True)

    anew = elsewhere.standing("up", "--nodes=1")
    assert anew.returncode == 0, anew
    assert elsewhere.kubectl("get", "pods", "-o", "name") == ""

    down = elsewhere.standing("down")
    assert (down.returncode, down.stderr) == (0, "no nodes are running, and nothing is left of any\n"), down
    assert elsewhere.processes() == []
    assert elsewhere.traces() == before
    assert elsewhere.standing("down").returncode == 0


def test_what_cannot_be_loaded(elsewhere: Elsewhere, tmp_path: Path) -> None:
    absent = elsewhere.standing("up", tmp_path / "absent.tar")
    assert absent.returncode == 2
    assert absent.stderr.startswith(f"{tmp_path}/absent.tar: there is no such archive; images of this repository are ")
