"""Runs submitted units as tasks, for stores whose `run` is a coroutine."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod

from headway.errors import StoreUnavailableError
from headway.store.unit import Done, Unit


class Submissions(ABC):
    """Runs each submitted unit as a task of its own."""

    def __init__(self) -> None:
        self._submitted: set[asyncio.Task[None]] = set()

    @abstractmethod
    async def run(self, unit: Unit) -> None:
        """Run a unit in one transaction; on return its changes are durable."""

    def submit(self, unit: Unit, done: Done) -> None:
        """Begin to run a unit; `done` is called on the event loop, once, when it has ended."""
        task = asyncio.get_running_loop().create_task(self._run(unit, done))
        self._submitted.add(task)
        task.add_done_callback(self._submitted.discard)

    async def _run(self, unit: Unit, done: Done) -> None:
        try:
            await self.run(unit)
        except asyncio.CancelledError:
            done(StoreUnavailableError("the event loop has ended meanwhile", maybe_committed=True))
            raise
        except Exception as error:  # noqa: BLE001 - it is passed to the caller
            done(error)
        else:
            done(None)
