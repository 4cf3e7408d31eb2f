"""One turn over one experiment: look, let ``lifecycle`` decide, act; until nothing is left to do. Level-triggered.

All state is in the cluster and in ``Sightings``; a turn may be cut anywhere, by a kill too, and the next one goes on.
An attempt's number is claimed in its trial's status, against the version seen, before its job is created: whoever
looks at an older version is refused, and so nobody runs a trial twice.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence, Set
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from scalebench_api.lifecycle import Action, Clean, Collect, Decision, Start, Stop, decide
from scalebench_api.status import one_line
from scalebench_api.trial import TrialPhase
from scalebench_operator import statuses
from scalebench_operator.acting import Acting
from scalebench_operator.admission import Admission
from scalebench_operator.cluster import EXPERIMENTS, Cluster, Object, Refused, Resource
from scalebench_operator.hands import Hands
from scalebench_operator.headlines import best_efficiency, headlines
from scalebench_operator.ledger import Ledger, jobs_of, open_ledger
from scalebench_operator.looking import Looking
from scalebench_operator.metrics import RECONCILE, show
from scalebench_operator.notices import Notices
from scalebench_operator.reading_spec import NotRunnable, read_experiment
from scalebench_operator.settings import Settings
from scalebench_operator.sightings import ExperimentSeen, Family, Key, Sightings
from scalebench_operator.trials import Conflict

_PUBLISH_EVERY_S = 2.0
_AT_ONCE = 8
"""trials of one experiment that are acted on at a time, each with a handful of requests one after the other"""
_MISSING_S = 10.0
"""A job kind that is not installed is looked for so often."""
_LONG_AGO = float("-inf")

T = TypeVar("T")
logger = logging.getLogger(__name__)


@dataclass
class _Turning:
    """What one process remembers of an unfinished experiment between turns; losing it costs a few requests."""

    ledger: Ledger
    published: Object = field(default_factory=dict)
    published_at: float = _LONG_AGO
    started_at: float | None = None
    """Unix time of the first trial that this process began"""
    beginning: set[str] = field(default_factory=set)
    """trials that this turn has begun an attempt of"""
    checked: dict[str, float] = field(default_factory=dict)
    """trial -> when its job, pods and events were last looked at"""
    waits: dict[str, str] = field(default_factory=dict)
    """trial -> what its job waits for"""


class Controller:
    """Turns over experiments; ``nudge(key, after)`` asks for a further one."""

    def __init__(
        self,
        cluster: Cluster,
        settings: Settings,
        sightings: Sightings,
        nudge: Callable[[Key, float], None],
        leading: Callable[[], bool],
    ) -> None:
        self.cluster, self.settings, self.sightings, self.nudge, self.leading = (
            cluster,
            settings,
            sightings,
            nudge,
            leading,
        )
        self.turning: dict[Key, _Turning] = {}
        self.admission = Admission(settings, sightings)
        self.notices = Notices(cluster)
        self.acting = Acting(cluster, settings, sightings, self.notices)
        self.looking = Looking(cluster, settings, sightings)
        self.installed: dict[Resource, tuple[bool, float]] = {}

    def show(self) -> None:
        """Bring the gauges up to date, as a scrape is about to read them."""
        trials: Counter[str] = Counter()
        for turning in self.turning.values():
            trials.update(turning.published.get("counts") or {})
        seen = [family.experiment for family in self.sightings.families.values() if family.experiment is not None]
        experiments = Counter(str(each.status.get("phase") or "Pending").lower() for each in seen)
        show(
            {phase.capitalize(): n for phase, n in trials.items()}, {p.capitalize(): n for p, n in experiments.items()}
        )

    async def turn(self, key: Key) -> None:
        """Bring one experiment as far as it goes for now."""
        if not self.leading():
            return
        family = self.sightings.families.get(key)
        seen = family.experiment if family is not None else None
        if family is None or seen is None or seen.deleting:
            self._leave(key)
            return
        with RECONCILE.time():
            if seen.ended and not self._unfinished(family, seen):
                await self._after_the_end(key, family, seen)
            else:
                await self._run(key, family, seen)
                if (seen.body.get("spec") or {}).get("suspend"):
                    self._make_room(key)

    async def _run(self, key: Key, family: Family, seen: ExperimentSeen) -> None:
        try:
            turning = self._turning(key, family, seen)
        except NotRunnable as refusal:
            await self._refuse(key, seen, refusal)
            return
        ledger = turning.ledger
        conditions = [statuses.condition("Accepted", True, "Valid", f"{len(ledger.names)} trials planned")]
        missing = await self._missing_runner(key, ledger)
        until = time.monotonic() + _PUBLISH_EVERY_S
        turning.beginning.clear()
        async with Hands(_AT_ONCE) as hands:
            while True:
                ledger.note(family, self._touched(family))
                window = ledger.window(family)
                decision = decide(
                    ledger.spec, window.names, window.observed, settled=window.settled, unbegun=window.unbegun
                )
                wants = missing is None and not ledger.spec.suspend and not decision.status.phase.final
                may_start = wants and self.admission.ask(key, seen, bool(family.jobs))
                actions = [each for each in decision.actions if may_start or not isinstance(each, Start)]
                # Short trials, many at a time, always leave something to do: status and deadlines must not wait.
                late = time.monotonic() > until and not decision.status.phase.final
                for action in () if late else _allowed(actions, turning.beginning & hands.tasks.keys()):
                    if isinstance(action, Start):
                        turning.beginning.add(action.trial)
                        turning.started_at = turning.started_at or time.time()
                    hands.take(action.trial, partial(self._act, key, family, turning, action))
                if not hands.tasks:
                    break
                await hands.some_done(lambda: bool(family.touched))
        ended = decision.status.phase.final
        conditions.append(missing or self.admission.condition(key, seen, ledger.spec, ended))
        await self._accompany(key, family, ledger)
        overdue = await self._look_after(key, family, turning)
        await self._progress_trials(key, family, turning, decision, window.names)
        await self._publish(key, family, turning, decision, window.names, conditions)
        if ended:
            self._leave(key)
        if overdue or (late and actions):
            self.nudge(key, 0.0)

    def _turning(self, key: Key, family: Family, seen: ExperimentSeen) -> _Turning:
        known = self.turning.get(key)
        if known is None or (known.ledger.uid, known.ledger.generation) != (seen.uid, seen.generation):
            family.touched.clear()
            ledger = open_ledger(read_experiment(seen.body), seen.uid, seen.generation, family)
            known = self.turning[key] = _Turning(ledger)
        return known

    def _touched(self, family: Family) -> set[str]:
        touched, family.touched = family.touched, set()
        return touched

    async def _act(self, key: Key, family: Family, turning: _Turning, action: Action) -> bool:
        """Carry an action out; False where it has to wait."""
        ledger, name = turning.ledger, action.trial
        try:
            if isinstance(action, Start):
                return await self.acting.start(key, family, ledger, name, action.attempt)
            if isinstance(action, Collect):
                return await self.acting.collect(key, family, ledger, name)
            if isinstance(action, Stop):
                return await self.acting.collect(key, family, ledger, name, cancelled=True)
            assert isinstance(action, Clean)
            return await self.acting.clean(key, family, ledger, name)
        except Conflict as conflict:
            logger.info("%s: %s; looking again", key, conflict)
            self.nudge(key, 0.5)
            return False
        finally:
            if not isinstance(action, Start):
                turning.checked.pop(name, None)
                turning.waits.pop(name, None)

    async def _accompany(self, key: Key, family: Family, ledger: Ledger) -> None:
        """See to it that no job stands without what belongs to it."""
        newest = [jobs[-1] for place in ledger.open if (jobs := jobs_of(family, ledger.names[place]))]
        alone = [job for job in newest if not (job.accompanied or job.deleting)]
        await _at_once([self.acting.accompany(key, family, ledger, job) for job in alone])
        if any(job.given_up for job in alone):
            self.nudge(key, 0.0)

    async def _look_after(self, key: Key, family: Family, turning: _Turning) -> bool:
        """Look closer at jobs that take long: at their pods, their events, their deadline, and whether they are there.

        True when a look changed something that calls for another turn.
        """
        changed, now = False, time.monotonic()
        every = self.settings.starting_seconds
        for place in list(turning.ledger.open):
            name = turning.ledger.names[place]
            jobs = jobs_of(family, name)
            if not jobs:
                continue
            due = max(turning.checked.get(name, jobs[-1].first_seen), jobs[-1].first_seen) + every
            if now < due:
                self.nudge(key, due - now + 0.01)
                continue
            turning.checked[name] = now
            look = await self.looking.look(key, family, turning.ledger, name)
            changed = changed or look.changed
            if look.waiting:
                turning.waits[name] = one_line(look.waiting, 512)  # as it will be written
            else:
                turning.waits.pop(name, None)
            self.nudge(key, every + 0.01)
        return changed

    async def _progress_trials(
        self, key: Key, family: Family, turning: _Turning, decision: Decision, names: tuple[str, ...]
    ) -> None:
        """Let the status of every open trial say how far its job has come."""
        writing = []
        for name, phase in zip(names, decision.status.phases, strict=True):
            trial, jobs = family.trials.get(name), jobs_of(family, name)
            if trial is None or not jobs or trial.status is None or phase.final or phase is TrialPhase.collecting:
                continue
            waits = turning.waits.get(name)
            if trial.phase != phase.value or trial.status.get("message") != waits:
                writing.append(self.acting.progress(key, family, name, phase, jobs[-1], waits))
        await _at_once(writing)

    async def _publish(
        self,
        key: Key,
        family: Family,
        turning: _Turning,
        decision: Decision,
        names: tuple[str, ...],
        conditions: list[Object],
    ) -> None:
        seen, status, ledger, now = family.experiment, decision.status, turning.ledger, time.monotonic()
        if seen is None or seen.uid != ledger.uid:
            return
        due = turning.published_at + _PUBLISH_EVERY_S
        first = not turning.published and not seen.status.get("phase")
        if not (first or status.phase.final or now >= due or seen.status.get("phase") != status.phase.value):
            self.nudge(key, due - now)
            return
        current = [
            statuses.current_trial(name, ledger.trial(name), phase, trial.status or {})
            for name, phase in zip(names, status.phases, strict=True)
            if not phase.final and (trial := family.trials.get(name)) is not None and jobs_of(family, name)
        ]
        if turning.waits:
            name, why = next(iter(sorted(turning.waits.items())))
            conditions.append(statuses.condition("Stalled", True, "JobWaits", f"{name}: {why}"))
        if status.phase.final:
            conditions.append(statuses.condition("Complete", True, status.phase.value, status.message))
        entries = headlines(ledger.spec, ledger.plan, ledger.throughputs)
        before, wall = seen.status, time.time()
        generation = ledger.generation
        new = statuses.experiment(
            before,
            generation,
            status,
            current,
            entries,
            best_efficiency(entries),
            statuses.conditions(before, conditions, generation, wall),
            wall,
            began=turning.started_at,
        )
        if new == before or new == turning.published:
            return
        # First, for whoever is killed in between finds the phase written and has nothing to tell any more.
        await self.notices.experiment(key, seen, before, new)
        await self._write_status(key, seen, new)
        turning.published, turning.published_at = new, now

    async def _write_status(self, key: Key, seen: ExperimentSeen, status: Object) -> None:
        body = {
            "apiVersion": EXPERIMENTS.api_version,
            "kind": EXPERIMENTS.kind,
            # The uid keeps a status from an experiment that was deleted and made anew under the same name.
            "metadata": {"name": key.name, "namespace": key.namespace, "uid": seen.uid},
            "status": status,
        }
        try:
            written = await self.cluster.apply(EXPERIMENTS, key.namespace, body, "status")
        except Refused as refused:
            if refused.status not in (404, 409):
                raise
            # A watch that began anew has not told that it was deleted, or made anew.
            found = await self.cluster.get(EXPERIMENTS, key.namespace, key.name)
            if found is None:
                self.sightings.lose_experiment(seen.body)
            else:
                self.sightings.see_experiment(found)
            self.nudge(key, 0.0)
            return
        self.sightings.see_experiment(written)
        self.sightings.wrote(EXPERIMENTS.plural, int(written["metadata"]["resourceVersion"]))

    async def _refuse(self, key: Key, seen: ExperimentSeen, refusal: NotRunnable) -> None:
        condition = statuses.condition("Accepted", False, "InvalidSpec", str(refusal))
        status = statuses.refused(seen.status, seen.generation, str(refusal), condition, time.time())
        await self._write_status(key, seen, status)
        await self.notices.experiment(key, seen, {}, status)
        self._leave(key)

    async def _missing_runner(self, key: Key, ledger: Ledger) -> Object | None:
        """A condition that says which job kind is not installed, and which are; None when all is there."""
        kind = ledger.runner(ledger.names[0])
        resource = Resource(kind.group, kind.version, kind.plural, kind.kind)
        if await self._has(resource):
            return None
        self.nudge(key, _MISSING_S)
        self._make_room(key)
        return statuses.condition("Admitted", False, "RunnerMissing", await self.looking.missing_runner(kind))

    async def _has(self, resource: Resource) -> bool:
        known = self.installed.get(resource)
        if known is None or time.monotonic() - known[1] > (300 if known[0] else _MISSING_S):
            known = self.installed[resource] = (
                resource.group == "batch" or await self.cluster.has(resource),
                time.monotonic(),
            )
        return known[0]

    def _unfinished(self, family: Family, seen: ExperimentSeen) -> bool:
        """Whether a finished experiment still has jobs to remove."""
        return bool(family.jobs) and "total" in seen.status

    async def _after_the_end(self, key: Key, family: Family, seen: ExperimentSeen) -> None:
        self._leave(key)
        ttl = (seen.body.get("spec") or {}).get("ttlSecondsAfterFinished")
        ended = seen.status.get("endedAt")
        if ttl is None or ended is None:
            return
        left = statuses.unix(ended) + ttl - time.time()
        if left > 0:
            self.nudge(key, left + 0.1)
        else:
            await self.cluster.delete(EXPERIMENTS, key.namespace, key.name, "Background", seen.uid)

    def _leave(self, key: Key) -> None:
        """Forget what only an unfinished experiment needs, and let the next of its pool have its turn."""
        self.turning.pop(key, None)
        self._make_room(key)

    def _make_room(self, key: Key) -> None:
        """Let the next of its pool have its turn, once nothing of this one's jobs is in the way."""
        family = self.sightings.families.get(key)
        if family is not None and family.experiment is not None and family.jobs:
            return
        for other in self.admission.leave(key):
            self.nudge(other, 0.0)


def _allowed(actions: Sequence[Action], beginning: Set[str]) -> list[Action]:
    """Actions to take up beside attempts that are just being begun.

    As many attempts may begin as ``decide`` names, and those under way, of which it cannot see a job yet, are among
    them: even where it names others by now, for trials were deleted, there is no more room than that.
    """
    room = sum(isinstance(action, Start) for action in actions) - len(beginning)
    allowed = []
    for action in actions:
        if isinstance(action, Start) and action.trial not in beginning:
            if room <= 0:
                continue
            room -= 1
        allowed.append(action)
    return allowed


async def _at_once(work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Do work on several trials, some of it at a time. What fails stops nothing else, and is raised at the end."""
    room = asyncio.Semaphore(_AT_ONCE)

    async def one(coroutine: Coroutine[Any, Any, T]) -> T:
        async with room:
            return await coroutine

    ends = await asyncio.gather(*map(one, work), return_exceptions=True)
    for end in ends:
        if isinstance(end, BaseException):
            raise end
    return [end for end in ends if not isinstance(end, BaseException)]
