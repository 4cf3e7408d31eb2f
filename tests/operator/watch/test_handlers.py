import asyncio
from importlib.metadata import version
from inspect import signature

import kopf
from kopf._core.reactor.inventory import ResourceMemories

from scalecurve_operator.cache.object_cache import ObjectCache
from scalecurve_operator.watch.handlers import NoMemories, handlers, kopf_settings
from scalecurve_operator.watch.initial_list import watched_kinds


def test_kopf_compares_and_keeps_nothing() -> None:
    persistence = kopf_settings(namespaced=False).persistence
    body = kopf.Body({"metadata": {"name": "a", "annotations": {"b": "c"}}, "spec": {"x": 1}})
    assert persistence.diffbase_storage.fetch(body=body) is None
    essence = persistence.diffbase_storage.build(body=body)
    assert essence == {}
    assert persistence.progress_storage.clear(essence=essence) is essence


def test_no_handler_asks_what_has_changed() -> None:
    cache = ObjectCache()
    registry = handlers(watched_kinds(cache), cache, lambda key, after: None, lambda uid: None)
    assert not list(registry._indexing.get_all_handlers())
    assert not list(registry._changing.get_all_handlers())
    assert not list(registry._spawning.get_all_handlers())
    assert list(registry._watching.get_all_handlers())


def test_no_object_is_remembered() -> None:
    memories = NoMemories()
    body = kopf.RawBody({"metadata": {"name": "a", "uid": "1"}})  # type: ignore[typeddict-item]
    assert asyncio.run(memories.recall(body)) is not asyncio.run(memories.recall(body))
    assert not list(memories.iter_all_memories())


def test_kopfs_private_memories_are_as_they_were_read() -> None:
    """What `NoMemories` overrides is not exported; read it again before another version is let in here."""
    assert version("kopf") == "1.45.2"
    methods = {name for name, member in vars(ResourceMemories).items() if callable(member)} - {"__init__"}
    assert methods == {
        *("iter_all_memories", "iter_all_daemon_memories", "recall_memo", "recall", "forget", "_build_key"),
    }
    theirs, ours = (signature(kind.recall).parameters for kind in (ResourceMemories, NoMemories))
    assert {name: each.kind for name, each in theirs.items()} == {name: each.kind for name, each in ours.items()}
