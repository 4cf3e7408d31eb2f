"""From a kubeconfig or a service account to an authenticated client of the library."""

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubernetes.aio import config
from kubernetes.aio.client import ApiClient, Configuration

from scalecurve_kube.address import DEFAULT_ADDRESS, ClusterAddress, kubeconfig_files
from scalecurve_kube.errors import ClusterError

_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


@dataclass(frozen=True)
class Login:
    """An authenticated client, the namespace to work in, and how people know the cluster."""

    client: ApiClient
    namespace: str
    name: str
    renew: Callable[[], Awaitable[object]] | None = None
    """obtains new credentials where a login plugin issues them; a service account's are renewed by the library"""


async def log_in(address: ClusterAddress = DEFAULT_ADDRESS, *, trust_environment: bool = True) -> Login:
    """Log in to the cluster that the address or the environment names; nothing is sent to it yet.

    Without ``trust_environment`` no variable is read for a proxy and no ~/.netrc for a password: aiohttp does that for
    every request, in threads.

    Raises:
        ClusterError: no usable kubeconfig or service account.
    """
    settings = Configuration()
    settings.client_session_kwargs = {"trust_env": trust_environment}
    files = kubeconfig_files(address)
    if not files and address.context is None and "KUBERNETES_SERVICE_HOST" in os.environ:
        try:
            config.load_incluster_config(client_configuration=settings)  # type: ignore[no-untyped-call]
        except config.ConfigException as error:
            raise ClusterError(f"this pod has no usable service account: {error}") from error
        namespace = _NAMESPACE_FILE.read_text().strip() if _NAMESPACE_FILE.exists() else "default"
        return Login(ApiClient(settings), address.namespace or namespace, "this cluster")
    if not files:
        raise ClusterError("no kubeconfig: set KUBECONFIG, or use --kubeconfig")
    if not files[0].is_file():
        raise ClusterError(f"--kubeconfig {files[0]}: no such file")
    paths = os.pathsep.join(map(str, files))
    try:
        context = _context(paths, address.context)
        loader: Any = await config.load_kube_config(paths, context=context["name"], client_configuration=settings)  # type: ignore[no-untyped-call]
    except ClusterError:
        raise
    except Exception as error:  # whatever is wrong in the file or a login plugin: the library lets it all through
        raise ClusterError(f"unusable kubeconfig: {' '.join(str(error).split()) or type(error).__name__}") from error
    namespace = address.namespace or (context.get("context") or {}).get("namespace") or "default"
    name = f"{settings.host} (context {context['name']})"
    return Login(ApiClient(settings), namespace, name, lambda: loader.load_and_set(settings))


def _context(paths: str, name: str | None) -> dict[str, Any]:
    contexts, current = config.list_kube_config_contexts(paths)  # type: ignore[no-untyped-call]
    selected = next((context for context in contexts if context["name"] == name), None) if name else current
    if selected is None:
        names = ", ".join(context["name"] for context in contexts)
        raise ClusterError(f"--context {name}: not in the kubeconfig, which has {names}")
    return dict(selected.value if hasattr(selected, "value") else selected)
