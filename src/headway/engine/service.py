"""What runs in the background: one shape for timers, workers, relays and upkeep."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import Counter
from contextlib import suppress
from typing import Self

from headway.clock import backoff
from headway.errors import EngineError, StoreError

LOG = logging.getLogger("headway")
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0


class Service(ABC):
    """Takes turns: at once while there is more to do, else when it is woken or has rested.

    A turn that finds gone what it needs, such as the database, is taken again after a pause; work goes on
    when it is back.
    Tests call `turn` themselves and never start the loop.
    """

    name = "service"
    longest_rest = 1.0
    passing: tuple[type[Exception], ...] = (StoreError,)
    """Errors whose cause is elsewhere and will be gone: a line tells of them, not a traceback."""

    def __init__(self) -> None:
        self.tally: Counter[str] = Counter()
        self._woken = asyncio.Event()
        self._loop: asyncio.Task[None] | None = None
        self._is_over = False

    @abstractmethod
    async def turn(self) -> bool:
        """Do what is to be done now; True when there may be more."""

    async def rest(self) -> float:
        """For how many seconds there is nothing to do, unless someone wakes the service."""
        return self.longest_rest

    def wake(self) -> None:
        """There may be something to do."""
        self._woken.set()

    async def start(self) -> None:
        """Begin to take turns in the background; raises EngineError when it does so already."""
        if self._loop is not None:
            raise EngineError(f"the service {self.name} runs already: stop it before you start it again")
        self._is_over = False
        self._loop = asyncio.create_task(self._run(), name=f"headway {self.name}")

    async def stop(self) -> None:
        """Take no further turn; a turn under way is interrupted where it waits."""
        if self._loop is not None:
            # A turn may lose the cancellation to a library that it has called; then it is its last one.
            self._is_over = True
            self.wake()
            self._loop.cancel()
            await asyncio.gather(self._loop, return_exceptions=True)
            self._loop = None

    async def __aenter__(self) -> Self:
        """Run for the length of a block."""
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop at the end of the block."""
        await self.stop()

    async def _run(self) -> None:
        failures = 0
        while not self._is_over:
            self._woken.clear()
            pause = backoff(failures + 1, base=FIRST_PAUSE, cap=LONGEST_PAUSE)
            try:
                rest = 0.0 if await self.turn() else await self.rest()
            except self.passing as error:
                LOG.warning("%s: %s; going on in %.1f s", self.name, error, pause)
            except (Exception, asyncio.CancelledError) as error:
                # A library may let out a cancellation of its own, which nobody has asked for.
                if isinstance(error, asyncio.CancelledError) and self._is_asked_to_stop():
                    raise
                LOG.exception("%s failed; going on in %.1f s", self.name, pause)
            else:
                failures = 0
                await self._pause(rest)
                continue
            # Nobody wakes it: whoever commits meanwhile would have it fail, and say so, each time.
            await asyncio.sleep(pause)
            failures += 1

    def _is_asked_to_stop(self) -> bool:
        return self._is_over or self._loop is None or self._loop.cancelling() > 0

    async def _pause(self, seconds: float) -> None:
        """Rest, but let others run even when there is no rest."""
        # Not wait_for: before Python 3.12 it may swallow the cancellation that stops the service.
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        await asyncio.sleep(0)
