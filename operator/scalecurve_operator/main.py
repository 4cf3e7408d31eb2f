"""Every kopf handler, and the one process around them: lease, probes, watches, worklist.

Handlers take note and nudge, no more. The first turn is made after ``Survey`` has listed everything: never on half a
picture. No handler keeps state in an object (kopf's annotations, finalizers): what it takes to go on is in the trials'
own statuses.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import kopf
from kubernetes.aio import config
from kubernetes.aio.client import ApiClient, Configuration

from scalecurve_api.spec.object_names import EXPERIMENT_LABEL, TRIAL_LABEL
from scalecurve_kube.client import EXPERIMENTS, Cluster, Object, Resource
from scalecurve_kube.leader_election import Leadership
from scalecurve_operator import health
from scalecurve_operator.cache.object_cache import Key, Sightings
from scalecurve_operator.cache.trial_index import jobs_ended
from scalecurve_operator.cache.trim import shed
from scalecurve_operator.reconcile.reconciler import Controller
from scalecurve_operator.reconcile.workqueue import Worklist
from scalecurve_operator.runners import RUNNERS
from scalecurve_operator.settings import Settings
from scalecurve_operator.watch.initial_list import Kind, Survey, kinds
from scalecurve_operator.watch.kopf_stubs import NoMemories, NoProgress, NothingHandled

logger = logging.getLogger(__name__)

_LIST_CHUNK = 250
_LAST_WORDS_S = 3.0
Nudge = Callable[[Key, float], None]


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
            web = health.Web(self._why_sick, lambda: self.standby, self.controller.show)
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
        keeping = asyncio.create_task(self.lease.keep(), name="lease")
        watched = kinds(self.sightings)
        survey = Survey(self.cluster, self.settings.namespaces, watched)
        if not await self._or_stopped(survey.take()):
            keeping.cancel()
            return 0
        registry = handlers(watched, self.sightings, self.worklist.nudge, survey.shown)
        settings = kopf_settings(namespaced=bool(self.settings.namespaces))
        ready = asyncio.Event()
        tasks = await kopf.spawn_tasks(
            registry=registry,
            settings=settings,
            memories=NoMemories(),
            namespaces=list(self.settings.namespaces),
            clusterwide=not self.settings.namespaces,
            standalone=True,
            ready_flag=ready,
            stop_flag=self.stop,
        )
        self._heed_signals()  # kopf has put its own handlers in their place, which tell us nothing
        # At its end kopf would cancel every task of this process, the lease's and running turns included.
        watches = asyncio.create_task(kopf.run_tasks(tasks, ignored=_Every()), name="kopf")
        settling = asyncio.create_task(survey.settle(self.worklist.nudge), name="survey")
        for key in list(self.sightings.families):
            self.worklist.nudge(key)
        getting_ready = asyncio.create_task(ready.wait())
        await asyncio.wait({watches, keeping, getting_ready}, return_when=asyncio.FIRST_COMPLETED)
        self.standby = None
        stopping = asyncio.create_task(self.stop.wait())
        await asyncio.wait({watches, keeping, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if keeping.done():
            # Another may lead already: not one more write may leave this process.
            logger.error("the lease is lost; leaving at once")
            os._exit(1)
        if not (asked := self.stop.is_set()):
            logger.error("the watches have ended; leaving, to be started anew")
        self.stop.set()
        await self.worklist.close()
        settling.cancel()
        keeping.cancel()
        # kopf 1.45.2 may wait for itself for ever: what should cancel its streams fails (clients/api.py, stream()).
        await asyncio.wait({watches}, timeout=_LAST_WORDS_S)
        if watches.done() and not watches.cancelled() and (error := watches.exception()) is not None:
            logger.error("%s: %s", type(error).__name__, error)
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


class _Every(frozenset["asyncio.Task[Any]"]):
    """Holds whatever it is asked for."""

    def __contains__(self, task: object) -> bool:
        return True


def handlers(
    watched: Sequence[Kind], sightings: Sightings, nudge: Nudge, shown: Callable[[str], None]
) -> kopf.OperatorRegistry:
    """The registry: for each kind an event handler that takes note and nudges."""
    registry = kopf.OperatorRegistry()
    kopf.on.login(registry=registry)(_kopf_login)
    for kind in watched:
        _watch(registry, kind, sightings, nudge, shown)
    return registry


def _watch(
    registry: kopf.OperatorRegistry, kind: Kind, sightings: Sightings, nudge: Nudge, shown: Callable[[str], None]
) -> None:
    resource = kind.resource

    @kopf.on.event(resource.group, resource.version, resource.plural, registry=registry, id=f"note-{resource.plural}")
    async def note(event: kopf.RawEvent, **_: Any) -> None:
        raw: Object = event["object"]  # type: ignore[assignment]
        sightings.echoed(resource.plural, int(raw["metadata"]["resourceVersion"]))
        shown(raw["metadata"]["uid"])
        if event["type"] == "DELETED":
            key = kind.lose(raw) or _key_of(raw, resource)
        else:
            key = kind.see(raw)
            shed(raw, resource.plural)  # kopf holds on to it for a while
        if key is not None:
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
        # As the survey does: of other people's jobs there may be very many.
        settings.watching.label_selectors[runner.group, runner.version, runner.plural] = TRIAL_LABEL
    return settings


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
