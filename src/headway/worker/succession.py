"""A node that comes back under its name takes up at once what its last process has left behind."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from headway.engine.engine import Engine
from headway.engine.service import LOG, Service
from headway.errors import StoreError

SOON = 0.2
LATER = 5.0
TRIES_SOON = 25
"""The end of a process may be known a moment later than its next one starts: so often it looks soon again."""


class Succession(Service):
    """Takes the name of a node, and ends the leases of the process that had it before.

    The name is free only when it is certain that this process has ended: of two that live under one name by
    mistake, the second takes nothing from the first. `taken` is called when the name is taken.
    """

    name = "succession"

    def __init__(self, engine: Engine, node: str, worker: str, taken: Callable[[], None]) -> None:
        super().__init__()
        self._store, self._node, self._worker, self._taken = engine.store, node, worker, taken
        self._has_name = False
        self._tries = 0

    async def start(self) -> None:
        """Take the name before anything else begins, if it is free; else look for it in the background."""
        with suppress(StoreError):  # the first turn in the background tells of it
            await self.turn()
        await super().start()

    async def turn(self) -> bool:
        """Take the name, or see that it is still this process's."""
        had = self._has_name
        self._has_name = await self._store.leases.take_name(self._node, self._worker)
        self._tries += 1
        if self._has_name and not had:
            self._taken()
            await self._store.announce(["leases"])
        elif not self._has_name and self._tries == TRIES_SOON:
            LOG.warning(
                "another process runs as node %s: give each process a name of its own; work of the other is"
                " taken up only when its leases end",
                self._node,
            )
        return False

    async def rest(self) -> float:
        """A moment while the name may become free, longer afterwards."""
        return LATER if self._has_name or self._tries > TRIES_SOON else SOON
