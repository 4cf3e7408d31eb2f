"""The operator process: leader election, probes, initial list, watches, work queue.

Handlers only update the cache and enqueue. The first reconcile begins after ``InitialList`` has cached everything.
"""

import asyncio
import logging
import os
import signal
import time
from collections.abc import Coroutine
from typing import Any

import kopf
from kubernetes.aio.client import ApiClient

from scalecurve_kube.cluster import Cluster
from scalecurve_kube.leader_election import LeaderElector
from scalecurve_kube.login import log_in
from scalecurve_operator import health
from scalecurve_operator.cache.object_cache import ObjectCache
from scalecurve_operator.cache.trial_index import has_ended_job
from scalecurve_operator.metrics import LEADING, count_request
from scalecurve_operator.reconcile.reconciler import Reconciler
from scalecurve_operator.reconcile.workqueue import WorkQueue
from scalecurve_operator.settings import Settings
from scalecurve_operator.watch.handlers import NoMemories, handlers, kopf_settings
from scalecurve_operator.watch.initial_list import InitialList, watched_kinds

logger = logging.getLogger(__name__)

_SHUTDOWN_S = 3.0


class Operator:
    """One operator process."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.cache = ObjectCache()
        self.stop = asyncio.Event()
        self.standby: str | None = "starting"

    async def run(self) -> int:
        """Wait for the lease, then watch and reconcile until told to stop; the exit code."""
        self._handle_signals()
        # aiohttp would look for a proxy and a password in two other threads, for every request. kopf's own requests do
        # not look either; a proxy belongs into the kubeconfig.
        login = await log_in(trust_environment=False)
        async with login.client as client:
            self._build(client)
            server = health.HealthServer(self._unhealthy, lambda: self.standby, self.reconciler.update_gauges)
            await server.start(self.settings.metrics_port, self.settings.health_port)
            try:
                return await self._lead()
            finally:
                await self.queue.close()
                self.reconciler.payload_budget.judges.close()
                await self.elector.release()
                await server.stop()

    def _build(self, client: ApiClient) -> None:
        settings = self.settings
        self.elector = LeaderElector(
            Cluster(client, on_answer=count_request),
            settings.lease_namespace,
            settings.lease_name,
            settings.identity,
            settings.lease_seconds,
            on_change=lambda leading: LEADING.set(int(leading)),
        )
        self.cluster = Cluster(client, may_write=lambda: self.elector.leading, on_answer=count_request)
        self.queue = WorkQueue(
            lambda key: self.reconciler.reconcile(key), lambda key: has_ended_job(self.cache.experiments.get(key))
        )
        self.reconciler = Reconciler(
            self.cluster, settings, self.cache, self.queue.enqueue, lambda: self.elector.leading
        )

    async def _lead(self) -> int:
        if not await self._unless_stopped(self.elector.acquire(self._stand_by)):
            return 0
        logger.info("holding the lease as %s", self.settings.identity)
        lease = asyncio.create_task(self.elector.keep(), name="lease")
        kinds = watched_kinds(self.cache)
        initial = InitialList(self.cluster, self.settings.namespaces, kinds)
        if not await self._unless_stopped(initial.load()):
            lease.cancel()
            return 0
        ready = asyncio.Event()
        tasks = await kopf.spawn_tasks(
            registry=handlers(kinds, self.cache, self.queue.enqueue, initial.seen),
            settings=kopf_settings(namespaced=bool(self.settings.namespaces)),
            memories=NoMemories(),
            namespaces=list(self.settings.namespaces),
            clusterwide=not self.settings.namespaces,
            standalone=True,
            ready_flag=ready,
            stop_flag=self.stop,
        )
        self._handle_signals()  # kopf has installed its own handlers, which do not set our event
        # When it ends, kopf would cancel every task of this process, the lease's and running reconciles included.
        watches = asyncio.create_task(kopf.run_tasks(tasks, ignored=_Everything()), name="kopf")
        checking = asyncio.create_task(initial.check_unseen(self.queue.enqueue), name="initial list")
        for key in list(self.cache.experiments):
            self.queue.enqueue(key)
        await _first_of(watches, lease, asyncio.create_task(ready.wait()))
        await self.reconciler.payload_budget.judges.start()
        self.standby = None
        await _first_of(watches, lease, asyncio.create_task(self.stop.wait()))
        if lease.done():
            # Another operator may already lead: not one more write may leave this process.
            logger.error("the lease is lost; exiting at once")
            os._exit(1)
        if not (requested := self.stop.is_set()):
            logger.error("the watches have ended; exiting to be restarted")
        self.stop.set()
        await self.queue.close()
        checking.cancel()
        lease.cancel()
        # kopf 1.45.2 may wait for itself forever: what should cancel its streams fails (clients/api.py, stream()).
        await asyncio.wait({watches}, timeout=_SHUTDOWN_S)
        if watches.done() and not watches.cancelled() and (error := watches.exception()) is not None:
            logger.error("%s: %s", type(error).__name__, error)
        return 0 if requested else 1

    def _handle_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for signum in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(signum, self.stop.set)

    async def _unless_stopped(self, work: Coroutine[Any, Any, None]) -> bool:
        task, stopping = asyncio.create_task(work), asyncio.create_task(self.stop.wait())
        done = await _first_of(task, stopping)
        stopping.cancel()
        if task in done:
            task.result()
            return True
        task.cancel()
        return False

    def _stand_by(self, reason: str) -> None:
        self.standby = f"standing by: the lease {self.elector.namespace}/{self.elector.name} {reason}"
        logger.warning("%s", self.standby)

    def _unhealthy(self) -> str | None:
        return health.unhealthy(
            self.cache.unconfirmed,
            self.queue.oldest_reconcile_seconds(),
            self.elector.cluster.last_answer,
            self.elector.leading,
            time.monotonic(),
        )


class _Everything(frozenset["asyncio.Task[Any]"]):
    """Contains whatever is looked up."""

    def __contains__(self, task: object) -> bool:
        return True


async def _first_of(*tasks: asyncio.Task[Any]) -> set[asyncio.Task[Any]]:
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    return done
