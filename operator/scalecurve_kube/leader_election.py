"""One operator at a time: a Lease that this one holds, renews, and steps down without.

kopf's peering freezes two operators of equal rank instead of letting one work; a Lease is what Kubernetes' own
components use. The time of others' clocks is never read: a lease counts as dead when its holder's version of it has
not changed for its duration, measured here (as client-go does it).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime

from scalecurve_kube.client import LEASES, Cluster, Object, Refused, Unreachable
from scalecurve_operator.metrics import LEADING

logger = logging.getLogger(__name__)


class Leadership:
    """The lease as this process knows it."""

    def __init__(self, cluster: Cluster, namespace: str, name: str, identity: str, seconds: float) -> None:
        self.cluster, self.namespace, self.name = cluster, namespace, name
        self.identity, self.seconds = identity, seconds
        self.lease: Object | None = None
        self.renewed = 0.0
        self.holder: str | None = None
        """who holds it, when it is not us"""

    @property
    def held(self) -> bool:
        """Whether it is ours for now, by our own clock."""
        return self.lease is not None and time.monotonic() - self.renewed < self.seconds

    async def acquire(self, waiting: Callable[[str], None]) -> None:
        """Return once the lease is ours; ``waiting`` is told who has it, or why it cannot be had."""
        seen: tuple[str, float] | None = None
        told = None
        while True:
            patience = self.seconds
            try:
                lease = await self.cluster.get(LEASES, self.namespace, self.name)
                if lease is None:
                    if await self._create():
                        return
                    continue
                spec = lease["spec"]
                holder, version = spec.get("holderIdentity") or "", lease["metadata"]["resourceVersion"]
                if seen is None or seen[0] != version:
                    seen = (version, time.monotonic())
                patience = float(spec.get("leaseDurationSeconds") or self.seconds)
                if holder in ("", self.identity) or time.monotonic() - seen[1] >= patience:
                    if await self._take(lease):
                        return
                    continue
                self.holder = holder
                why = f"is held by {holder}"
            except (Refused, Unreachable) as error:
                why = f"cannot be had: {error}"
            if why != told:
                told = why
                waiting(why)
            await asyncio.sleep(min(1.0, patience / 5))

    async def keep(self) -> None:
        """Renew for ever; returns when the lease is lost, and then nothing more may be written."""
        await asyncio.sleep(self.seconds / 3)
        while await self._renew():
            await asyncio.sleep(self.seconds / 3)
        self.lease = None
        LEADING.set(0)

    async def _renew(self) -> bool:
        """Renew, again and again while it is ours: the answer to an earlier try may only have been lost."""
        path = LEASES.path(self.namespace, self.name)
        while self.lease is not None and (left := self.seconds - (time.monotonic() - self.renewed)) > 0:
            try:
                if await self._take(self.lease, patience_s=left):
                    return True
                found: Object = await self.cluster.request("GET", path, patience_s=left)
                if found["spec"].get("holderIdentity") != self.identity:
                    logger.error("the lease %s/%s was taken by another operator", self.namespace, self.name)
                    return False
                self.lease = found
            except (Refused, Unreachable) as error:
                logger.warning("the lease %s/%s was not renewed: %s", self.namespace, self.name, error)
            await asyncio.sleep(min(0.2, self.seconds / 20))
        logger.error("the lease %s/%s could not be renewed in time", self.namespace, self.name)
        return False

    async def release(self) -> None:
        """Let the next operator begin at once."""
        lease, self.lease = self.lease, None
        LEADING.set(0)
        if lease is not None:
            try:
                await self.cluster.replace(LEASES, self.namespace, _with(lease, holderIdentity=""))
            except (Refused, Unreachable) as error:
                logger.warning("the lease was not released: %s", error)

    async def _create(self) -> bool:
        body = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": self.name, "namespace": self.namespace},
            "spec": self._spec(transitions=0),
        }
        return self._took(time.monotonic(), await self.cluster.create(LEASES, self.namespace, body))

    async def _take(self, lease: Object, patience_s: float = 5.0) -> bool:
        ours = lease["spec"].get("holderIdentity") == self.identity
        transitions = int(lease["spec"].get("leaseTransitions") or 0) + (0 if ours else 1)
        began = time.monotonic()
        new = self._spec(transitions)
        if ours:
            new["acquireTime"] = lease["spec"].get("acquireTime") or new["acquireTime"]
        body = {**lease, "spec": {**lease["spec"], **new}}
        try:
            path = LEASES.path(self.namespace, self.name)
            return self._took(began, await self.cluster.request("PUT", path, body, patience_s=patience_s))
        except Refused as refused:
            if refused.status in (404, 409):
                return False
            raise

    def _took(self, began: float, lease: Object | None) -> bool:
        if lease is None:
            return False
        self.lease, self.renewed, self.holder = lease, began, None
        LEADING.set(1)
        return True

    def _spec(self, transitions: int) -> Object:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": max(1, round(self.seconds)),
            "renewTime": now,
            "acquireTime": now,
            "leaseTransitions": transitions,
        }


def _with(lease: Object, **spec: object) -> Object:
    return {**lease, "spec": {**lease["spec"], **spec}}
