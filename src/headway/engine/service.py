"""Background services: one way to start, wake and stop timers, workers, relays and everything else."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from math import inf
from typing import Self

from headway.clock import backoff
from headway.engine.engine import Engine
from headway.errors import EngineError, StoreError
from headway.store.unit import Changes

LOG = logging.getLogger("headway")
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0


class Component(ABC):
    """What a node starts, wakes and stops: a service, or a worker, which is made of several.

    `tally` counts what it has done.
    """

    name = "component"

    def __init__(self) -> None:
        self.tally: Counter[str] = Counter()

    @abstractmethod
    async def start(self) -> None:
        """Run in the background; raises EngineError if it already runs."""

    @abstractmethod
    async def stop(self) -> None:
        """Stop running; a component that does not run stays as it is."""

    @abstractmethod
    def wake(self) -> None:
        """Look for something to do now."""

    @abstractmethod
    async def turn(self) -> bool:
        """Do once what is due now; True if there may be more. Tests call it instead of `start`."""

    async def __aenter__(self) -> Self:
        """Run for the length of a block."""
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop at the end of the block."""
        await self.stop()


class Service(Component):
    """A loop of turns: the next one at once while there is more to do, else when woken or after a rest.

    A turn that raises is repeated after a pause that grows with each failure in a row.
    """

    name = "service"
    longest_rest = 1.0
    transient: tuple[type[Exception], ...] = (StoreError,)
    """Errors of something else that will recover: logged in one line, without a traceback."""

    def __init__(self) -> None:
        super().__init__()
        self._woken = asyncio.Event()
        self._loop: asyncio.Task[None] | None = None
        self._is_over = False

    async def rest(self) -> float:
        """Seconds until the next turn, unless the service is woken."""
        return self.longest_rest

    def wake(self) -> None:
        """Take a turn now."""
        self._woken.set()

    async def start(self) -> None:
        """Begin to take turns in the background; raises EngineError if it already does."""
        if self._loop is not None:
            raise EngineError(f"the service {self.name} runs already: stop it before you start it again")
        self._is_over = False
        self._loop = asyncio.create_task(self._run(), name=f"headway {self.name}")

    async def stop(self) -> None:
        """Take no further turn; a turn under way is cancelled."""
        if self._loop is not None:
            # A library that the turn calls may swallow the cancellation; then this turn is the last one.
            self._is_over = True
            self.wake()
            self._loop.cancel()
            await asyncio.gather(self._loop, return_exceptions=True)
            self._loop = None

    async def _run(self) -> None:
        failures = 0
        while not self._is_over:
            self._woken.clear()
            pause = backoff(failures + 1, base=FIRST_PAUSE, cap=LONGEST_PAUSE)
            try:
                rest = 0.0 if await self.turn() else await self.rest()
            except self.transient as error:
                LOG.warning("%s: %s; going on in %.1f s", self.name, error, pause)
            except (Exception, asyncio.CancelledError) as error:
                # A library may raise a cancellation of its own that nobody asked for.
                if isinstance(error, asyncio.CancelledError) and self._is_asked_to_stop():
                    raise
                LOG.exception("%s failed; going on in %.1f s", self.name, pause)
            else:
                failures = 0
                await self._pause(rest)
                continue
            # Not to be woken: otherwise each commit would make it fail, and log, again.
            await asyncio.sleep(pause)
            failures += 1

    def _is_asked_to_stop(self) -> bool:
        return self._is_over or self._loop is None or self._loop.cancelling() > 0

    async def _pause(self, seconds: float) -> None:
        """Rest until woken, and let other tasks run even if there is no rest."""
        # Not wait_for: before Python 3.12 it may swallow the cancellation that stops the service.
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        await asyncio.sleep(0)


class ScheduledService(Service):
    """A service that rests until its next item is due by the monotonic clock: one timer for all items."""

    longest_rest = 60.0

    def __init__(self, monotonic: Callable[[], float]) -> None:
        super().__init__()
        self.monotonic = monotonic
        self._next_turn = inf

    @abstractmethod
    def next_due(self) -> float:
        """When the next item is due."""

    def schedule(self, at: float) -> None:
        """Take a turn at this time, or earlier."""
        if at < self._next_turn:
            self._next_turn = at
            self.wake()

    async def rest(self) -> float:
        """Seconds until the next item is due."""
        self._next_turn = self.next_due()
        return max(0.0, min(self._next_turn - self.monotonic(), self.longest_rest))


class WatchingService(Service):
    """A service that sees every commit of its engine while it runs, and decides whether to wake up."""

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self._engine, self._store = engine, engine.store

    @abstractmethod
    def look(self, changes: Changes) -> None:
        """Look at what was committed; called on the event loop."""

    async def start(self) -> None:
        """Begin to take turns, and to see commits."""
        if self._loop is None:
            self._engine.watch(self.look)
        await super().start()

    async def stop(self) -> None:
        """Take no further turn, and see no more commits."""
        if self._loop is not None:
            self._engine.unwatch(self.look)
        await super().stop()
