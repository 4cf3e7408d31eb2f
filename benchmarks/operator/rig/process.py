"""The operator as shipped: its own command, its own RBAC, a service account's certificate; what its process costs."""

from __future__ import annotations

import http.client
import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import yaml

from tools.chart import base
from tools.devcluster import toolchain
from tools.devcluster.components import Component
from tools.devcluster.ports import Ports
from tools.devcluster.tier import Tier

NAMESPACE, ACCOUNT = "scalecurve-system", "scalecurve"
USER = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
_RBAC = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Lease")
_TICKS = os.sysconf("SC_CLK_TCK")


class OperatorProcess:
    """One operator on a tier, which may be killed and started again; processor time is summed over its lives."""

    def __init__(self, tier: Tier, environment: Mapping[str, str] | None = None, profile: Path | None = None) -> None:
        self.tier, self._profile = tier, profile
        self._ports = Ports()
        self._health = self._ports.take()
        self._spent_ms = 0.0
        self._set = {
            "KUBECONFIG": str(tier.user(USER)),
            "POD_NAME": "scalecurve-0",
            "POD_NAMESPACE": NAMESPACE,
            "SCALECURVE_METRICS_PORT": str(self._ports.take()),
            "SCALECURVE_HEALTH_PORT": str(self._health),
            **(environment or {}),
        }
        install_rbac(tier)

    def start(self, timeout_s: float = 60.0) -> float:
        """Start it and wait until it is ready; the seconds that took."""
        began = time.monotonic()
        profiled = ["-m", "cProfile", "-o", str(self._profile)] if self._profile else []
        command = [sys.executable, *profiled, "-m", "scalecurve_operator"]
        self.log = self.tier.logs / "operator.log"
        self.component = Component("operator", command, self.log, self._ready, self._set)
        self.component.start()
        self.component.wait(timeout_s)
        return time.monotonic() - began

    def kill(self) -> None:
        """SIGKILL, as the kernel's out-of-memory killer would."""
        self._spent_ms += self._cpu_ms()
        self.component.kill()

    def stop(self) -> None:
        """End it for good; one that is profiled writes its profile at its own end."""
        if self._profile and self.component.alive:
            os.kill(self.component.pid, signal.SIGTERM)
            deadline = time.monotonic() + 20
            while self.component.alive and time.monotonic() < deadline:
                time.sleep(0.1)
        self.component.kill()
        self._ports.release()

    @property
    def cpu_ms(self) -> float:
        """Processor time of all lives, with ended children."""
        return self._spent_ms + self._cpu_ms()

    @property
    def rss_mib(self) -> float:
        """Resident memory now."""
        return self._status("VmRSS")

    @property
    def peak_mib(self) -> float:
        """Most resident memory since `reset_peak`."""
        return self._status("VmHWM")

    def reset_peak(self) -> None:
        """Let the peak begin anew."""
        Path(f"/proc/{self.component.pid}/clear_refs").write_text("5")

    def _cpu_ms(self) -> float:
        fields = Path(f"/proc/{self.component.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(int(fields[place]) for place in (11, 12, 13, 14)) * 1000 / _TICKS

    def _status(self, name: str) -> float:
        for line in Path(f"/proc/{self.component.pid}/status").read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) / 1024
        raise ProcessLookupError(f"the operator, pid {self.component.pid}, has no {name}: it has ended")

    def _ready(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self._health, timeout=5)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        finally:
            connection.close()


def install_rbac(tier: Tier) -> None:
    """The service account and the rules of an operator of the whole cluster; and no more than those."""
    rendered = base.render(toolchain.binary("helm"), "--set", "clusterWide=true")
    wanted = [each for each in rendered if each["kind"] in _RBAC]
    tier.rest.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    tier.kubectl("apply", "--server-side", "-f", "-", text=yaml.safe_dump_all(wanted))
