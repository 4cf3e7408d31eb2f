"""One turn over one experiment: look, let ``lifecycle`` decide, act; until nothing is left to do. Level-triggered.

All state is in the cluster and in ``Sightings``; a turn may be cut anywhere, by a kill too, and the next one goes on.
An attempt's number is claimed in its trial's status, against the version seen, before its job is created: whoever
looks at an older version is refused, and so nobody runs a trial twice.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence, Set
from functools import partial

from scalecurve_api.lifecycle import Action, Clean, Collect, Start, Stop, decide
from scalecurve_kube.client import EXPERIMENTS, Cluster, Object, Refused
from scalecurve_operator.cache.object_cache import ExperimentSeen, Family, Key, Sightings
from scalecurve_operator.cache.trial_index import Ledger, abandoned, open_ledger
from scalecurve_operator.metrics import RECONCILE, show
from scalecurve_operator.reconcile.actions import Acting
from scalecurve_operator.reconcile.admission import Admission
from scalecurve_operator.reconcile.installed_kinds import MISSING_S, Installed
from scalecurve_operator.reconcile.job_probe import Looking
from scalecurve_operator.reconcile.open_trials import Tending
from scalecurve_operator.reconcile.read_spec import NotRunnable, read_experiment
from scalecurve_operator.reconcile.reconciliation import IN_THE_WAY, REFUSED, Turning
from scalecurve_operator.reconcile.status_writer import PUBLISH_EVERY_S, Publishing
from scalecurve_operator.reconcile.task_pool import AT_ONCE, Hands
from scalecurve_operator.reconcile.trial_objects import Conflict, InTheWay
from scalecurve_operator.settings import Settings
from scalecurve_operator.status import render as statuses
from scalecurve_operator.status.events import Notices

_IN_THE_WAY_S = 2.0
"""What stands in a trial's way is looked at so often."""

logger = logging.getLogger(__name__)


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
        self.turning: dict[Key, Turning] = {}
        self.admission = Admission(settings, sightings)
        notices = Notices(cluster)
        self.acting = Acting(cluster, settings, sightings, notices)
        self.tending = Tending(settings, self.acting, Looking(cluster, settings, sightings), nudge)
        self.publishing = Publishing(cluster, sightings, notices, nudge)
        self.installed = Installed(cluster)

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
            await self.acting.remove(key, family)
            await self.publishing.refuse(key, seen, refusal)
            self._leave(key)
            return
        ledger = turning.ledger
        conditions = [statuses.condition("Accepted", True, "Valid", f"{len(ledger.names)} trials planned")]
        missing = await self._missing_runner(key, ledger)
        until = time.monotonic() + PUBLISH_EVERY_S
        turning.beginning.clear()
        turning.hindered.clear()
        turning.refusal = None
        async with Hands(AT_ONCE) as hands:
            while True:
                ledger.note(family, self._touched(family))
                window = ledger.window(family)
                decision = decide(
                    ledger.spec, window.names, window.observed, settled=window.settled, unbegun=window.unbegun
                )
                wants = missing is None and not ledger.spec.suspend and not decision.status.phase.final
                may_start = wants and self.admission.ask(key, seen, bool(family.jobs))
                actions = [each for each in decision.actions if may_start or not isinstance(each, Start)]
                if decision.status.phase.final:
                    # Cancelled between the claim of an attempt and its job: nothing else would ever end it.
                    actions += [Stop(name) for name in abandoned(family, ledger.uid) if name in ledger.index]
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
        await self.tending.accompany(key, family, turning)
        overdue = await self.tending.look_after(key, family, turning)
        await self.tending.progress(key, family, turning, decision, window.names)
        await self.publishing.publish(key, family, turning, decision, window.names, conditions)
        if ended:
            self._leave(key)
        if overdue or (late and actions):
            self.nudge(key, 0.0)
        if turning.refusal is not None:
            raise turning.refusal

    def _turning(self, key: Key, family: Family, seen: ExperimentSeen) -> Turning:
        known = self.turning.get(key)
        if known is None or (known.ledger.uid, known.ledger.generation) != (seen.uid, seen.generation):
            family.touched.clear()
            ledger = open_ledger(read_experiment(seen.body), seen.uid, seen.generation, family)
            known = self.turning[key] = Turning(ledger)
        return known

    def _touched(self, family: Family) -> set[str]:
        touched, family.touched = family.touched, set()
        return touched

    async def _act(self, key: Key, family: Family, turning: Turning, action: Action) -> bool:
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
        except InTheWay as found:
            turning.hindered[name] = IN_THE_WAY, str(found)
            self.nudge(key, _IN_THE_WAY_S)
            return False
        except Refused as refused:
            # Told first, and then the turn has failed: it is repeated, later each time.
            turning.hindered[name], turning.refusal = (REFUSED, f"the API server refuses: {refused.message}"), refused
            return False
        except Conflict as conflict:
            logger.info("%s: %s; looking again", key, conflict)
            self.nudge(key, 0.5)
            return False
        finally:
            if not isinstance(action, Start):
                turning.checked.pop(name, None)
                turning.waits.pop(name, None)

    async def _missing_runner(self, key: Key, ledger: Ledger) -> Object | None:
        """A condition that says which job kind is not installed, and which are; None when all is there."""
        missing = await self.installed.missing(ledger.runner(ledger.names[0]))
        if missing is None:
            return None
        self.nudge(key, MISSING_S)
        self._make_room(key)
        return statuses.condition("Admitted", False, "RunnerMissing", missing)

    def _unfinished(self, family: Family, seen: ExperimentSeen) -> bool:
        """Whether a finished experiment still has jobs to remove, or attempts to end."""
        return "total" in seen.status and bool(family.jobs or abandoned(family, seen.uid))

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
