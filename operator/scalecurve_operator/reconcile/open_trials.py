"""What open trials need besides that which ``lifecycle`` decides: companions, a closer look, a word of progress."""

from __future__ import annotations

import time
from collections.abc import Callable

from scalecurve_api.crds.status import one_line
from scalecurve_api.lifecycle import Decision
from scalecurve_api.spec.trial import TrialPhase
from scalecurve_operator.cache.object_cache import Family, Key
from scalecurve_operator.cache.trial_index import jobs_of
from scalecurve_operator.reconcile.actions import Acting
from scalecurve_operator.reconcile.job_probe import Looking
from scalecurve_operator.reconcile.reconciliation import IN_THE_WAY, Turning
from scalecurve_operator.reconcile.task_pool import at_once
from scalecurve_operator.settings import Settings


class Tending:
    """The open trials of every experiment; ``nudge(key, after)`` asks for a further turn."""

    def __init__(
        self, settings: Settings, acting: Acting, looking: Looking, nudge: Callable[[Key, float], None]
    ) -> None:
        self.settings, self.acting, self.looking, self.nudge = settings, acting, looking, nudge

    async def accompany(self, key: Key, family: Family, turning: Turning) -> None:
        """See to it that no job stands without what belongs to it, or say so."""
        ledger = turning.ledger
        newest = [jobs[-1] for place in ledger.open if (jobs := jobs_of(family, ledger.names[place]))]
        standing = [job for job in newest if not job.deleting]
        for job in standing:
            if job.trial not in family.trials:
                said = f"{job.body['kind']} {job.body['metadata']['name']} is there, and its trial is not"
                turning.hindered[job.trial] = IN_THE_WAY, said
        alone = [job for job in standing if not job.accompanied and job.trial in family.trials]
        await at_once([self.acting.accompany(key, family, ledger, job) for job in alone])
        if any(job.given_up for job in alone):
            self.nudge(key, 0.0)

    async def look_after(self, key: Key, family: Family, turning: Turning) -> bool:
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
            left = self.looking.time_left(turning.ledger, name, jobs[-1])
            due = max(turning.checked.get(name, jobs[-1].first_seen), jobs[-1].first_seen) + every
            if (wait := min(due - now, left)) > 0:
                self.nudge(key, wait + 0.01)
                continue
            turning.checked[name] = now
            look = await self.looking.look(key, family, turning.ledger, name)
            changed = changed or look.changed
            if look.waiting:
                turning.waits[name] = one_line(look.waiting, 512)  # as it will be written
            else:
                turning.waits.pop(name, None)
            self.nudge(key, min(every, left if left > 0 else every) + 0.01)
        return changed

    async def progress(
        self, key: Key, family: Family, turning: Turning, decision: Decision, names: tuple[str, ...]
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
        await at_once(writing)
