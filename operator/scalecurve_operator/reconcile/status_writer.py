"""An experiment's own status: when it is due, what it says, and written against the object that it is of."""

from __future__ import annotations

import time
from collections.abc import Callable

from scalecurve_api.lifecycle import Decision
from scalecurve_kube.client import EXPERIMENTS, Cluster, Object, Refused
from scalecurve_operator.cache.object_cache import ExperimentSeen, Family, Key, Sightings
from scalecurve_operator.cache.trial_index import jobs_of
from scalecurve_operator.reconcile.read_spec import NotRunnable
from scalecurve_operator.reconcile.reconciliation import Turning
from scalecurve_operator.status import render as statuses
from scalecurve_operator.status.events import Notices
from scalecurve_operator.status.headlines import best_efficiency, headlines

PUBLISH_EVERY_S = 2.0


class Publishing:
    """Of every experiment in one cluster; ``nudge(key, after)`` asks for a further turn."""

    def __init__(
        self, cluster: Cluster, sightings: Sightings, notices: Notices, nudge: Callable[[Key, float], None]
    ) -> None:
        self.cluster, self.sightings, self.notices, self.nudge = cluster, sightings, notices, nudge

    async def publish(
        self,
        key: Key,
        family: Family,
        turning: Turning,
        decision: Decision,
        names: tuple[str, ...],
        conditions: list[Object],
    ) -> None:
        """Write the status where it says something new, and not more often than people can read."""
        seen, status, ledger, now = family.experiment, decision.status, turning.ledger, time.monotonic()
        if seen is None or seen.uid != ledger.uid:
            return
        due = turning.published_at + PUBLISH_EVERY_S
        first = not turning.published and not seen.status.get("phase")
        if not (first or status.phase.final or now >= due or seen.status.get("phase") != status.phase.value):
            self.nudge(key, due - now)
            return
        current = [
            statuses.current_trial(name, ledger.trial(name), phase, trial.status or {})
            for name, phase in zip(names, status.phases, strict=True)
            if not phase.final and (trial := family.trials.get(name)) is not None and jobs_of(family, name)
        ]
        if turning.hindered:
            name, (reason, why) = next(iter(sorted(turning.hindered.items())))
            conditions.append(statuses.condition("Stalled", True, reason, f"{name}: {why}"))
        elif turning.waits:
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
        await self._write(key, seen, new)
        turning.published, turning.published_at = new, now

    async def refuse(self, key: Key, seen: ExperimentSeen, refusal: NotRunnable) -> None:
        """Say of an experiment that it can never run."""
        condition = statuses.condition("Accepted", False, "InvalidSpec", str(refusal))
        status = statuses.refused(seen.status, seen.generation, str(refusal), condition, time.time())
        await self._write(key, seen, status)
        await self.notices.experiment(key, seen, {}, status)

    async def _write(self, key: Key, seen: ExperimentSeen, status: Object) -> None:
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
