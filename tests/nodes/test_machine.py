"""Where nodes cannot run, one line says why; tried on this machine with something taken away."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tools.devcluster import ROOT, toolchain
from tools.devcluster.nodes import machine
from tools.devcluster.nodes.spaces import Space


def said(before: Sequence[str] = (), environment: Mapping[str, str] | None = None) -> str:
    """What `machine.py` says, which is one line, when it is started in that way."""
    command = [*before, sys.executable, "-B", "-m", "tools.devcluster.nodes.machine"]
    done = subprocess.run(
        command, env={**os.environ, **(environment or {})}, capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 3, done
    assert done.stderr.count("\n") == 1, done
    return done.stderr.strip()


@pytest.fixture(scope="module")
def able() -> None:
    if why := machine.lacking():
        pytest.skip(why)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give root up")
@pytest.mark.parametrize("name", ["net_admin", "sys_admin"])
def test_without_a_capability(name: str) -> None:
    assert (
        said(["setpriv", f"--bounding-set=-{name}"]) == f"real nodes need CAP_{name.upper()}, which this process lacks"
    )


def test_without_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert machine.lacking() == "real nodes need root on Linux"


@pytest.mark.usefixtures("able")
def test_without_commands(tmp_path: Path) -> None:
    (tmp_path / "openssl").symlink_to("/usr/bin/openssl")
    reason = said(environment={"PATH": str(tmp_path)})
    assert reason.startswith("real nodes need commands of busybox-static, iproute2, mount, nftables, runc, util-linux;")
    assert reason.endswith("`make node-tools` installs them on Debian")


@pytest.mark.usefixtures("able")
def test_without_builds(tmp_path: Path) -> None:
    reason = said(environment={"SCALECURVE_CACHE": str(tmp_path)})
    assert reason.startswith("not built: node, containerd, cni-plugins, coredns, pause; `make node-tools` builds them")


@pytest.mark.usefixtures("able")
def test_without_the_addresses(tmp_path: Path) -> None:
    space = Space("taken", tmp_path)
    space.start()
    try:
        space.run("sh", "-ec", "ip link set lo up; ip route add 198.19.7.0/24 dev lo")
        assert said(space.entering()) == "the nodes' address range 198.18.0.0/15 is in use: 198.19.7.0/24 dev lo"
    finally:
        space.end()


@pytest.mark.usefixtures("able")
def test_without_overlay_mounts(tmp_path: Path) -> None:
    """As in a container whose own files are an overlay, which cannot be written to through another one."""
    memory = tmp_path / "memory"
    memory.mkdir()
    script = f"""mount -t tmpfs none {memory}; mkdir {memory}/l {memory}/u {memory}/w {memory}/cache
        mount -t overlay -o lowerdir={memory}/l,upperdir={memory}/u,workdir={memory}/w overlay {memory}/cache
        ln -s {toolchain.cache()}/*-???????????? {memory}/cache; exec "$@" """
    apart = ["unshare", "--mount", "sh", "-ec", script, "sh"]
    reason = said(apart, {"SCALECURVE_CACHE": f"{memory}/cache"})
    assert reason.startswith(
        "real nodes need overlay mounts on the file system of the cache, which this machine does not"
    )
