"""ScalingTrial objects: made, read whole, and written against the version that was seen."""

from __future__ import annotations

from scalecurve_api.spec.object_names import labels
from scalecurve_kube.client import EXPERIMENTS, TRIALS, Cluster, Object, Refused
from scalecurve_operator.cache.object_cache import Family, Key, Sightings, TrialSeen
from scalecurve_operator.cache.trial_index import Ledger
from scalecurve_operator.reconcile.job_objects import owner_reference, owners


class Conflict(Exception):
    """What we saw is not what is there any more; look again."""


class InTheWay(Conflict):
    """Something is there under a name of ours that is not ours, and may stay."""


class TrialObjects:
    """Of every experiment in one cluster."""

    def __init__(self, cluster: Cluster, sightings: Sightings) -> None:
        self.cluster, self.sightings = cluster, sightings

    async def make(self, key: Key, family: Family, ledger: Ledger, name: str) -> TrialSeen:
        """Make the object of a trial.

        Raises:
            Conflict: when it is there already, or came meanwhile.
        """
        body: Object = {
            "apiVersion": TRIALS.api_version,
            "kind": TRIALS.kind,
            "metadata": {
                "name": name,
                "namespace": key.namespace,
                "labels": labels(key.name),
                "ownerReferences": [{**owner_reference(EXPERIMENTS, key.name, ledger.uid), "controller": True}],
            },
            "spec": ledger.trial(name).wire(),
        }
        made = await self.cluster.create(TRIALS, key.namespace, body)
        if made is None:
            # Somebody made it whom our watch has not shown yet, and may have gone on with it.
            found = await self.cluster.get(TRIALS, key.namespace, name)
            if found is not None:
                self.sightings.see_trial(found)
                if ledger.uid not in owners(found):
                    raise InTheWay(f"ScalingTrial {name} is there, and not of this experiment")
            raise Conflict(f"{name} is there already")
        self.sightings.see_trial(made)
        self.sightings.wrote(TRIALS.plural, int(made["metadata"]["resourceVersion"]))
        return self._seen(family, name)

    async def status(self, key: Key, name: str, trial: TrialSeen) -> Object:
        """A trial's whole status; of one that had ended it is fetched."""
        if trial.status is None:
            found = await self.cluster.get(TRIALS, key.namespace, name)
            if found is None or int(found["metadata"]["resourceVersion"]) != trial.version:
                self._see_or_lose(key, name, trial, found)
                raise Conflict(f"{name} has changed")
            trial.status = found.get("status") or {}
        return trial.status

    async def look_again(self, key: Key, name: str, trial: TrialSeen) -> None:
        """Ask for a trial that may have gone, or be another by now."""
        self._see_or_lose(key, name, trial, await self.cluster.get(TRIALS, key.namespace, name))

    def _see_or_lose(self, key: Key, name: str, trial: TrialSeen, found: Object | None) -> None:
        """A trial as it is; that it was deleted, a watch which began anew has never told."""
        if found is not None:
            self.sightings.see_trial(found)
        else:
            gone = {"name": name, "namespace": key.namespace, "uid": trial.uid, "labels": labels(key.name)}
            self.sightings.lose_trial({"metadata": gone})

    async def write(self, key: Key, family: Family, name: str, trial: TrialSeen, status: Object) -> TrialSeen:
        """Write a trial's status against the version that was seen."""
        body = {
            "apiVersion": TRIALS.api_version,
            "kind": TRIALS.kind,
            "metadata": {"name": name, "uid": trial.uid, "resourceVersion": str(trial.version)},
            "status": status,
        }
        try:
            written = await self.cluster.apply(TRIALS, key.namespace, body, "status")
        except Refused as refused:
            if refused.status not in (404, 409):
                raise
            await self.look_again(key, name, trial)
            raise Conflict(f"{name}: {refused.message}") from refused
        self.sightings.see_trial(written)
        self.sightings.wrote(TRIALS.plural, int(written["metadata"]["resourceVersion"]))
        return self._seen(family, name)

    def _seen(self, family: Family, name: str) -> TrialSeen:
        if name not in family.trials:
            raise Conflict(f"{name} was deleted meanwhile")
        return family.trials[name]
