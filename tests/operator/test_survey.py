"""The first list of everything, against an API server that is played in a few lines."""

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import pytest

from scalecurve_kube.client import EXPERIMENTS, TRIALS, Cluster, Object, Refused, Resource
from scalecurve_operator.cache.object_cache import Key, Sightings
from scalecurve_operator.main import handlers
from scalecurve_operator.watch.initial_list import Survey, kinds

KEY = Key("ns", "e")
LABELS = {"scalecurve.dev/experiment": "e", "scalecurve.dev/trial": "e-t", "scalecurve.dev/attempt": "1"}


def thing(name: str, version: int = 1, **more: Any) -> Object:
    metadata = {"name": name, "namespace": "ns", "uid": f"u-{name}", "resourceVersion": str(version), "labels": LABELS}
    return {"metadata": metadata, "spec": {}, "status": {}, **more}


class Played:
    """Collections by path; a page holds two. `tokens` that have expired are refused once."""

    def __init__(self, objects: Mapping[str, list[Object]], namespaces: tuple[str, ...] = ()) -> None:
        self.objects = dict(objects)
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.expired = {"never"}
        self.existing: dict[str, Object] = {}

    async def request(self, method: str, path: str, query: Mapping[str, str]) -> Object:
        self.asked.append((path, dict(query)))
        if path not in self.objects:
            raise Refused(404, "NotFound", "no such kind")
        token = query.get("continue", "0")
        if token in self.expired:
            self.expired.discard(token)
            raise Refused(410, "Expired", "the continue parameter is too old")
        at, found = int(token), self.objects[path]
        more = {"continue": str(at + 2)} if at + 2 < len(found) else {}
        return {"metadata": more, "items": found[at : at + 2]}

    async def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        return self.existing.get(name)


def survey(played: Played, namespaces: tuple[str, ...] = ()) -> tuple[Survey, Sightings]:
    sightings = Sightings()
    return Survey(cast(Cluster, played), namespaces, kinds(sightings)), sightings


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
    taken, sightings = survey(played)
    asyncio.run(taken.take())
    family = sightings.families[KEY]
    assert family.experiment is not None
    assert len(family.trials) == 5
    assert [job.body["kind"] for job in family.jobs.values()] == ["Job"], "lists of built-in kinds leave it out"
    assert len(taken.awaited) == 7
    assert all(query["labelSelector"] for path, query in played.asked if "jobs" in path)
    assert any("mpijobs" in path for path, _ in played.asked)


def test_only_the_namespaces_that_are_watched() -> None:
    path = TRIALS.path("ns")
    taken, sightings = survey(Played({path: [thing("e-t0")]}), ("ns",))
    asyncio.run(taken.take())
    assert list(sightings.families[KEY].trials) == ["e-t0"]


def test_a_refusal_is_not_taken_for_emptiness() -> None:
    class Forbidding(Played):
        async def request(self, method: str, path: str, query: Mapping[str, str]) -> Object:
            raise Refused(403, "Forbidden", "no")

    taken, _ = survey(Forbidding({}))
    with pytest.raises(Refused):
        asyncio.run(taken.take())


def test_what_went_before_anybody_watched_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scalecurve_operator.watch.initial_list._QUIET_S", 0.01)
    played, nudged = Played(copied()), list[Key]()
    taken, sightings = survey(played)
    registry = handlers(taken.watched, sightings, lambda key, after: nudged.append(key), taken.shown)
    (note,) = [each for each in registry._watching.get_all_handlers() if each.id == f"note-{EXPERIMENTS.plural}"]
    played.existing = {"e-t0": thing("e-t0"), "e-t1": {"metadata": {"uid": "another"}}}

    async def run() -> None:
        await taken.take()
        await note.fn(event={"type": None, "object": thing("e")})  # type: ignore[misc, call-arg, arg-type]
        assert len(taken.awaited) == 6
        await asyncio.wait_for(taken.settle(lambda key, after: nudged.append(key)), 10)

    asyncio.run(run())
    assert sightings.families[KEY].experiment is not None, "shown by its watch, and not asked for"
    assert list(sightings.families[KEY].trials) == ["e-t0"]
    assert not sightings.families[KEY].jobs
    assert set(nudged) == {KEY}
    assert not taken.awaited


def test_a_watch_that_shows_what_is_known_nudges_nobody() -> None:
    played, nudged = Played(copied()), list[Key]()
    taken, sightings = survey(played)
    registry = handlers(taken.watched, sightings, lambda key, after: nudged.append(key), taken.shown)
    notes = {each.id: each for each in registry._watching.get_all_handlers()}

    async def run() -> None:
        await taken.take()
        for version, nudges in ((1, 0), (2, 1), (2, 1)):
            event = {"type": "MODIFIED", "object": thing("e-t0", version)}
            await notes[f"note-{TRIALS.plural}"].fn(event=event)  # type: ignore[misc, call-arg, arg-type]
            assert len(nudged) == nudges

    asyncio.run(run())
