"""Any cluster, by the user's kubeconfig, with the face of `RealCluster` that the tests need."""

import http.client
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Self

from tools.devcluster import toolchain
from tools.devcluster.rest import Rest, RunningCluster

_SERVING = re.compile(r"Starting to serve on 127\.0\.0\.1:(\d+)")


class ExistingCluster(RunningCluster):
    """The cluster of $KUBECONFIG, through `kubectl proxy`, which knows every way to log in. It is left as it was found,
    but for the namespaces that tests make and delete.
    """

    def __init__(self) -> None:
        self.kubeconfig = Path(os.environ.get("KUBECONFIG") or Path.home() / ".kube" / "config")
        built = toolchain.built("k8s") / "kubectl"
        self.program = str(built) if built.exists() else "kubectl"

    def lacking(self) -> str | None:
        """Why it cannot be used, in one line; None when it can."""
        if not shutil.which(self.program):
            return "CLUSTER=existing needs kubectl on PATH"
        if not self.kubeconfig.exists():
            return f"CLUSTER=existing needs a kubeconfig, but {self.kubeconfig} does not exist: set KUBECONFIG"
        return None

    def __enter__(self) -> Self:
        """Raises OSError when the cluster does not answer."""
        self._proxy = subprocess.Popen(
            [self.program, f"--kubeconfig={self.kubeconfig}", "proxy", "--port=0"], stdout=subprocess.PIPE, text=True
        )
        assert self._proxy.stdout is not None
        serving = _SERVING.search(self._proxy.stdout.readline())
        if not serving:
            raise OSError(f"kubectl proxy did not start with {self.kubeconfig}")
        self.rest = _Proxied(int(serving[1]))
        listed = self.rest.call("GET", "/api/v1/nodes")["items"]
        self.nodes = {node["metadata"]["name"]: None for node in listed if not node["spec"].get("unschedulable")}
        """By name; there is nothing that a test may do to one."""
        return self

    def __exit__(self, *_: object) -> None:
        with self._proxy as proxy:
            proxy.terminate()
        self.rest.close()


class _Proxied(Rest):
    """Requests through `kubectl proxy` on this machine, which adds who asks."""

    def __init__(self, port: int, timeout_s: float = 30.0) -> None:
        self.host, self.port = "127.0.0.1", port
        self._timeout_s = timeout_s
        self._idle: list[http.client.HTTPConnection] = []

    def _connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.host, self.port, timeout=self._timeout_s)
