"""Leader election by a Lease, as Kubernetes' own components do it: hold it, renew it, stop without it.

The clocks of others are never read: a lease counts as expired if its version has not changed for its duration,
measured here (as client-go does). kopf's peering freezes two operators of equal priority instead of letting one work.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from scalecurve_kube.cluster import Cluster
from scalecurve_kube.errors import ApiStatusError, UnreachableError
from scalecurve_kube.resources import LEASES, Object

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class LeaderElector:
    """The lease as this process knows it; ``on_change`` is called with whether it leads."""

    cluster: Cluster
    namespace: str
    name: str
    identity: str
    seconds: float
    on_change: Callable[[bool], None] = lambda leading: None
    lease: Object | None = field(init=False, default=None)
    renewed: float = field(init=False, default=0.0)

    @property
    def leading(self) -> bool:
        """Whether the lease is ours for now, by our own clock."""
        return self.lease is not None and time.monotonic() - self.renewed < self.seconds

    async def acquire(self, standby: Callable[[str], None]) -> None:
        """Return once the lease is ours; ``standby`` is called with who holds it, or why it cannot be taken."""
        version, unchanged_since, reason = None, 0.0, None
        while True:
            duration = self.seconds
            try:
                if (lease := await self.cluster.get(LEASES, self.namespace, self.name)) is None:
                    if await self._create():
                        return
                    continue
                spec = lease["spec"]
                holder = spec.get("holderIdentity") or ""
                duration = float(spec.get("leaseDurationSeconds") or self.seconds)
                if lease["metadata"]["resourceVersion"] != version:
                    version, unchanged_since = lease["metadata"]["resourceVersion"], time.monotonic()
                if holder in ("", self.identity) or time.monotonic() - unchanged_since >= duration:
                    if await self._take(lease):
                        return
                    continue
                current = f"is held by {holder}"
            except (ApiStatusError, UnreachableError) as error:
                current = f"cannot be taken: {error}"
            if current != reason:
                standby(reason := current)
            await asyncio.sleep(min(1.0, duration / 5))

    async def keep(self) -> None:
        """Renew forever; returns when the lease is lost, and then nothing more may be written."""
        await asyncio.sleep(self.seconds / 3)
        while await self._renew():
            await asyncio.sleep(self.seconds / 3)
        self.lease = None
        self.on_change(False)

    async def release(self) -> None:
        """Let the next operator begin at once."""
        lease, self.lease = self.lease, None
        self.on_change(False)
        if lease is not None:
            try:
                released = {**lease, "spec": {**lease["spec"], "holderIdentity": ""}}
                await self.cluster.replace(LEASES, self.namespace, released)
            except (ApiStatusError, UnreachableError) as error:
                logger.warning("the lease was not released: %s", error)

    async def _renew(self) -> bool:
        """Retry while the lease is ours: only the answer to an earlier try may have been lost."""
        path = LEASES.path(self.namespace, self.name)
        while self.lease is not None and (left := self.seconds - (time.monotonic() - self.renewed)) > 0:
            try:
                if await self._take(self.lease, patience_s=left):
                    return True
                current = await self.cluster.request("GET", path, patience_s=left)
                if current["spec"].get("holderIdentity") != self.identity:
                    logger.error("the lease %s/%s was taken by another operator", self.namespace, self.name)
                    return False
                self.lease = current
            except (ApiStatusError, UnreachableError) as error:
                logger.warning("the lease %s/%s was not renewed: %s", self.namespace, self.name, error)
            await asyncio.sleep(min(0.2, self.seconds / 20))
        logger.error("the lease %s/%s could not be renewed in time", self.namespace, self.name)
        return False

    async def _create(self) -> bool:
        began = time.monotonic()
        body = {**LEASES.body(name=self.name, namespace=self.namespace), "spec": self._spec(transitions=0)}
        return self._took(began, await self.cluster.create(LEASES, self.namespace, body))

    async def _take(self, lease: Object, patience_s: float = 5.0) -> bool:
        began, old = time.monotonic(), lease["spec"]
        ours = old.get("holderIdentity") == self.identity
        new = self._spec(int(old.get("leaseTransitions") or 0) + (0 if ours else 1))
        if ours:
            new["acquireTime"] = old.get("acquireTime") or new["acquireTime"]
        try:
            body = {**lease, "spec": {**old, **new}}
            return self._took(began, await self.cluster.replace(LEASES, self.namespace, body, patience_s))
        except ApiStatusError as refused:
            if refused.status in (404, 409):
                return False
            raise

    def _took(self, began: float, lease: Object | None) -> bool:
        if lease is None:
            return False
        self.lease, self.renewed = lease, began
        self.on_change(True)
        return True

    def _spec(self, transitions: int) -> Object:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        fixed = {"holderIdentity": self.identity, "leaseDurationSeconds": max(1, round(self.seconds))}
        return {**fixed, "renewTime": now, "acquireTime": now, "leaseTransitions": transitions}
