"""The API server that a kubeconfig names, as plain JSON.

The official client is loaded when a cluster is asked for and not before; it reads kubeconfigs, renews tokens and runs
login plugins. Its models are left aside: custom resources have none.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import click

F = TypeVar("F", bound=Callable[..., Any])
Object = dict[str, Any]

GROUP = "/apis/scalecurve.dev/v1alpha1"
_PAGE = 200
_BUSY, _PATIENCE_S = (429, 503), 10.0
_BUSY, _PATIENCE_S = (429, 503), 10.0
_CONNECT_S, _READ_S = 5.0, 60.0
_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class ClusterError(Exception):
    """A cluster cannot be asked: no client, no kubeconfig, no answer. The message says what to do."""


class Refused(ClusterError):
    """The API server said no; ``message`` is its own."""

    def __init__(self, status: int, message: str) -> None:
        """Keep what programs look at."""
        advice = {401: "log in anew, or name another --context", 403: "ask for this right, or name another --context"}
        super().__init__(f"the API server refuses ({status}): {message}" + _behind("; ", advice.get(status, "")))
        self.status, self.message = status, message


@dataclass(frozen=True)
class Where:
    """What the options say of the cluster."""

    namespace: str | None = None
    context: str | None = None
    kubeconfig: Path | None = None

    @property
    def asked(self) -> bool:
        """Whether an option names a cluster, so that nothing else can be meant."""
        return any(value is not None for value in (self.namespace, self.context, self.kubeconfig))


def cluster_options(function: F) -> F:
    """``-n NS --context C --kubeconfig F``, given to the function as one ``where``."""

    def collected(*, namespace: str | None, context: str | None, kubeconfig: Path | None, **rest: Any) -> Any:
        return function(where=Where(namespace, context, kubeconfig), **rest)

    collected.__name__, collected.__doc__ = function.__name__, function.__doc__
    collected.__dict__.update(function.__dict__)
    for option in (
        click.option("--kubeconfig", type=click.Path(path_type=Path), help="[default: $KUBECONFIG, ~/.kube/config]"),
        click.option("--context", metavar="NAME", help="Of the kubeconfig.  [default: its current one]"),
        click.option("-n", "--namespace", metavar="NS", help="Of the experiment.  [default: the context's]"),
    ):
        collected = option(collected)
    return collected  # type: ignore[return-value]  # click calls it by keyword


class Cluster:
    """One API server and one namespace of it. May be used from several threads."""

    def __init__(self, client: Any, namespace: str, name: str) -> None:
        """``client`` is the library's ApiClient, ``name`` says to people which cluster this is."""
        self._client, self.namespace, self.name = client, namespace, name

    def get(self, path: str, query: Mapping[str, str] | None = None) -> Object | None:
        """One object; None where there is none.

        Raises:
            ClusterError: when the server refuses or does not answer.
        """
        try:
            return self.request("GET", path, query=query)
        except Refused as refused:
            if refused.status == 404:
                return None
            raise

    def list(self, path: str, **query: str) -> Iterator[Object]:
        """Every object of a collection, page by page."""
        more: str = ""
        while True:
            page = self.request(
                "GET", path, query={**query, "limit": str(_PAGE), **({"continue": more} if more else {})}
            )
            yield from page.get("items") or []
            more = (page.get("metadata") or {}).get("continue") or ""
            if not more:
                return

    def request(
        self, method: str, path: str, body: Object | None = None, query: Mapping[str, str] | None = None
    ) -> Object:
        """Send one request and give the JSON of its answer.

        Raises:
            Refused: with the server's own words.
            ClusterError: when nothing answers.
        """
        until = time.monotonic() + _PATIENCE_S
        while True:
            status, headers, data = self._send(method, path, body, query)
            if status not in _BUSY or time.monotonic() >= until:
                break
            after = headers.get("Retry-After") or ""
            time.sleep(min(float(after) if after.isdigit() else 1.0, 5.0))
        if status >= 400:
            raise Refused(status, _said(data))
        try:
            found = json.loads(data)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise ClusterError(
                f"{self.name} does not answer as a Kubernetes API server does; is --context the right one?"
            )
        return found

    def _send(
        self, method: str, path: str, body: Object | None, query: Mapping[str, str] | None
    ) -> tuple[int, Mapping[str, str], bytes]:
        from kubernetes.client.exceptions import ApiException
        from urllib3.exceptions import HTTPError

        url = self._client.configuration.host + path + (f"?{urlencode(query)}" if query else "")
        headers = {"Accept": "application/json", "Content-Type": "application/json", "User-Agent": "scalecurve"}
        try:
            self._client.update_params_for_auth(headers, [], ["BearerToken"], "", method, None)
            answer = self._client.rest_client.request(
                method, url, headers=headers, body=body, _request_timeout=(_CONNECT_S, _READ_S)
            )
            data = answer.read()
        except (HTTPError, ApiException, OSError) as error:
            raise ClusterError(
                f"no answer from {self.name}: {_why(error)}; is it up, is --context the right one?"
            ) from error
        return answer.status, answer.headers, data

    def path(self, api: str, plural: str, name: str = "") -> str:
        """Of a collection, or of one object, in this cluster's namespace; ``api`` is as ``/api/v1``."""
        return f"{api}/namespaces/{quote(self.namespace)}/{plural}" + (f"/{quote(name)}" if name else "")


def connect(where: Where) -> Cluster:
    """The cluster that the options or the kubeconfig's current context name; nothing is sent yet.

    Raises:
        ClusterError: without the client library, or without a usable kubeconfig.
    """
    try:
        import kubernetes.config
        from kubernetes.client import ApiClient, Configuration
    except ImportError:
        raise ClusterError(
            "the Kubernetes client is not installed: pip install -e '.[cluster]' in the clone to look into clusters"
        ) from None
    config: Any = kubernetes.config  # it has no types
    settings = Configuration()
    # The library waits and repeats a lost connection for minutes otherwise, and says nothing.
    settings.retries = False
    files = [where.kubeconfig] if where.kubeconfig is not None else _kubeconfigs()
    if not files and where.context is None and "KUBERNETES_SERVICE_HOST" in os.environ:
        try:
            config.load_incluster_config(client_configuration=settings)
        except config.ConfigException as error:
            raise ClusterError(f"inside a pod without a usable service account: {error}") from error
        mine = _SERVICE_ACCOUNT.read_text().strip() if _SERVICE_ACCOUNT.exists() else "default"
        return Cluster(ApiClient(settings), where.namespace or mine, "this cluster")
    if not files:
        raise ClusterError("no kubeconfig: set KUBECONFIG, or name one with --kubeconfig")
    if not files[0].is_file():
        raise ClusterError(f"--kubeconfig {files[0]}: no such file")
    # Named always: the library reads the environment once, when it is loaded.
    file = os.pathsep.join(map(str, files))
    try:
        contexts, current = config.list_kube_config_contexts(file)
        chosen = next((each for each in contexts if each["name"] == where.context), None) if where.context else current
        if chosen is None:
            names = ", ".join(each["name"] for each in contexts)
            raise ClusterError(f"--context {where.context}: not in the kubeconfig; there are: {names}")
        config.load_kube_config(file, context=chosen["name"], client_configuration=settings)
    except ClusterError:
        raise
    except Exception as error:  # whatever is in the file, or in a login plugin: the library lets it all through
        raise ClusterError(f"the kubeconfig cannot be used: {_why(error)}") from error
    namespace = where.namespace or (chosen.get("context") or {}).get("namespace") or "default"
    return Cluster(ApiClient(settings), namespace, f"{settings.host} (context {chosen['name']})")


def has_current_context() -> bool:
    """Whether a kubeconfig names a cluster to look at unasked; nothing is loaded where there is no such file."""
    import importlib.util

    if not _kubeconfigs() or importlib.util.find_spec("kubernetes") is None:
        return False
    import yaml

    for path in _kubeconfigs():
        try:
            read = yaml.safe_load(path.read_bytes())
        except (OSError, yaml.YAMLError):
            continue
        if isinstance(read, dict) and read.get("current-context"):
            return True
    return False


def _kubeconfigs() -> list[Path]:
    """The files there are of those that would be read."""
    named = os.environ.get("KUBECONFIG") or "~/.kube/config"
    return [path for part in named.split(os.pathsep) if part and (path := Path(part).expanduser()).is_file()]


def _said(data: bytes) -> str:
    """The server's message, or the beginning of whatever it sent."""
    try:
        return str(json.loads(data)["message"])
    except (ValueError, KeyError, TypeError):
        return " ".join(data[:300].decode(errors="replace").split())


def _why(error: BaseException) -> str:
    """The last of a chain of causes, in a line."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text.rpartition("object at 0x")[2].partition(">: ")[2] or text


def _behind(separator: str, text: str) -> str:
    return separator + text if text else ""
