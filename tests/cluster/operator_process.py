"""The operator as users run it: a process of its own, with no more rights than the chart gives its service account.

    with OperatorProcess(tier, namespace) as operator:      # ready when the block begins
        operator.kill(); operator.start(); operator.ready()

Every namespace has its own operator, lease and account, so tests do not meet.
"""

from __future__ import annotations

import http.client
import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.waiting import PATIENCE_S
from tools.devcluster import toolchain
from tools.devcluster.components import Component, ComponentError
from tools.devcluster.ports import Ports
from tools.devcluster.tier import Tier

CHART = Path(__file__).parent.parent.parent / "charts" / "scalecurve"
LEASE_SECONDS = "15"
"""An operator that cannot renew its lease for so long ends, as it must: a busy machine is to answer within it."""
_ACCOUNT = ("templates/serviceaccount.yaml", "templates/rbac.yaml")
_ANSWER_S = 60.0
_NUMBERS = itertools.count()


def service_account(tier: Tier, namespace: str, release: str = "scalecurve", others: Sequence[str] = ()) -> Path:
    """Kubeconfig of the chart's account in namespaced mode, once its roles are there and in ``others``.

    The release's name, which must hold "scalecurve", is the account's; its lease is called RELEASE-operator.
    """
    command: list[str | Path] = [toolchain.binary("helm"), "template", release, CHART, "--namespace", namespace]
    command += ["--kube-version", toolchain.KUBERNETES, "--set", f"namespaces={{{','.join([namespace, *others])}}}"]
    command += [f"--show-only={file}" for file in _ACCOUNT]
    rendered = subprocess.run(command, capture_output=True, text=True, check=False)
    if rendered.returncode:
        raise ComponentError(f"helm template ended with {rendered.returncode}: {rendered.stderr.strip()}")
    tier.kubectl("apply", "-f", "-", text=rendered.stdout)
    return tier.user(f"system:serviceaccount:{namespace}:{release}")


class OperatorProcess(Component):
    """One operator for one namespace; killed, it may be started anew, on the same ports and with the same log.

    `settings` are variables without their prefix (LEASE_SECONDS="2"). `identity` is the name of the pod that it
    believes to be in: a Deployment gives each restart of a container the same, each new pod another.
    """

    def __init__(
        self,
        tier: Tier,
        namespace: str,
        kubeconfig: Path | None = None,
        identity: str = "operator-0",
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._ports = Ports()
        self.health_port, self.metrics_port = self._ports.take(), self._ports.take()
        environment = {
            "KUBECONFIG": str(kubeconfig or service_account(tier, namespace)),
            "KUBERNETES_SERVICE_HOST": "",
            "POD_NAME": identity,
            "POD_NAMESPACE": namespace,
            "SCALECURVE_NAMESPACES": namespace,
            "SCALECURVE_LEASE_NAMESPACE": namespace,
            "SCALECURVE_LEASE_SECONDS": LEASE_SECONDS,
            "SCALECURVE_STARTING_SECONDS": "2",
            "SCALECURVE_HEALTH_PORT": str(self.health_port),
            "SCALECURVE_METRICS_PORT": str(self.metrics_port),
            "SCALECURVE_LOG_FORMAT": "text",
        }
        environment |= {f"SCALECURVE_{name}": value for name, value in (settings or {}).items()}
        log = tier.logs / f"operator-{namespace}-{next(_NUMBERS)}.log"
        command = [sys.executable, "-m", "scalecurve_operator"]
        super().__init__(f"operator of {namespace}", command, log, self._is_up, environment)

    def __enter__(self) -> Self:
        self.start()
        try:
            return self.ready()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            error.add_note(self.last_lines(60))
        self.close()

    def ready(self, timeout_s: float = PATIENCE_S) -> Self:
        """Return once /readyz says so. Raises ComponentError when it ends before, or is not ready in time."""
        self.wait(timeout_s)
        return self

    def probe(self, path: str = "/readyz") -> tuple[int, str]:
        """Status and text of a probe, without its last newline; status 0 when nothing answers."""
        try:
            return self._get(self.health_port, path)
        except OSError as error:
            return 0, repr(error)

    def metrics(self) -> str:
        """Its exposition."""
        return self._get(self.metrics_port, "/metrics")[1]

    def stop(self, timeout_s: float = PATIENCE_S) -> int:
        """Ask it to end (SIGTERM); its exit code."""
        os.kill(self.pid, signal.SIGTERM)
        return self.ended(timeout_s)

    def ended(self, timeout_s: float = PATIENCE_S) -> int:
        """Wait for its own end; its exit code. Raises ComponentError when it stays."""
        assert self._process is not None
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise ComponentError(f"{self.name} runs after {timeout_s:g} s\n{self.last_lines()}") from None

    def output(self) -> str:
        """Everything that it and its predecessors logged."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def close(self) -> None:
        """Kill it and give its ports back."""
        self.kill()
        self._ports.release()

    def _is_up(self) -> bool:
        return self.probe()[0] == 200

    @staticmethod
    def _get(port: int, path: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_ANSWER_S)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode().rstrip("\n")
        except http.client.HTTPException as error:
            raise ConnectionError(f"port {port}: {error!r}") from error
        finally:
            connection.close()
