"""When to claim: at once when there is room and work, and in few calls for many items."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from headway.engine.service import Service
from headway.worker.running import Attempts, Running

ENOUGH = 0.25
"""While work is plenty, this part of the capacity is to be free before more is claimed,"""
LONGEST_PATIENCE = 0.05
"""but nobody waits longer for it than so many seconds."""


class Claims(Service):
    """Claims when it is worth it: woken by new work, by room, and every second in case it was not told."""

    name = "worker"

    def __init__(
        self, attempts: Attempts, claim: Callable[[], Awaitable[bool]], monotonic: Callable[[], float]
    ) -> None:
        super().__init__()
        self._attempts, self._claim, self._monotonic = attempts, claim, monotonic
        self._alarm: asyncio.TimerHandle | None = None
        self._patient_until = 0.0
        self.more_waits = False

    async def turn(self) -> bool:
        """Claim; what there may be more of wakes the service when there is room for it."""
        if self._is_worth_it():
            self._patient_until = self._monotonic() + LONGEST_PATIENCE
            await self._claim()
        elif self._attempts.room > 0:
            self.wake_in(LONGEST_PATIENCE)
        return False

    def _is_worth_it(self) -> bool:
        room = self._attempts.room
        return room > 0 and (self._is_enough(room) or self._patient_until <= self._monotonic())

    def _is_enough(self, room: int) -> bool:
        return room >= self._attempts.capacity * ENOUGH

    def room_made(self, running: Running) -> None:
        """An attempt has ended: there is room for another, and one with the same key may run."""
        if self.more_waits or running.row.concurrency is not None:
            if self._is_enough(self._attempts.room):
                self.wake()
            else:
                self.wake_in(LONGEST_PATIENCE)

    def wake_in(self, seconds: float) -> None:
        """There will be something to do; of several alarms the first counts, as it looks for all."""
        loop = asyncio.get_running_loop()
        at = loop.time() + seconds
        if self._alarm is not None and self._alarm.when() <= at:
            return
        self.forget_alarm()
        self._alarm = loop.call_at(at, self._ring)

    def forget_alarm(self) -> None:
        """No longer wake."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _ring(self) -> None:
        self._alarm = None
        self.wake()
