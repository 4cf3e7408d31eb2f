"""The first look at everything that is there, before kopf watches and any turn is made on half a picture.

kopf's own means for that, ``kopf.index``, parks every object in a task of its own until all were listed, and wakes all
of them at each one (``aiotoggles.ToggleSet`` of 1.45): the time of a start grew with the square of the objects, to
minutes with five thousand finished trials. So we list by ourselves, page by page, and kopf lists once more behind us.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from scalecurve_api.spec.object_names import TRIAL_LABEL
from scalecurve_kube.client import EXPERIMENTS, TRIALS, Cluster, Object, Refused, Resource, Unreachable
from scalecurve_operator.cache.object_cache import Key, Sightings
from scalecurve_operator.cache.trim import shed
from scalecurve_operator.runners import RUNNERS

_PAGE = 250
_QUIET_S = 10.0
_GONE = 410

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Kind:
    """What is watched of one kind, and who takes note of it; ``see`` and ``lose`` give the experiment concerned."""

    resource: Resource
    selector: str
    see: Callable[[Object], Key | None]
    lose: Callable[[Object], Key | None]


def kinds(sightings: Sightings) -> list[Kind]:
    """Experiments, trials, and the jobs of trials; jobs of other people are none of our business."""
    jobs = [Resource(each.group, each.version, each.plural, each.kind) for each in RUNNERS.values()]
    return [
        Kind(EXPERIMENTS, "", sightings.see_experiment, sightings.lose_experiment),
        Kind(TRIALS, "", sightings.see_trial, sightings.lose_trial),
        *(Kind(job, TRIAL_LABEL, sightings.see_job, sightings.lose_job) for job in jobs),
    ]


class Survey:
    """Lists every kind; ``awaited`` are the listed objects, by uid, that no watch has shown since.

    What is deleted after our list and before kopf's is in neither kopf's list nor its watch: such an object would be
    believed in for ever. So ``settle`` asks for each that kopf does not show.
    """

    def __init__(self, cluster: Cluster, namespaces: Sequence[str], watched: Sequence[Kind]) -> None:
        self.cluster, self.namespaces, self.watched = cluster, namespaces, watched
        self.awaited: dict[str, tuple[Kind, Object]] = {}

    async def take(self) -> None:
        """Take note of every object; a kind that is not installed has none.

        Raises:
            Refused, Unreachable: when the API server does not let us.
        """
        for kind in self.watched:
            for path in _collections(kind.resource, self.namespaces):
                await self._list(kind, path)

    def shown(self, uid: str) -> None:
        """A watch has shown this object."""
        self.awaited.pop(uid, None)

    async def settle(self, nudge: Callable[[Key, float], None]) -> None:
        """Once the watches show no more of the awaited objects, ask for the others; lose those that are gone."""
        left = -1
        while self.awaited:
            if len(self.awaited) != left:
                left = len(self.awaited)
                await asyncio.sleep(_QUIET_S)
                continue
            for uid, (kind, body) in list(self.awaited.items()):
                try:
                    gone = await self._gone(kind, body)
                except (Refused, Unreachable) as error:
                    logger.warning("%s %s: %s", kind.resource.kind, body["metadata"]["name"], error)
                    left = -1
                    break
                self.shown(uid)
                if gone and (key := kind.lose(body)) is not None:
                    logger.info("%s: %s went while nobody watched", key, body["metadata"]["name"])
                    nudge(key, 0.0)

    async def _list(self, kind: Kind, path: str) -> None:
        query: dict[str, str] = {"limit": str(_PAGE), "labelSelector": kind.selector}
        while True:
            try:
                page = await self.cluster.request("GET", path, query=query)
            except Refused as refused:
                if refused.status == _GONE and query.pop("continue", None) is not None:
                    continue  # it took too long: once more from the beginning
                if refused.status == 404:
                    return
                raise
            for body in page.get("items") or ():
                self._note(kind, body)
            if not (token := page["metadata"].get("continue")):
                return
            query["continue"] = token

    def _note(self, kind: Kind, body: Object) -> None:
        body.setdefault("kind", kind.resource.kind)  # lists of built-in kinds leave it out
        kind.see(body)
        metadata = body["metadata"]
        kept = {name: metadata.get(name) for name in ("name", "namespace", "uid", "labels")}
        self.awaited[metadata["uid"]] = (kind, {"metadata": kept})
        shed(body, kind.resource.plural)

    async def _gone(self, kind: Kind, body: Mapping[str, Object]) -> bool:
        metadata = body["metadata"]
        found = await self.cluster.get(kind.resource, metadata["namespace"], metadata["name"])
        return found is None or found["metadata"]["uid"] != metadata["uid"]


def _collections(resource: Resource, namespaces: Sequence[str]) -> list[str]:
    """Paths of all objects of a kind, in these namespaces or, without any, in the whole cluster."""
    if namespaces:
        return [resource.path(namespace) for namespace in namespaces]
    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    return [f"{root}/{resource.plural}"]
