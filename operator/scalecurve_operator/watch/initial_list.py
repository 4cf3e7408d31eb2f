"""Listing everything once before kopf watches, so that no reconcile works from half of the objects.

kopf's own means, ``kopf.index``, parks every object in a task of its own until all are listed, and wakes all of them
for each one (``aiotoggles.ToggleSet`` of 1.45): the time of a start was quadratic in the objects, minutes with five
thousand finished trials. So we list page by page, and kopf lists once more after us.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from scalecurve_api.spec.job_kinds import Runner
from scalecurve_api.spec.object_names import TRIAL_LABEL
from scalecurve_kube.cluster import Cluster
from scalecurve_kube.errors import ApiStatusError, UnreachableError
from scalecurve_kube.resources import EXPERIMENTS, TRIALS, Object, Resource, resource_of
from scalecurve_operator.cache.cached_objects import Key
from scalecurve_operator.cache.object_cache import ObjectCache, trim

_QUIET_S = 10.0
_EXPIRED = 410

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class WatchedKind:
    """A kind of object to list and watch; ``upsert`` and ``delete`` return the experiment to reconcile."""

    resource: Resource
    query: Mapping[str, str]
    upsert: Callable[[Object], Key | None]
    delete: Callable[[Object], Key | None]


def watched_kinds(cache: ObjectCache) -> list[WatchedKind]:
    """Experiments, trials, and the jobs of trials."""
    ours = {"labelSelector": TRIAL_LABEL}
    return [
        WatchedKind(EXPERIMENTS, {}, cache.upsert_experiment, cache.delete_experiment),
        WatchedKind(TRIALS, {}, cache.upsert_trial, cache.delete_trial),
        *(WatchedKind(resource_of(runner), ours, cache.upsert_job, cache.delete_job) for runner in Runner),
    ]


class InitialList:
    """Fills the cache; ``unseen`` holds the listed objects, by uid, that no watch has shown since.

    What is deleted between our list and kopf's is in neither kopf's list nor its watch, and would stay in the cache
    forever. So ``check_unseen`` fetches every object that kopf does not show.
    """

    def __init__(self, cluster: Cluster, namespaces: Sequence[str], kinds: Sequence[WatchedKind]) -> None:
        self.cluster, self.namespaces, self.kinds = cluster, namespaces or [""], kinds
        self.unseen: dict[str, tuple[WatchedKind, Object]] = {}

    async def load(self) -> None:
        """Cache every object; a kind that is not installed has none.

        Raises:
            ApiStatusError, UnreachableError: by the API server.
        """
        for kind in self.kinds:
            for namespace in self.namespaces:
                await self._load(kind, namespace)

    def seen(self, uid: str) -> None:
        self.unseen.pop(uid, None)

    async def check_unseen(self, enqueue: Callable[[Key, float], None]) -> None:
        """Once the watches show no more of the unseen objects, fetch these; forget those that are gone."""
        remaining = -1
        while self.unseen:
            if len(self.unseen) != remaining:
                remaining = len(self.unseen)
                await asyncio.sleep(_QUIET_S)
                continue
            for uid, (kind, body) in list(self.unseen.items()):
                try:
                    gone = await self._is_gone(kind, body)
                except (ApiStatusError, UnreachableError) as error:
                    logger.warning("%s %s: %s", kind.resource.kind, body["metadata"]["name"], error)
                    remaining = -1
                    break
                self.seen(uid)
                if gone and (key := kind.delete(body)) is not None:
                    logger.info("%s: %s was deleted before the watch began", key, body["metadata"]["name"])
                    enqueue(key, 0.0)

    async def _load(self, kind: WatchedKind, namespace: str) -> None:
        while True:
            first = True
            try:
                async for page in self.cluster.pages(kind.resource, namespace, **kind.query):
                    first = False
                    for body in page:
                        self._cache(kind, body)
                return
            except ApiStatusError as refused:
                if refused.status == 404:
                    return
                if refused.status != _EXPIRED or first:
                    raise
                # The list took too long: once more from the beginning.

    def _cache(self, kind: WatchedKind, body: Object) -> None:
        body.setdefault("kind", kind.resource.kind)  # lists of built-in kinds omit it
        kind.upsert(body)
        metadata = body["metadata"]
        kept = {name: metadata.get(name) for name in ("name", "namespace", "uid", "labels")}
        self.unseen[metadata["uid"]] = (kind, {"metadata": kept})
        trim(body, kind.resource.plural)

    async def _is_gone(self, kind: WatchedKind, body: Object) -> bool:
        metadata = body["metadata"]
        current = await self.cluster.get(kind.resource, metadata["namespace"], metadata["name"])
        return current is None or current["metadata"]["uid"] != metadata["uid"]
