"""A node that restarts under its name takes over the leases of its previous process at once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from headway.engine.engine import Engine
from headway.engine.service import LOG, Service
from headway.errors import StoreError

SHORT_REST = 0.2
LONG_REST = 5.0
SHORT_RESTS = 25
"""The end of a process may become known after the next one starts: so many tries follow quickly."""


class Takeover(Service):
    """Takes the name of a node, which ends the leases of the process that had it before.

    The name is free only when that process has certainly ended: if two processes run under one name by
    mistake, the second takes nothing from the first. `taken` is called when the name is taken.
    """

    name = "takeover"

    def __init__(self, engine: Engine, node: str, worker: str, taken: Callable[[], None]) -> None:
        super().__init__()
        self._store, self._node, self._worker, self._taken = engine.store, node, worker, taken
        self._has_name = False
        self._tries = 0

    async def start(self) -> None:
        """Take the name before anything else starts, if it is free; else try in the background."""
        with suppress(StoreError):  # the first turn in the background logs it
            await self.turn()
        await super().start()

    async def turn(self) -> bool:
        """Take the name, or check that this process still has it."""
        had = self._has_name
        self._has_name = await self._store.leases.take_name(self._node, self._worker)
        self._tries += 1
        if self._has_name and not had:
            self._taken()
            await self._store.announce(["leases"])
        elif not self._has_name and self._tries == SHORT_RESTS:
            LOG.warning(
                "another process runs as node %s: give each process a name of its own; work of the other is"
                " taken over only when its leases expire",
                self._node,
            )
        return False

    async def rest(self) -> float:
        """A moment while the name may soon become free, longer afterwards."""
        return LONG_REST if self._has_name or self._tries > SHORT_RESTS else SHORT_REST
