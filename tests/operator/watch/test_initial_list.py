"""The first list of everything, against an API server that is played in a few lines."""

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import pytest

from scalecurve_kube.cluster import Cluster
from scalecurve_kube.errors import ApiStatusError
from scalecurve_kube.resources import EXPERIMENTS, TRIALS, Object, Resource
from scalecurve_operator.cache.cached_objects import Key
from scalecurve_operator.cache.object_cache import ObjectCache
from scalecurve_operator.watch.handlers import handlers
from scalecurve_operator.watch.initial_list import InitialList, watched_kinds
from tests.waiting import PATIENCE_S

KEY = Key("ns", "e")
LABELS = {"scalecurve.dev/experiment": "e", "scalecurve.dev/trial": "e-t", "scalecurve.dev/attempt": "1"}


def thing(name: str, version: int = 1, **more: Any) -> Object:
    metadata = {"name": name, "namespace": "ns", "uid": f"u-{name}", "resourceVersion": str(version), "labels": LABELS}
    return {"metadata": metadata, "spec": {}, "status": {}, **more}


class Played(Cluster):
    """Collections by path; a page holds two. `tokens` that have expired are refused once."""

    def __init__(self, objects: Mapping[str, list[Object]], namespaces: tuple[str, ...] = ()) -> None:
        super().__init__(cast(Any, None))
        self.objects = dict(objects)
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.expired = {"never"}
        self.existing: dict[str, Object] = {}

    async def request(self, method: str, path: str, body: Object | None = None, **options: Any) -> Object:
        query: dict[str, str] = options["query"]
        self.asked.append((path, dict(query)))
        if path not in self.objects:
            raise ApiStatusError(404, "NotFound", "no such kind")
        token = query.get("continue") or "0"
        if token in self.expired:
            self.expired.discard(token)
            raise ApiStatusError(410, "Expired", "the continue parameter is too old")
        at, found = int(token), self.objects[path]
        more = {"continue": str(at + 2)} if at + 2 < len(found) else {}
        return {"metadata": more, "items": found[at : at + 2]}

    async def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        return self.existing.get(name)


def initial_list(played: Played, namespaces: tuple[str, ...] = ()) -> tuple[InitialList, ObjectCache]:
    cache = ObjectCache()
    return InitialList(played, namespaces, watched_kinds(cache)), cache


ALL = {
    "/apis/scalecurve.dev/v1alpha1/scalingexperiments": [thing("e")],
    "/apis/scalecurve.dev/v1alpha1/scalingtrials": [thing(f"e-t{i}") for i in range(5)],
    "/apis/batch/v1/jobs": [thing("e-t-a1")],
}


def copied() -> dict[str, list[Object]]:
    return {path: [thing(each["metadata"]["name"]) for each in found] for path, found in ALL.items()}


def test_every_page_of_every_kind_that_is_there() -> None:
    played = Played(copied())
    played.expired.add("2")
    initial, cache = initial_list(played)
    asyncio.run(initial.load())
    objects = cache.experiments[KEY]
    assert objects.experiment is not None
    assert len(objects.trials) == 5
    assert [job.body["kind"] for job in objects.jobs.values()] == ["Job"], "lists of built-in kinds leave it out"
    assert len(initial.unseen) == 7
    assert all(query["labelSelector"] for path, query in played.asked if "jobs" in path)
    assert any("mpijobs" in path for path, _ in played.asked)


def test_only_the_namespaces_that_are_watched() -> None:
    path = TRIALS.path("ns")
    initial, cache = initial_list(Played({path: [thing("e-t0")]}), ("ns",))
    asyncio.run(initial.load())
    assert list(cache.experiments[KEY].trials) == ["e-t0"]


def test_a_refusal_is_not_taken_for_emptiness() -> None:
    class Forbidding(Played):
        async def request(self, method: str, path: str, body: Object | None = None, **options: Any) -> Object:
            raise ApiStatusError(403, "Forbidden", "no")

    initial, _ = initial_list(Forbidding({}))
    with pytest.raises(ApiStatusError):
        asyncio.run(initial.load())


def test_what_went_before_anybody_watched_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scalecurve_operator.watch.initial_list._QUIET_S", 0.01)
    played, enqueued = Played(copied()), list[Key]()
    initial, cache = initial_list(played)
    registry = handlers(initial.kinds, cache, lambda key, after: enqueued.append(key), initial.seen)
    (handler,) = [each for each in registry._watching.get_all_handlers() if each.id == f"cache-{EXPERIMENTS.plural}"]
    played.existing = {"e-t0": thing("e-t0"), "e-t1": {"metadata": {"uid": "another"}}}

    async def run() -> None:
        await initial.load()
        await handler.fn(event={"type": None, "object": thing("e")})  # type: ignore[misc, call-arg, arg-type]
        assert len(initial.unseen) == 6
        await asyncio.wait_for(initial.check_unseen(lambda key, after: enqueued.append(key)), PATIENCE_S)

    asyncio.run(run())
    assert cache.experiments[KEY].experiment is not None, "shown by its watch, and not asked for"
    assert list(cache.experiments[KEY].trials) == ["e-t0"]
    assert not cache.experiments[KEY].jobs
    assert set(enqueued) == {KEY}
    assert not initial.unseen


def test_a_watch_that_shows_what_is_known_enqueues_nothing() -> None:
    played, enqueued = Played(copied()), list[Key]()
    initial, cache = initial_list(played)
    registry = handlers(initial.kinds, cache, lambda key, after: enqueued.append(key), initial.seen)
    handlers_by_id = {each.id: each for each in registry._watching.get_all_handlers()}

    async def run() -> None:
        await initial.load()
        for version, expected in ((1, 0), (2, 1), (2, 1)):
            event = {"type": "MODIFIED", "object": thing("e-t0", version)}
            await handlers_by_id[f"cache-{TRIALS.plural}"].fn(event=event)  # type: ignore[misc, call-arg, arg-type]
            assert len(enqueued) == expected

    asyncio.run(run())


@pytest.mark.parametrize("attempt", ["", "abc", "0", "-1", "1.5", "1e9", "\u0663", "9" * 5000])
def test_a_job_that_anybody_labelled_does_not_end_the_operator(attempt: str) -> None:
    """Whoever may create a Job anywhere may label it like ours, and the operator lists all of them at its start."""
    foreign = thing("foreign", labels={})
    foreign["metadata"]["labels"] = LABELS | {"scalecurve.dev/attempt": attempt}
    played = Played({**ALL, "/apis/batch/v1/jobs": [foreign, thing("e-t-a1")]})
    listing, cache = initial_list(played)
    asyncio.run(listing.load())
    assert list(cache.experiments[KEY].jobs) == ["e-t-a1"]
