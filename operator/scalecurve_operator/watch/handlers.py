"""kopf's side: one event handler per kind, which updates the cache and enqueues, and kopf's settings.

No handler keeps state in an object (kopf's annotations, finalizers): what it takes to go on is in the trials' statuses.
So whatever kopf stores about objects has an empty replacement here. It copies every object at every event, to compare
it with the last handled state, and removes its own marks from the copies three times (``processing._detect_causes`` of
1.45), whether or not a handler asks what has changed: a quarter of the operator's CPU time. It also remembers every
object for as long as that exists, for daemons, retries and the memo: 2.6 KB per object, 26 MB for 10,000 trials.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import kopf
from kopf._core.reactor.inventory import ResourceMemories, ResourceMemory

from scalecurve_api.spec.job_kinds import Runner
from scalecurve_api.spec.object_names import TRIAL_LABEL
from scalecurve_kube.cluster import PAGE_SIZE
from scalecurve_kube.resources import Object
from scalecurve_operator.cache.cached_objects import Key, key_of, version_of
from scalecurve_operator.cache.object_cache import ObjectCache, trim
from scalecurve_operator.watch.initial_list import WatchedKind


def handlers(
    kinds: Sequence[WatchedKind],
    cache: ObjectCache,
    enqueue: Callable[[Key, float], None],
    shown: Callable[[str], None],
) -> kopf.OperatorRegistry:
    """A registry with an event handler for each kind; ``shown`` is called with the uid of every object shown."""
    registry = kopf.OperatorRegistry()
    kopf.on.login(registry=registry)(_login)

    async def update_cache(watched: WatchedKind, event: kopf.RawEvent, **_: Any) -> None:
        body: Object = event["object"]  # type: ignore[assignment]
        plural = watched.resource.plural
        cache.note_watch(plural, version_of(body))
        shown(body["metadata"]["uid"])
        if event["type"] == "DELETED":
            key = watched.delete(body) or key_of(body)
        else:
            key = watched.upsert(body)
            trim(body, plural)  # kopf holds on to it for a while
        if key is not None:
            enqueue(key, 0.0)

    for kind in kinds:
        group, version, plural = kind.resource.group, kind.resource.version, kind.resource.plural
        register = kopf.on.event(group, version, plural, registry=registry, id=f"cache-{plural}")
        register(partial(update_cache, kind))
    return registry


def kopf_settings(namespaced: bool) -> kopf.OperatorSettings:
    """kopf's settings, each with its reason."""
    settings = kopf.OperatorSettings()
    # Without the right to list CRDs and namespaces, kopf starts only after retrying for 19 s.
    settings.scanning.disabled = namespaced
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


class NoDiffBase(kopf.DiffBaseStorage):
    """No object has a last handled state."""

    def build(self, *, body: kopf.Body, extra_fields: Iterable[Any] | None = None) -> kopf.BodyEssence:
        return kopf.BodyEssence()

    def fetch(self, *, body: kopf.Body) -> kopf.BodyEssence | None:
        return None

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None: ...


class NoProgress(kopf.ProgressStorage):
    """No handler is ever in progress: event handlers run once."""

    def fetch(self, *, key: Any, body: kopf.Body) -> None: ...

    def store(self, *, key: Any, record: Any, body: kopf.Body, patch: kopf.Patch) -> None: ...

    def purge(self, *, key: Any, body: kopf.Body, patch: kopf.Patch) -> None: ...

    def touch(self, *, body: kopf.Body, patch: kopf.Patch, value: str | None) -> None: ...

    def clear(self, *, essence: kopf.BodyEssence) -> kopf.BodyEssence:
        return essence


class NoMemories(ResourceMemories):
    """Every event finds its object as if seen for the first time (kopf does not export this; it is pinned)."""

    async def recall(
        self,
        raw_body: kopf.RawBody,
        *,
        memobase: Any = None,
        noticed_by_listing: bool = False,
        ephemeral: bool = False,
    ) -> ResourceMemory:
        return await super().recall(raw_body, memobase=memobase, noticed_by_listing=noticed_by_listing, ephemeral=True)
