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

from scalebench_operator.cluster import LEASES, Cluster, Object, Refused, Unreachable
from scalebench_operator.metrics import LEADING

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
        """Return once the lease is ours; ``waiting`` is told who has it."""
        seen: tuple[str, float] | None = None
        while True:
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
            if holder != self.holder:
                self.holder = holder
                waiting(holder)
            await asyncio.sleep(min(1.0, patience / 5))

    async def keep(self) -> None:
        """Renew for ever; returns when the lease is lost, and then nothing more may be written."""
        while True:
            await asyncio.sleep(self.seconds / 3)
            assert self.lease is not None
            try:
                left = self.seconds - (time.monotonic() - self.renewed)
                if not await self._take(self.lease, patience_s=max(0.1, left)):
                    logger.error("the lease %s/%s was taken by another operator", self.namespace, self.name)
                    break
            except Unreachable:
                logger.error("the lease %s/%s could not be renewed in time", self.namespace, self.name)
                break
        self.lease = None
        LEADING.set(0)

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
        body = {**lease, "spec": {**lease["spec"], **self._spec(transitions)}}
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
