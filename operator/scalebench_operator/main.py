"""Every kopf handler, and the one process around them: lease, probes, watches, worklist.

Handlers only nudge. ``kopf.index`` functions take note of what each watch shows, because kopf holds back all other
handlers until every index is filled from the first lists: no turn is made on half a picture. No handler keeps state in
an object (kopf's annotations, finalizers): what it takes to go on is in the trials' own statuses.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import time
from collections.abc import Callable, Coroutine
from typing import Any

import kopf
from kubernetes.aio import config
from kubernetes.aio.client import ApiClient, Configuration

from scalebench_api.objects import EXPERIMENT_LABEL, TRIAL_LABEL
from scalebench_operator import health
from scalebench_operator.cluster import EXPERIMENTS, TRIALS, Cluster, Object, Resource
from scalebench_operator.controller import Controller
from scalebench_operator.lease import Leadership
from scalebench_operator.ledger import jobs_ended
from scalebench_operator.runners import RUNNERS
from scalebench_operator.settings import Settings
from scalebench_operator.sightings import Key, Sightings
from scalebench_operator.stateless import NoProgress, NothingHandled
from scalebench_operator.worklist import Worklist

logger = logging.getLogger(__name__)

_LIST_CHUNK = 250
See = Callable[[Object], Key | None]


class Operator:
    """One operator process."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.sightings = Sightings()
        self.stop = asyncio.Event()
        self.standby: str | None = "starting"
        self.watching = asyncio.Event()

    async def run(self) -> int:
        """Wait for the lease, then watch and work until told to stop; the exit code."""
        self._heed_signals()
        await _log_in()
        async with ApiClient(_configuration()) as client:
            self.lease = Leadership(
                Cluster(client),
                self.settings.lease_namespace,
                self.settings.lease_name,
                self.settings.identity,
                self.settings.lease_seconds,
            )
            self.cluster = Cluster(client, may_write=lambda: self.lease.held)
            self.worklist = Worklist(
                lambda key: self.controller.turn(key), lambda key: jobs_ended(self.sightings.families.get(key))
            )
            self.controller = Controller(
                self.cluster, self.settings, self.sightings, self.worklist.nudge, lambda: self.lease.held
            )
            web = health.Web(self._why_sick, lambda: self.standby)
            await web.start(self.settings.metrics_port, self.settings.health_port)
            try:
                return await self._lead()
            finally:
                await self.worklist.close()
                await self.lease.release()
                await web.stop()

    async def _lead(self) -> int:
        if not await self._or_stopped(self.lease.acquire(self._stand_by)):
            return 0
        logger.info("holding the lease as %s", self.settings.identity)
        registry = handlers(self.sightings, self.worklist.nudge)
        settings = kopf_settings(namespaced=bool(self.settings.namespaces))
        ready, ours = asyncio.Event(), asyncio.all_tasks()
        tasks = await kopf.spawn_tasks(
            registry=registry,
            settings=settings,
            namespaces=list(self.settings.namespaces),
            clusterwide=not self.settings.namespaces,
            standalone=True,
            ready_flag=ready,
            stop_flag=self.stop,
        )
        self._heed_signals()  # kopf has put its own handlers in their place, which tell us nothing
        watches = asyncio.create_task(kopf.run_tasks(tasks, ignored=ours), name="kopf")
        keeping = asyncio.create_task(self.lease.keep(), name="lease")
        getting_ready = asyncio.create_task(ready.wait())
        await asyncio.wait({watches, keeping, getting_ready}, return_when=asyncio.FIRST_COMPLETED)
        self.standby = None
        stopping = asyncio.create_task(self.stop.wait())
        await asyncio.wait({watches, keeping, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if keeping.done():
            # Another may lead already: not one more write may leave this process.
            logger.error("the lease is lost; leaving at once")
            os._exit(1)
        asked = self.stop.is_set()
        self.stop.set()
        await self.worklist.close()
        keeping.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watches
        return 0 if asked else 1

    def _heed_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for signum in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(signum, self.stop.set)

    async def _or_stopped(self, work: Coroutine[Any, Any, None]) -> bool:
        task, stopping = asyncio.create_task(work), asyncio.create_task(self.stop.wait())
        done, _ = await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if task in done:
            task.result()
            return True
        task.cancel()
        return False

    def _stand_by(self, why: str) -> None:
        self.standby = f"standing by: the lease {self.lease.namespace}/{self.lease.name} {why}"
        logger.warning("%s", self.standby)

    def _why_sick(self) -> str | None:
        return health.sick(
            self.sightings.unechoed,
            self.worklist.oldest_turn_s(),
            self.lease.cluster.last_answer,
            self.lease.held,
            time.monotonic(),
        )


def handlers(sightings: Sightings, nudge: Callable[[Key, float], None]) -> kopf.OperatorRegistry:
    """The registry: for each kind an index function that takes note, and an event handler that nudges."""
    registry = kopf.OperatorRegistry()
    kopf.on.login(registry=registry)(_kopf_login)
    _watch(registry, sightings, nudge, EXPERIMENTS, sightings.see_experiment, sightings.lose_experiment)
    _watch(registry, sightings, nudge, TRIALS, sightings.see_trial, sightings.lose_trial)
    for runner in RUNNERS.values():
        resource = Resource(runner.group, runner.version, runner.plural, runner.kind)
        _watch(registry, sightings, nudge, resource, sightings.see_job, sightings.lose_job)
    return registry


def _watch(
    registry: kopf.OperatorRegistry,
    sightings: Sightings,
    nudge: Callable[[Key, float], None],
    resource: Resource,
    see: See,
    lose: See,
) -> None:
    where = (resource.group, resource.version, resource.plural)

    @kopf.index(*where, registry=registry, id=f"see-{resource.plural}")
    async def note(body: kopf.Body, **_: Any) -> None:
        raw = _raw(body)
        sightings.echoed(resource.plural, int(raw["metadata"]["resourceVersion"]))
        if (key := see(raw)) is not None:
            sightings.changed.add(key)

    @kopf.on.event(*where, registry=registry, id=f"nudge-{resource.plural}")
    async def tell(event: kopf.RawEvent, **_: Any) -> None:
        raw: Object = dict(event["object"])
        if event["type"] == "DELETED":  # kopf shows it to no index, nor what happened shortly before it
            sightings.echoed(resource.plural, int(raw["metadata"]["resourceVersion"]))
        key = lose(raw) if event["type"] == "DELETED" else None
        key = key or _key_of(raw, resource)
        if key is not None and (key in sightings.changed or event["type"] == "DELETED"):
            sightings.changed.discard(key)
            nudge(key, 0.0)


def _key_of(raw: Object, resource: Resource) -> Key | None:
    metadata = raw["metadata"]
    if resource is EXPERIMENTS:
        return Key(metadata["namespace"], metadata["name"])
    experiment = (metadata.get("labels") or {}).get(EXPERIMENT_LABEL)
    return Key(metadata["namespace"], experiment) if experiment else None


def kopf_settings(namespaced: bool = False) -> kopf.OperatorSettings:
    """What kopf is told; each line with the reason."""
    settings = kopf.OperatorSettings()
    # Without rights to list CRDs and namespaces, kopf begins its work only after 19 s of asking again and again.
    settings.scanning.disabled = namespaced
    # No copies of every object at every event, for a comparison that no handler asks for.
    settings.persistence.diffbase_storage = NothingHandled()
    settings.persistence.progress_storage = NoProgress()
    settings.posting.enabled = False  # Events are few and our own; kopf's were half of a peer's writes
    settings.watching.chunk_size = _LIST_CHUNK  # a list of thousands of trials in one piece is a spike of memory
    settings.watching.server_timeout = 600  # a watch that died unseen is made anew in a while
    settings.watching.connect_timeout = 30
    settings.queueing.idle_timeout = 2.0  # a task for each object just seen: let them go early
    settings.networking.error_backoffs = (0.1, 0.2, 0.5, 1, 2, 5, 10)
    for runner in RUNNERS.values():
        # Jobs of other people are none of our business, and there may be very many.
        settings.watching.label_selectors[runner.group, runner.version, runner.plural] = TRIAL_LABEL
    return settings


def _raw(body: kopf.Body) -> Object:
    return dict(body)


def _kopf_login(**kwargs: Any) -> Any:
    """Without the synchronous client library, which takes 40 MiB only to be imported."""
    return kopf.login_with_service_account(**kwargs) or kopf.login_with_kubeconfig(**kwargs)


def _configuration() -> Configuration:
    """The library's, without asking the environment for a proxy and ~/.netrc for a password at each request.

    aiohttp does that in two other threads, one after the other. kopf's own requests do not ask either; a proxy belongs
    into the kubeconfig.
    """
    configuration = Configuration.get_default_copy()
    configuration.client_session_kwargs = {"trust_env": False}
    return configuration


async def _log_in() -> None:
    if os.environ.get("KUBERNETES_SERVICE_HOST") and not os.environ.get("KUBECONFIG"):
        config.load_incluster_config()  # type: ignore[no-untyped-call]
    else:
        await config.load_kube_config()  # type: ignore[no-untyped-call]
