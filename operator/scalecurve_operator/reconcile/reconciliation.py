"""One experiment under reconciliation: its objects, the index of its trials, and the means to act on them."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from scalecurve_api.lifecycle import Decision, Job
from scalecurve_api.planning.runner_choice import RunnerChoice
from scalecurve_api.spec.trial import TrialPhase
from scalecurve_kube.cluster import Cluster
from scalecurve_kube.errors import ApiStatusError
from scalecurve_kube.resources import Object, unix_time
from scalecurve_operator.cache.cached_objects import ExperimentObjects, Key
from scalecurve_operator.cache.object_cache import ObjectCache
from scalecurve_operator.cache.trial_index import TrialIndex
from scalecurve_operator.reconcile.intake import PayloadBudget
from scalecurve_operator.reconcile.read_spec import RunnableExperiment
from scalecurve_operator.settings import Settings

_HOUR_S = 3600.0
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
    payload_budget: PayloadBudget
    runnable: RunnableExperiment
    choice: RunnerChoice | None = None  # None while none of them is installed

    published: Object = field(default_factory=dict)
    published_at: float = _NEVER
    started_at: float | None = None  # Unix time at which this process started the first trial
    probed: dict[str, float] = field(default_factory=dict)  # trial -> when its job, pods and events were last looked at
    waiting: dict[str, str] = field(default_factory=dict)  # trial -> what its job waits for
    # trial -> how often collecting its attempt has failed for a reason that is not the API server's
    failed_collections: dict[str, int] = field(default_factory=dict)
    unjudged: dict[str, int] = field(default_factory=dict)  # trial -> how often there was no process to judge it in
    unreadable: dict[str, str] = field(default_factory=dict)  # trial -> why its attempt ends without what its pods left

    starting: set[str] = field(default_factory=set)  # trials that the current reconcile has started an attempt of
    blocked: dict[str, tuple[str, str]] = field(default_factory=dict)
    """trial -> a condition's reason and message: why the current reconcile cannot go on with it"""
    refusal: ApiStatusError | None = None  # the last one of the current reconcile
    overdue: bool = False  # it has taken all the hours that it may
    names: tuple[str, ...] = ()  # the trials that ``decision.status.phases`` lists
    decision: Decision = field(init=False)

    def begin(self, started: str | None) -> None:
        """``started``: when its first trial began, as its status says."""
        self.starting.clear()
        self.blocked.clear()
        self.refusal = None
        began = unix_time(started) if started is not None else self.started_at
        ahead = self.index.look_ahead(time.time())
        # Nobody is kept waiting between two sessions: each has these hours, from its own first trial on.
        between = ahead.due is not None or self.index.session(ahead.end - 1) not in self.index.began
        if began is None or (between and self.index.began):
            return
        began = max([began, *self.index.began.values()])
        left = began + self.settings.max_experiment_hours * _HOUR_S - time.time()
        if left > 0:
            self.enqueue(left)
        elif not self.overdue:
            self.overdue = True
            self.index.spec = self.index.spec.model_copy(update={"cancel": True})

    def decide(self) -> Decision:
        self.index.update(self.objects, self.objects.take_changed())
        self.names, self.decision = self.index.decide(self.objects, time.time())
        status = self.decision.status
        if self.overdue and status.counts.get(TrialPhase.cancelled):
            allowed = f"{self.settings.max_experiment_hours:g} h, the most that this operator allows"
            message = f"{status.message}; ended after {allowed} (maxExperimentHours)"
            self.decision = replace(self.decision, status=replace(status, message=message))
        return self.decision

    @property
    def final(self) -> bool:
        return self.decision.status.phase.final

    @property
    def next_session(self) -> tuple[int, float] | None:
        """The session that is waited for, from 0, and when it begins, in Unix seconds."""
        ahead = self.index.look_ahead(time.time())
        if ahead.due is None or self.index.open:
            return None
        return self.index.session(ahead.end), ahead.due

    @property
    def all_queued(self) -> bool:
        """Whether it has jobs, and each of them waits in a queue."""
        jobs = list(self.objects.jobs.values())
        waits = (not (job.deleting or job.forced_end) and self.index.status_of(job).state is Job.queued for job in jobs)
        return bool(jobs) and all(waits)

    def enqueue(self, after: float = 0.0) -> None:
        """Reconcile again, ``after`` seconds from now at the latest."""
        self.queue(self.key, after)
