"""Reconciling an experiment: decide what to do next, do it, until nothing is left to do. Level-triggered.

All state is in the cluster and in the object cache. A reconcile may be interrupted anywhere, by a kill too, and the
next one goes on: what an attempt has reached is in its trial's status.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field
from functools import partial

from scalecurve_api.lifecycle import Action, Clean, Collect, Start, Stop
from scalecurve_api.spec.job_kinds import AUTO, Runner
from scalecurve_api.spec.trial import InvalidReason
from scalecurve_api.text import count as counted
from scalecurve_kube.cluster import Cluster
from scalecurve_kube.errors import ApiStatusError
from scalecurve_kube.resources import EXPERIMENTS, Object, timestamp, unix_time
from scalecurve_operator.admission import ADMITTED, Admission
from scalecurve_operator.cache.cached_objects import CachedExperiment, ExperimentObjects, Key
from scalecurve_operator.cache.object_cache import ObjectCache
from scalecurve_operator.cache.trial_index import TrialIndex
from scalecurve_operator.metrics import RECONCILE, set_phase_gauges
from scalecurve_operator.reconcile import actions, open_trials, policy, status_writer
from scalecurve_operator.reconcile.installed_kinds import MISSING_S, InstalledKinds, none_installed, previous_choice
from scalecurve_operator.reconcile.intake import PayloadBudget
from scalecurve_operator.reconcile.read_spec import NotRunnableError, RunnableExperiment, read_runnable, summary
from scalecurve_operator.reconcile.reconciliation import NAME_TAKEN, REFUSED, Reconciliation
from scalecurve_operator.reconcile.status_writer import PUBLISH_INTERVAL_S
from scalecurve_operator.reconcile.task_pool import CONCURRENCY, TaskPool
from scalecurve_operator.reconcile.trial import ConflictError, NameTakenError, TrialReconciliation
from scalecurve_operator.settings import Settings
from scalecurve_operator.status.render import condition

_NAME_TAKEN_S = 2.0  # How often to look whether a name has become free
_CONFLICT_S = 0.5

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class Reconciler:
    """Reconciles experiments; ``enqueue(key, after)`` asks for another reconcile."""

    cluster: Cluster
    settings: Settings
    cache: ObjectCache
    enqueue: Callable[[Key, float], None]
    leading: Callable[[], bool]
    payload_budget: PayloadBudget = field(default_factory=PayloadBudget)

    def __post_init__(self) -> None:
        self.open: dict[Key, Reconciliation] = {}
        self.admission = Admission(self.settings, self.cache)
        self.installed = InstalledKinds(self.cluster)

    async def reconcile(self, key: Key) -> None:
        if not self.leading():
            return
        objects = self.cache.experiments.get(key)
        experiment = objects.experiment if objects is not None else None
        if objects is None or experiment is None or experiment.deleting:
            self._close(key)
            return
        with RECONCILE.time():
            if objects.settled:
                await self._expire(key, experiment)
                return
            try:
                rec = await self._open(key, objects, experiment)
            except NotRunnableError as problem:
                await self._refuse(key, objects, experiment, str(problem))
            else:
                if await status_writer.note_runner(rec, experiment):
                    await self._advance(rec, objects.experiment or experiment)
            if experiment.spec.get("suspend"):
                self._release_slot(key)

    async def _advance(self, rec: Reconciliation, experiment: CachedExperiment) -> None:
        """Act on trials until there is nothing to do, look after the open ones, and publish the status."""
        rec.begin(experiment.status.get("startedAt"))
        accepted = condition("Accepted", True, "Valid", f"{counted(len(rec.index.names), 'trial')} planned")
        missing = await self._check_runner(rec)
        interrupted = await self._act_on_trials(rec, experiment, can_start=missing is None)
        for other in self.admission.note_queued(rec.key, rec.all_queued):
            self.enqueue(other, 0.0)
        waits = self._wait_for_session(rec)
        admitted = missing or waits or self.admission.condition(rec.key, rec.index.spec, rec.final)
        await open_trials.ensure_companions(rec)
        changed = await open_trials.probe_jobs(rec)
        await open_trials.report_progress(rec)
        await status_writer.publish(rec, [accepted, admitted])
        if rec.final:
            self._close(rec.key)
        if changed or interrupted:
            rec.enqueue()
        if rec.refusal is not None:
            # Reported above; now the reconcile fails, so that it is retried with backoff.
            raise rec.refusal

    async def _act_on_trials(self, rec: Reconciliation, experiment: CachedExperiment, *, can_start: bool) -> bool:
        """Decide and act until nothing is left to do; True if that was interrupted so that the status stays current.

        Short trials, many at a time, always leave something to do, and status and deadlines must not wait for them.
        """
        deadline = time.monotonic() + PUBLISH_INTERVAL_S
        async with TaskPool(CONCURRENCY) as pool:
            while True:
                rec.decide()
                pending = self._select_actions(rec, experiment, can_start)
                interrupted = not rec.final and time.monotonic() > deadline
                if not interrupted:
                    self._submit(rec, pool, pending)
                if not pool.tasks:
                    return interrupted and bool(pending)
                await pool.wait(lambda: bool(rec.objects.changed))

    def _select_actions(self, rec: Reconciliation, experiment: CachedExperiment, can_start: bool) -> list[Action]:
        """The decided actions, without starts that the pool does not admit."""
        may_start = (
            can_start
            and not rec.index.spec.suspend
            and not rec.final
            and rec.next_session is None
            and self.admission.admit(rec.key, experiment, bool(rec.objects.jobs))
        )
        pending = [action for action in rec.decision.actions if may_start or not isinstance(action, Start)]
        if rec.final:
            # Cancelled between the claim of an attempt and its job: nothing else would ever end it.
            abandoned = rec.objects.find_abandoned(rec.index.uid)
            pending += [Stop(name) for name in abandoned if name in rec.index.positions]
        return pending

    def _submit(self, rec: Reconciliation, pool: TaskPool, pending: Sequence[Action]) -> None:
        for action in _limit_parallelism(pending, rec.starting & pool.tasks.keys()):
            if isinstance(action, Start):
                rec.starting.add(action.trial)
                rec.started_at = rec.started_at or time.time()
            pool.submit(action.trial, partial(self._act, rec, action))

    async def _act(self, rec: Reconciliation, action: Action) -> bool:
        """Carry out an action; False if it has to wait for another reconcile."""
        name = action.trial
        try:
            return await _perform(TrialReconciliation(rec, name), action)
        except NameTakenError as problem:
            rec.blocked[name] = NAME_TAKEN, str(problem)
            rec.enqueue(_NAME_TAKEN_S)
        except ApiStatusError as refused:
            rec.blocked[name] = REFUSED, str(refused)
            rec.refusal = refused
        except actions.CollectionError as failed:
            rec.blocked[name] = InvalidReason.records_unreadable.value, str(failed)
            rec.enqueue(failed.after)
        except ConflictError as conflict:
            logger.info("%s: %s; reconciling again", rec.key, conflict)
            rec.enqueue(_CONFLICT_S)
        finally:
            if not isinstance(action, Start):
                rec.probed.pop(name, None)
                rec.waiting.pop(name, None)
        return False

    async def _check_runner(self, rec: Reconciliation) -> Object | None:
        problem: str | None = none_installed(rec.runnable.options)
        if rec.choice is not None:
            problem = await self.installed.problem(rec.choice.runner)
        if problem is None:
            return None
        rec.enqueue(MISSING_S)
        self._release_slot(rec.key)
        return condition(ADMITTED, False, "RunnerMissing", problem)

    def _wait_for_session(self, rec: Reconciliation) -> Object | None:
        """Until the next session is due others may have the place in the pool."""
        if rec.final or (upcoming := rec.next_session) is None:
            return None
        session, due = upcoming
        rec.enqueue(max(0.0, due - time.time()) + 0.01)
        self._release_slot(rec.key)
        text = f"session {session + 1} of {rec.index.spec.measure.sessions.count} begins at {timestamp(due)}"
        return condition(ADMITTED, False, "WaitingForSession", text)

    async def _refuse(self, key: Key, objects: ExperimentObjects, experiment: CachedExperiment, problem: str) -> None:
        await actions.delete_jobs(self.cluster, key, objects)
        if not await status_writer.refuse(self.cluster, self.cache, key, experiment, problem):
            self.enqueue(key, 0.0)
        self._close(key)

    async def _expire(self, key: Key, experiment: CachedExperiment) -> None:
        self._close(key)
        ttl, ended = experiment.spec.get("ttlSecondsAfterFinished"), experiment.status.get("endedAt")
        if ttl is None or ended is None:
            return
        left = unix_time(ended) + ttl - time.time()
        if left > 0:
            self.enqueue(key, left + 0.1)
        else:
            await self.cluster.delete(EXPERIMENTS, key.namespace, key.name, "Background", experiment.uid)

    async def _open(self, key: Key, objects: ExperimentObjects, experiment: CachedExperiment) -> Reconciliation:
        """The reconciliation in progress, or a new one if the object, its spec or its runner is another now."""
        rec = self.open.get(key)
        if rec is not None and (rec.index.uid, rec.index.generation) != (experiment.uid, experiment.generation):
            rec = None
        runnable = read_runnable(experiment.body) if rec is None else rec.runnable
        named = experiment.spec.get("runner") not in (None, AUTO)
        choice = runnable.options[0] if named else previous_choice(experiment, objects)
        choice = choice or await self.installed.choice(runnable.options)
        runner = (choice or runnable.options[0]).runner
        if rec is None or rec.index.spec.runner is not runner:
            rec = self.open[key] = self._begin(key, objects, experiment, runnable, runner)
        rec.objects, rec.choice = objects, choice
        return rec

    def _begin(
        self,
        key: Key,
        objects: ExperimentObjects,
        experiment: CachedExperiment,
        runnable: RunnableExperiment,
        runner: Runner,
    ) -> Reconciliation:
        objects.take_changed()
        plan = runnable.plan.replace_runner(runner)
        index = TrialIndex.build(plan, experiment.uid, experiment.generation, objects)
        # Nothing that has begun is stopped because the settings have changed since.
        if "startedAt" not in experiment.status and (problems := policy.violations(self.settings, index)):
            raise NotRunnableError(summary(problems))
        return Reconciliation(
            key, objects, index, self.cluster, self.cache, self.settings, self.enqueue, self.payload_budget, runnable
        )

    def _close(self, key: Key) -> None:
        """Forget what only an unfinished experiment needs, and let the next one of its pool begin."""
        self.open.pop(key, None)
        self._release_slot(key)

    def _release_slot(self, key: Key) -> None:
        """Let the next one of its pool begin, unless this one still has jobs."""
        objects = self.cache.experiments.get(key)
        if objects is not None and objects.experiment is not None and objects.jobs:
            return
        for other in self.admission.leave(key):
            self.enqueue(other, 0.0)

    def update_gauges(self) -> None:
        trials: Counter[str] = Counter()
        for rec in self.open.values():
            trials.update(rec.published.get("counts") or {})
        experiments = Counter(
            str(objects.experiment.status.get("phase") or "Pending")
            for objects in self.cache.experiments.values()
            if objects.experiment is not None
        )
        set_phase_gauges({phase.capitalize(): count for phase, count in trials.items()}, experiments)


async def _perform(trial: TrialReconciliation, action: Action) -> bool:
    match action:
        case Start(_, attempt):
            await actions.start(trial, attempt)
        case Collect():
            await actions.collect(trial)
        case Stop():
            await actions.collect(trial, cancelled=True)
        case Clean():
            return await actions.clean(trial)
    return True


def _limit_parallelism(pending: Sequence[Action], starting: Set[str]) -> list[Action]:
    """The actions that may run beside attempts that are just being started.

    ``decide`` names as many starts as there are free places, and cannot see yet the jobs of those under way: they take
    some of these places, even where it names other trials by now because trials were deleted.
    """
    places = sum(isinstance(action, Start) for action in pending) - len(starting)
    allowed = []
    for action in pending:
        if isinstance(action, Start) and action.trial not in starting:
            if places <= 0:
                continue
            places -= 1
        allowed.append(action)
    return allowed
