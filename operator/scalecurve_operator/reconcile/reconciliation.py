"""One experiment under reconciliation: its objects, the index of its trials, and the means to act on them."""

from collections.abc import Callable
from dataclasses import dataclass, field

from scalecurve_api.lifecycle import Decision
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_kube.cluster import Cluster
from scalecurve_kube.errors import Refused
from scalecurve_kube.resources import Object, Resource, resource_of
from scalecurve_operator.cache.cached_objects import ExperimentObjects, Key
from scalecurve_operator.cache.object_cache import ObjectCache
from scalecurve_operator.cache.trial_index import TrialIndex
from scalecurve_operator.runners import JobRequest, RunnerKind
from scalecurve_operator.settings import Settings

_NEVER = float("-inf")
NAME_TAKEN, REFUSED = "NameTaken", "Refused"
"""Reasons why a trial is blocked."""


@dataclass
class Reconciliation:
    """An unfinished experiment. What it remembers between reconciles costs only a few requests if it is lost."""

    key: Key
    objects: ExperimentObjects
    index: TrialIndex
    cluster: Cluster
    cache: ObjectCache
    settings: Settings
    queue: Callable[[Key, float], None]

    published: Object = field(default_factory=dict)
    published_at: float = _NEVER
    started_at: float | None = None
    """Unix time at which this process started the first trial"""
    probed: dict[str, float] = field(default_factory=dict)
    """trial -> when its job, pods and events were last looked at"""
    waiting: dict[str, str] = field(default_factory=dict)
    """trial -> what its job waits for"""

    starting: set[str] = field(default_factory=set)
    """trials that the current reconcile has started an attempt of"""
    blocked: dict[str, tuple[str, str]] = field(default_factory=dict)
    """trial -> a condition's reason and message: why the current reconcile cannot go on with it"""
    refusal: Refused | None = None
    """the last one of the current reconcile"""
    names: tuple[str, ...] = ()
    """the trials that ``decision.status.phases`` lists"""
    decision: Decision = field(init=False)

    def begin(self) -> None:
        self.starting.clear()
        self.blocked.clear()
        self.refusal = None

    def decide(self) -> Decision:
        """Bring the index up to date with the cache and decide what to do next."""
        self.index.update(self.objects, self.objects.take_changed())
        self.names, self.decision = self.index.decide(self.objects)
        return self.decision

    @property
    def final(self) -> bool:
        return self.decision.status.phase.final

    def enqueue(self, after: float = 0.0) -> None:
        """Reconcile again, ``after`` seconds from now at the latest."""
        self.queue(self.key, after)

    def trial_spec(self, name: str) -> TrialSpec:
        return self.index.trial(name)

    def runner(self, name: str) -> RunnerKind:
        return self.index.runner(name)

    def resource(self, name: str) -> Resource:
        return resource_of(self.runner(name).runner)

    async def fetch_job(self, name: str, job: str) -> Object | None:
        return await self.cluster.get(self.resource(name), self.key.namespace, job)

    def job_request(self, name: str, attempt: int) -> JobRequest:
        """What a runner needs to know to render an attempt of a trial."""
        trial = self.index.trial(name)
        return JobRequest(
            experiment=self.key.name,
            namespace=self.key.namespace,
            spec=self.index.spec,
            trial=trial,
            trial_object=name,
            attempt=attempt,
            images=self.settings.images,
            record_bytes=self.settings.record_bytes,
            nodes=tuple(self.index.nodes.get(trial.point.series, ())),
            metrics_port=self.settings.worker_metrics_port,
            linger_seconds=self.settings.linger_seconds,
        )
