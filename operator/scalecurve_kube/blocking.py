"""The client for synchronous code: an event loop in a thread, on which any thread may wait for an answer."""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from scalecurve_kube.address import ClusterAddress
from scalecurve_kube.errors import ClusterError
from scalecurve_kube.resources import Object, Resource

if TYPE_CHECKING:
    from scalecurve_kube.cluster import Cluster

_PATIENCE_S = 10.0
T = TypeVar("T")


class BlockingCluster:
    """One namespace of one API server; ``name`` tells people which cluster it is in."""

    def __init__(self, cluster: Cluster, loop: asyncio.AbstractEventLoop, namespace: str) -> None:
        self._cluster, self._loop = cluster, loop
        self.namespace, self.name = namespace, cluster.name

    def get(self, resource: Resource, name: str) -> Object | None:
        return _wait(self._loop, self._cluster.get(resource, self.namespace, name))

    def list(self, resource: Resource, *, all_namespaces: bool = False, **query: str) -> list[Object]:
        return _wait(self._loop, self._cluster.list(resource, "" if all_namespaces else self.namespace, **query))

    def lookup(self, path: str) -> Object | None:
        return _wait(self._loop, self._cluster.lookup(path))

    def request(self, method: str, path: str, body: Object | None = None) -> Object:
        return _wait(self._loop, self._cluster.request(method, path, body))


def connect(address: ClusterAddress) -> BlockingCluster:
    """The cluster that the address or the environment names; nothing is sent to it yet.

    Raises:
        ClusterError: no client library, or no usable kubeconfig.
    """
    try:
        from scalecurve_kube.cluster import Cluster
        from scalecurve_kube.login import log_in
    except ImportError:
        raise ClusterError("the Kubernetes client is not installed: pip install -e '.[cluster]' in the clone") from None
    loop = asyncio.new_event_loop()
    threading.Thread(target=_run, args=(loop,), name="kubernetes", daemon=True).start()

    async def start() -> BlockingCluster:
        login = await log_in(address)
        atexit.register(lambda: _wait(loop, login.client.close()))  # type: ignore[no-untyped-call]
        # A person is waiting: a cluster that does not answer at all is reported at once.
        cluster = Cluster(login.client, name=login.name, patience_s=_PATIENCE_S, retry_lost=False, login=login.renew)
        return BlockingCluster(cluster, loop, login.namespace)

    try:
        return _wait(loop, start())
    except ClusterError:
        loop.call_soon_threadsafe(loop.stop)
        raise


def _run(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_forever()
    loop.close()


def _wait(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run_coroutine_threadsafe(work, loop).result()
