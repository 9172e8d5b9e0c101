"""Signs of life: leases are extended in time, and what this worker has no lease of any more is stopped."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from headway.store.port import Store
from headway.worker.punctual import Punctual
from headway.worker.resources import Resources
from headway.worker.running import Attempts, Running

EARLY = 0.5
"""With the first that is due, all are extended whose heartbeat is due within this part of it."""


class Heartbeat(Punctual):
    """Extends the leases of what runs, in one call for all that are due."""

    name = "heartbeat"

    def __init__(
        self,
        store: Store,
        worker: str,
        attempts: Attempts,
        resources: Resources,
        *,
        monotonic: Callable[[], float],
    ) -> None:
        super().__init__(monotonic)
        self._store, self._worker = store, worker
        self._attempts, self._resources = attempts, resources

    def next_due(self) -> float:
        """When the next lease is to be extended."""
        attempts = min((running.beat_at for running in self._attempts.held.values()), default=inf)
        return min(attempts, self._resources.next_beat())

    async def turn(self) -> bool:
        """Extend what is due; an attempt that this worker does not hold any more is lost."""
        now = self.monotonic()
        if self.next_due() <= now:
            due = [running for running in self._attempts.held.values() if _beats_early(running) <= now]
            if due:
                await self._extend(due, now)
            await self._resources.beat(now)
        return False

    async def _extend(self, due: list[Running], now: float) -> None:
        kept = set(await self._store.work.extend(self._worker, [running.attempt for running in due]))
        for running in due:
            running.beat_at = now + running.row.heartbeat / 1_000
            if running.key in kept:
                running.lease_until = now + running.row.lease / 1_000
            else:
                self._attempts.cancel(running, "lost")


def _beats_early(running: Running) -> float:
    return running.beat_at - EARLY * running.row.heartbeat / 1_000


class Deadlines(Punctual):
    """Stops what takes longer than its timeout, and what may be another worker's: its lease ran out."""

    name = "deadlines"

    def __init__(
        self,
        attempts: Attempts,
        resources: Resources,
        give_up: Callable[[Running], None],
        *,
        patience: float,
        monotonic: Callable[[], float],
    ) -> None:
        """`give_up` is called with one that has not ended within `patience` seconds after it was stopped."""
        super().__init__(monotonic)
        self._attempts, self._resources = attempts, resources
        self._give_up, self._patience = give_up, patience

    def next_due(self) -> float:
        """When the next deadline passes, or the next lease runs out."""
        running = (each for each in self._attempts.held.values() if not each.ending)
        attempts = min((min(each.deadline, each.lease_until) for each in running), default=inf)
        return min(attempts, self._resources.next_lapse())

    async def turn(self) -> bool:
        """Stop what is over; asks nobody, so that it works when the database does not."""
        now = self.monotonic()
        for running in list(self._attempts.held.values()):
            if running.ending:
                continue
            if running.lease_until <= now:
                self._attempts.cancel(running, "lost")
                self._attempts.let_linger(running)
            elif running.deadline <= now:
                self._pass(running, now)
        self._resources.lapse(now)
        return False

    def _pass(self, running: Running, now: float) -> None:
        if running.cancelled == "timeout":
            self._give_up(running)
        else:
            running.deadline = inf if running.cancelled else now + self._patience
            self._attempts.cancel(running, "timeout")
