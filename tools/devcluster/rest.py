"""What tests do with any cluster: requests, each of which would cost kubectl 0.1 s of processor time, and kubectl."""

import base64
import http.client
import json
import ssl
import tempfile
import urllib.parse
from pathlib import Path
from typing import Any

from tools.devcluster.components import output
from tools.devcluster.waiting import wait_until

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"


class ApiError(RuntimeError):
    """The API server refused; `status` is its HTTP status, `reason` the machine-readable reason."""

    def __init__(self, method: str, path: str, status: int, body: bytes) -> None:
        self.status = status
        try:
            answer = json.loads(body)
            self.reason, said = str(answer.get("reason", "")), str(answer.get("message", ""))
        except ValueError:
            self.reason, said = "", body.decode(errors="replace")[:500]
        super().__init__(f"{method} {path}: {status} {self.reason}: {said}")


class Rest:
    """JSON requests with a kubeconfig's client certificate; connections are kept. Threads may share it."""

    def __init__(self, kubeconfig: Path, timeout_s: float = 30.0) -> None:
        read = json.loads(kubeconfig.read_text())
        cluster, user = read["clusters"][0]["cluster"], read["users"][0]["user"]
        server = urllib.parse.urlsplit(cluster["server"])
        self.host, self.port = server.hostname or "", server.port or 443
        self.context = client_context(cluster, user)
        self._timeout_s = timeout_s
        self._idle: list[http.client.HTTPConnection] = []

    def raw(self, method: str, path: str, body: bytes | None = None, kind: str = "application/json") -> bytes:
        """The body of the answer. Raises ApiError on a status from 400, OSError when nothing answers."""
        headers = {"Content-Type": kind} if body is not None else {}
        while True:
            kept = bool(self._idle)
            connection = self._idle.pop() if kept else self._connection()
            try:
                connection.request(method, path, body, headers)
                answer = connection.getresponse()
                text = answer.read()
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                # A kept connection may have died with an earlier server; a fresh one that fails tells the truth.
                if not kept:
                    raise OSError(f"{method} {path}: {error!r}") from error
                continue
            self._idle.append(connection)
            if answer.status >= 400:
                raise ApiError(method, path, answer.status, text)
            return text

    def _connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPSConnection(self.host, self.port, timeout=self._timeout_s, context=self.context)

    def close(self) -> None:
        """Close what is kept."""
        while self._idle:
            self._idle.pop().close()

    def call(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        """The decoded answer to a JSON request; raises as `raw` does."""
        text = self.raw(method, path, None if body is None else json.dumps(body).encode(), kind)
        return json.loads(text) if text else None

    def apply(self, path: str, document: bytes) -> None:
        """Server-side apply of one YAML or JSON document, as it is in its file."""
        self.raw("PATCH", f"{path}?fieldManager=tier&force=true", document, APPLY)

    def create(self, path: str, body: Any) -> Any:
        """Create, or nothing where it is there already."""
        try:
            return self.call("POST", path, body)
        except ApiError as error:
            if error.status != 409:
                raise
        return None


class RunningCluster:
    """A cluster that answers: its kubeconfig of an administrator, and requests in their name."""

    kubeconfig: Path
    rest: Rest
    program: str | Path
    """kubectl"""

    def kubectl(self, *arguments: str, text: str | None = None, kubeconfig: Path | None = None) -> str:
        """Output of a kubectl command, given `text` on its standard input. Raises CommandFailed."""
        return output(self.program, f"--kubeconfig={kubeconfig or self.kubeconfig}", *arguments, text=text)

    def found(self, path: str) -> bool:
        """Whether the API server has something there."""
        try:
            self.rest.raw("GET", path)
        except ApiError:
            return False
        return True

    def namespace(self, name: str) -> str:
        """Make a namespace, and wait until pods may be created in it."""
        self.rest.create("/api/v1/namespaces", {"metadata": {"name": name}})
        account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        wait_until(lambda: self.found(account), f"service account default in {name}")
        return name


def client_context(cluster: dict[str, str], user: dict[str, str]) -> ssl.SSLContext:
    """TLS as the kubeconfig's user; ssl reads certificates from files only."""
    context = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    with tempfile.NamedTemporaryFile() as pair:
        pair.write(base64.b64decode(user["client-certificate-data"]) + base64.b64decode(user["client-key-data"]))
        pair.flush()
        context.load_cert_chain(pair.name)
    return context
