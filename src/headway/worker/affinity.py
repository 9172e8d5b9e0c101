"""Live resources (a browser, a connection) that stay in this process between the states of an instance.

Work with the same `affinity` is claimed by the worker that holds the resource.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable
from logging import getLogger
from math import inf
from typing import Any

from headway.errors import ResourceTakenError
from headway.store.port import Store
from headway.store.rows import InstanceRow, Key, WorkRow

LOG = getLogger("headway.worker")


class LiveResource:
    """A resource, its instance, and until when this worker holds it by the monotonic clock."""

    __slots__ = ("beat_at", "close", "heartbeat", "instance", "lease", "until", "value")

    def __init__(self, row: WorkRow, value: object, close: Callable[[], object] | None) -> None:
        self.value = value
        self.close = close
        self.instance: Key = (row.tenant, row.instance)
        self.lease, self.heartbeat = row.lease, row.heartbeat / 1_000
        self.until = self.beat_at = inf

    def extend(self, at: float) -> None:
        """The lease was granted; it counts from this time, at which it was asked for."""
        self.until = at + self.lease / 1_000
        self.beat_at = at + self.heartbeat


class LiveResources:
    """The live resources of a worker by affinity, each under a lease."""

    def __init__(self, store: Store, worker: str, monotonic: Callable[[], float]) -> None:
        self._store, self._worker, self._monotonic = store, worker, monotonic
        self._held: dict[Key, LiveResource] = {}
        self._closings: set[asyncio.Task[None]] = set()

    def get(self, affinity: Key) -> Any:
        """The resource that this worker holds under an affinity, or None."""
        resource = self._held.get(affinity)
        return None if resource is None else resource.value

    async def is_lost(self, affinity: Key) -> bool:
        """Whether a worker held a resource under this affinity and ended without releasing it."""
        return affinity not in self._held and await self._store.leases.get(affinity) is not None

    async def hold(
        self, affinity: Key, row: WorkRow, value: object, close: Callable[[], object] | None
    ) -> None:
        """Hold a resource in place of the one before; raises ResourceTakenError."""
        resource, now = LiveResource(row, value, close), self._monotonic()
        if affinity not in await self._store.leases.hold([affinity], self._worker, resource.lease):
            raise ResourceTakenError(f"another worker holds a resource for {affinity[1]}")
        resource.extend(now)
        before = self._held.get(affinity)
        self._held[affinity] = resource
        if before is not None and before.value is not value:
            await _close(affinity, before)

    async def release(self, affinity: Key) -> None:
        """Close the resource of an affinity, and release its lease."""
        resource = self._held.pop(affinity, None)
        if resource is not None:
            await _close(affinity, resource)
            await self._store.leases.release([affinity], self._worker)

    async def close(self) -> None:
        """Close all resources; without the database their leases expire by themselves."""
        for failure in await asyncio.gather(*map(self.release, list(self._held)), return_exceptions=True):
            if failure is not None:
                LOG.warning("the lease of a live resource could not be released: %s", failure)
        await asyncio.gather(*self._closings)

    def next_beat(self) -> float:
        """When the next lease has to be extended."""
        return min((resource.beat_at for resource in self._held.values()), default=inf)

    def next_expiry(self) -> float:
        """When the next lease expires."""
        return min((resource.until for resource in self._held.values()), default=inf)

    async def beat(self, now: float) -> None:
        """Extend the leases that are due; close what is lost, or whose instance has ended."""
        due = {affinity: resource for affinity, resource in self._held.items() if resource.beat_at <= now}
        if not due:
            return
        for lease in {resource.lease for resource in due.values()}:
            affinities = [affinity for affinity, resource in due.items() if resource.lease == lease]
            granted = set(await self._store.leases.hold(affinities, self._worker, lease))
            for affinity in affinities:
                if affinity in granted:
                    due[affinity].extend(now)
                else:
                    self._drop(affinity, due[affinity])
        instances = {resource.instance for resource in due.values()}
        live = {
            (row.tenant, row.id) for row in await self._store.instances.look_up(instances) if not row.ended
        }
        for instance in instances - live:
            self._release_all(instance)

    def expire(self, now: float) -> None:
        """Close what another worker may hold by now."""
        for affinity, resource in list(self._held.items()):
            if resource.until <= now:
                self._drop(affinity, resource)

    def follow(self, rows: Iterable[InstanceRow]) -> None:
        """Close the resources of instances that have ended."""
        if self._held:
            for row in rows:
                if row.ended:
                    self._release_all((row.tenant, row.id))

    def _release_all(self, instance: Key) -> None:
        for affinity, resource in list(self._held.items()):
            if resource.instance == instance:
                self._spawn(self.release(affinity))

    def _drop(self, affinity: Key, resource: LiveResource) -> None:
        if self._held.get(affinity) is resource:
            del self._held[affinity]
            self._spawn(_close(affinity, resource))

    def _spawn(self, closing: Any) -> None:
        task = asyncio.ensure_future(closing)
        self._closings.add(task)
        task.add_done_callback(self._closings.discard)


async def _close(affinity: Key, resource: LiveResource) -> None:
    try:
        closing = resource.close() if resource.close is not None else None
        if inspect.isawaitable(closing):
            await closing
    except Exception:
        LOG.exception("the live resource %s could not be closed", affinity[1])
