"""kopf's side: one event handler per kind, which updates the cache and enqueues, and kopf's settings.

No handler keeps state in an object (kopf's annotations, finalizers): what it takes to go on is in the trials' statuses.
"""

from collections.abc import Callable, Sequence
from typing import Any

import kopf

from scalecurve_api.spec.job_kinds import Runner
from scalecurve_api.spec.object_names import TRIAL_LABEL
from scalecurve_kube.cluster import PAGE_SIZE
from scalecurve_kube.resources import Object
from scalecurve_operator.cache.cached_objects import Key, key_of
from scalecurve_operator.cache.object_cache import ObjectCache
from scalecurve_operator.watch.initial_list import WatchedKind
from scalecurve_operator.watch.kopf_stubs import NoDiffBase, NoProgress
from scalecurve_operator.watch.trim import trim


def handlers(
    kinds: Sequence[WatchedKind],
    cache: ObjectCache,
    enqueue: Callable[[Key, float], None],
    shown: Callable[[str], None],
) -> kopf.OperatorRegistry:
    """A registry with an event handler for each kind; ``shown`` is called with the uid of every object shown."""
    registry = kopf.OperatorRegistry()
    kopf.on.login(registry=registry)(_login)
    for kind in kinds:
        _register(registry, kind, cache, enqueue, shown)
    return registry


def _register(
    registry: kopf.OperatorRegistry,
    kind: WatchedKind,
    cache: ObjectCache,
    enqueue: Callable[[Key, float], None],
    shown: Callable[[str], None],
) -> None:
    resource = kind.resource

    @kopf.on.event(resource.group, resource.version, resource.plural, registry=registry, id=f"cache-{resource.plural}")
    async def update_cache(event: kopf.RawEvent, **_: Any) -> None:
        body: Object = event["object"]  # type: ignore[assignment]
        cache.note_watch(resource.plural, int(body["metadata"]["resourceVersion"]))
        shown(body["metadata"]["uid"])
        if event["type"] == "DELETED":
            key = kind.delete(body) or key_of(body)
        else:
            key = kind.upsert(body)
            trim(body, resource.plural)  # kopf holds on to it for a while
        if key is not None:
            enqueue(key, 0.0)


def kopf_settings(namespaced: bool = False) -> kopf.OperatorSettings:
    """kopf's settings, each with its reason."""
    settings = kopf.OperatorSettings()
    # Without the right to list CRDs and namespaces, kopf starts only after retrying for 19 s.
    settings.scanning.disabled = namespaced
    # No copies of every object at every event, for a comparison that no handler needs.
    settings.persistence.diffbase_storage = NoDiffBase()
    settings.persistence.progress_storage = NoProgress()
    settings.posting.enabled = False  # Events are few and our own; kopf's were half of all writes
    settings.watching.chunk_size = PAGE_SIZE  # a list of thousands of trials in one piece is a spike of memory
    settings.watching.server_timeout = 600  # a watch that died silently is renewed before long
    settings.watching.connect_timeout = 30
    settings.queueing.idle_timeout = 2.0  # kopf has a task for every object just shown: end them early
    settings.networking.error_backoffs = (0.1, 0.2, 0.5, 1, 2, 5, 10)
    for runner in Runner:
        # As the initial list does: there may be very many jobs of other people.
        kind = runner.job_kind
        settings.watching.label_selectors[kind.group, kind.version, kind.plural] = TRIAL_LABEL
    return settings


def _login(**kwargs: Any) -> Any:
    """Without the synchronous client library, whose import alone takes 40 MiB."""
    return kopf.login_with_service_account(**kwargs) or kopf.login_with_kubeconfig(**kwargs)
